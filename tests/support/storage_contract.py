"""What every storage must do, run against each of them: ``StorageContract``."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.errors import StorageError
from flinkish.savepoint.format import digests
from flinkish.storage.locations import has_queries


class StorageContract:
    """Subclasses give a fixture ``root``: an empty location that can be written.

    ``many`` is how many files the tests of many files use: more than S3 lists or deletes at once.
    """

    many = 1100

    @pytest.fixture
    def root(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def full(self, root: str) -> str:
        """``root`` with a/x (3 bytes), a/b/y (0 bytes) and a hidden file."""
        for path, data in {"a/x": b"123", "a/b/y": b"", "a/.hidden": b"h"}.items():
            storage.make_directory(storage.parent(storage.join(root, path)))
            storage.write_bytes(storage.join(root, path), data)
        return root

    def test_written_bytes_are_read(self, root: str) -> None:
        for size in (0, 1, 70_000):
            data = os.urandom(size)
            path = storage.join(root, f"f{size}")
            storage.make_directory(root)
            storage.write_bytes(path, data)
            assert storage.read_bytes(path) == data
            assert storage.size_of(path) == size
            assert storage.read_head(path, 10) == data[:10]
            assert storage.read_tail(path, size, 10) == data[-10:]
            with storage.open_file(path) as file:
                file.seek(size // 2)
                assert file.read() == data[size // 2 :]

    def test_writing_again_replaces(self, root: str) -> None:
        path = storage.join(root, "f")
        storage.make_directory(root)
        storage.write_bytes(path, b"long content")
        before = storage.list_directory(root).stamp("f")
        time.sleep(0.02)
        storage.write_atomically(path, b"short")
        assert storage.read_bytes(path) == b"short"
        assert storage.list_directory(root).stamp("f") != before
        assert storage.list_names(root) == ["f"]

    def test_listing(self, full: str) -> None:
        listing = storage.list_directory(storage.join(full, "a"))
        assert sorted(listing.files) == ["x"]
        assert listing.directories == ("b",)
        assert listing.size("x") == 3
        assert abs(listing.modified("x") - time.time()) < 120
        assert sorted(storage.list_names(storage.join(full, "a"))) == ["b", "x"]
        assert sorted(storage.list_names(storage.join(full, "a"), hidden=True)) == [
            ".hidden",
            "b",
            "x",
        ]
        walked = {path: entry.size() for path, entry in storage.walk_files(full)}
        assert walked == {"a/x": 3, "a/b/y": 0}

    def test_what_is_not_there(self, root: str) -> None:
        gone = storage.join(root, "no", "where")
        assert storage.list_directory(gone).files == {}
        assert storage.list_names(gone) == []
        assert list(storage.walk_files(gone)) == []
        assert not storage.exists(gone)
        assert not storage.is_directory(gone)
        for read in (storage.read_bytes, storage.open_file, storage.size_of):
            with pytest.raises(FileNotFoundError) as caught:
                read(gone)
            assert caught.value.filename is not None
        with pytest.raises(FileNotFoundError):
            storage.read_head(gone, 5)
        with pytest.raises(FileNotFoundError):
            storage.read_tail(gone, 20, 5)
        storage.remove_file(*storage.split(gone))
        storage.remove_files(root, ["no/where", "no/where2"])
        storage.remove_empty_directories(root, ["no/where"])
        assert storage.remove_tree(root, "no/where")

    def test_existence(self, full: str) -> None:
        assert storage.exists(storage.join(full, "a/x"))
        assert storage.is_directory(storage.join(full, "a"))
        assert not storage.is_directory(storage.join(full, "a/x"))

    def test_odd_names(self, root: str) -> None:
        storage.make_directory(root)
        names = ["a b", "ümlaut", "100%25", "x*[y]", "plus+&=", "q'uote"]
        if not has_queries(storage.scheme_of(root)):  # refused there, see locations.locate
            names += ["what?", "num#ber"]
        for name in names:
            storage.write_bytes(storage.join(root, name), name.encode())
        assert sorted(storage.list_names(root)) == sorted(names)
        for name in names:
            copy = storage.join(root, "copy " + name)
            storage.place(storage.join(root, name), copy)
            assert storage.read_bytes(copy) == name.encode()
        storage.remove_files(root, names)
        assert sorted(storage.list_names(root)) == sorted("copy " + name for name in names)

    @pytest.mark.parametrize("size", [0, 5, 300_000])
    def test_copies_within_the_storage(self, root: str, size: int) -> None:
        data = os.urandom(size)
        storage.make_directory(storage.join(root, "d"))
        source, target = storage.join(root, "s"), storage.join(root, "d/t")
        storage.write_bytes(source, data)
        entry = storage.list_directory(root).files["s"]
        placed = storage.place(source, target, stamp=entry.stamp(), size=entry.size())
        assert placed.size == size
        assert storage.read_bytes(target) == data
        assert storage.read_bytes(source) == data
        if placed.digest is not None:
            assert digests.matches(target, placed.digest)

    def test_a_replaced_source_is_not_taken_for_the_listed_one(self, root: str) -> None:
        storage.make_directory(root)
        source = storage.join(root, "s")
        storage.write_bytes(source, b"first")
        listing = storage.list_directory(root)
        entry = listing.files["s"]
        stamp, size = entry.stamp(), entry.size()
        time.sleep(0.02)
        storage.write_atomically(source, b"other")
        with pytest.raises(storage.Replaced):
            storage.place(source, storage.join(root, "t"), stamp=stamp, size=size)
        storage.remove_file(*storage.split(source))
        with pytest.raises(FileNotFoundError):
            storage.place(source, storage.join(root, "t"), stamp=stamp, size=size)

    def test_copies_from_and_to_the_local_disk(self, root: str, tmp_path: Path) -> None:
        for size in (0, 1000, storage_small() + 5):
            data = os.urandom(1000) * (size // 1000) + b"x" * (size % 1000)
            (tmp_path / "here").write_bytes(data)
            storage.make_directory(root)
            there = storage.join(root, f"there{size}")
            stat = storage.list_directory(str(tmp_path)).files["here"]
            sent = storage.place(str(tmp_path / "here"), there, stamp=stat.stamp())
            entry = storage.list_directory(root).files[f"there{size}"]
            back = storage.place(there, str(tmp_path / "back"), stamp=entry.stamp())
            assert (tmp_path / "back").read_bytes() == data
            for placed in (sent, back):
                assert placed.size == size
                assert placed.digest is None or digests.matches(there, placed.digest)

    def test_publishing(self, root: str, tmp_path: Path) -> None:
        storage.make_directory(root)
        target = storage.join(root, "_metadata")
        for data in (b"one", b"two" * 1000):
            temporary = Path(root if storage.is_local(root) else tmp_path) / uuid.uuid4().hex
            temporary.write_bytes(data)
            storage.publish_file(str(temporary), target)
            assert storage.read_bytes(target) == data
        assert storage.list_names(root) == ["_metadata"]

    def test_removing(self, full: str) -> None:
        a = storage.join(full, "a")
        storage.remove_empty_directories(full, ["a", "a/b"])
        assert storage.exists(storage.join(a, "b/y"))  # neither was empty
        storage.remove_files(a, ["b/y", ".hidden"])
        storage.remove_file(full, "a/x")
        storage.remove_empty_directories(full, ["a", "a/b"])
        assert not storage.exists(a)

    def test_removing_trees(self, full: str) -> None:
        assert storage.remove_tree(full, "a")
        assert not storage.exists(storage.join(full, "a"))
        assert storage.list_names(full) == []

    def test_many_files(self, root: str) -> None:
        storage.make_directory(root)
        names = [f"f{number:04}" for number in range(self.many)]

        def write(name: str) -> str:
            storage.write_bytes(storage.join(root, name), name.encode())
            return name

        assert list(storage.in_flight(root, write, names)) == names
        assert sorted(storage.list_directory(root).files) == names
        storage.remove_files(root, names)
        assert storage.list_names(root) == []

    def test_the_first_error_ends_it(self, root: str) -> None:
        storage.make_directory(root)
        done: list[int] = []

        def work(number: int) -> int:
            if number == 3:
                raise StorageError("three")
            done.append(number)
            return number

        with pytest.raises(StorageError, match="three"):
            list(storage.in_flight(root, work, range(100_000)))
        assert len(done) < 5_000


def storage_small() -> int:
    """The size up to which files pass through memory in one piece."""
    from flinkish.storage.remote import SMALL

    return SMALL
