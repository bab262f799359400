from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from flinkish import storage
from flinkish.errors import StorageError
from flinkish.storage import local
from flinkish.storage.listing import LocalEntry


def test_place_links_and_replaces(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "b").write_bytes(b"old")
    assert storage.place(str(tmp_path / "a"), str(tmp_path / "b")) == storage.PlacedFile(3, True)
    assert os.path.samefile(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("absolute", [True, False])
def test_place_takes_the_file_that_a_link_leads_to(tmp_path: Path, *, absolute: bool) -> None:
    (tmp_path / "live").write_bytes(b"123")
    (tmp_path / "link").symlink_to(tmp_path / "live" if absolute else "live")
    (tmp_path / "savepoint").mkdir()
    target = tmp_path / "savepoint/file"
    assert storage.place(str(tmp_path / "link"), str(target)) == storage.PlacedFile(3, True)
    (tmp_path / "live").unlink()
    assert target.read_bytes() == b"123"


def test_place_copies_across_file_systems(tmp_path: Path, other_disk: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    placed = storage.place(str(tmp_path / "a"), str(other_disk / "b"))
    assert placed == storage.PlacedFile(3, False)
    assert (other_disk / "b").read_bytes() == b"123"


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs /proc")
@pytest.mark.parametrize("target", ["{}/copy", "memory:/{}/copy"], ids=["local", "remote"])
def test_a_source_that_cannot_be_read_is_not_a_target_that_cannot_be_written(
    target: str, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match="cannot read /proc/self/mem: Input/output error"):
        storage.place("/proc/self/mem", target.format(tmp_path), link=False)


def test_place_tells_a_gone_source_from_a_refused_target(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        storage.place(str(tmp_path / "gone"), str(tmp_path / "b"))
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StorageError):
        storage.place(str(tmp_path / "a"), str(tmp_path / "a" / "b"))


def test_remove_empty_directories_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "x/y/z").mkdir(parents=True)
    (tmp_path / "x/full").mkdir()
    (tmp_path / "x/full/file").write_text("")
    storage.remove_empty_directories(str(tmp_path), ["x", "x/y", "x/y/z", "x/full", "never"])
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "full", "x"]


@pytest.mark.parametrize("prefix", ["", "file:"])
def test_output_to_an_open_file_goes_where_that_file_stands(tmp_path: Path, prefix: str) -> None:
    """As with ``-o /dev/stdout > out``: the link stays, and what was written stays."""
    link = tmp_path / "stdout"
    with (tmp_path / "out").open("wb", buffering=0) as out:
        link.symlink_to(f"/dev/fd/{out.fileno()}")
        out.write(b"before ")
        storage.write_output(f"{prefix}{link}", b"data")
        out.write(b" after")
    assert (tmp_path / "out").read_bytes() == b"before data after"
    assert link.is_symlink()


def test_output_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    (tmp_path / "link").symlink_to("out")
    storage.write_output(str(tmp_path / "link"), b"new")
    assert (tmp_path / "out").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "null").symlink_to("/dev/null")
    storage.write_output(f"file:{tmp_path}/null", b"nothing")
    assert not (tmp_path / "null").is_file()
    with pytest.raises(StorageError):
        storage.write_output("/dev/fd/99999", b"data")


def test_uri(tmp_path: Path) -> None:
    assert storage.to_uri(str(tmp_path)) == f"file:{tmp_path}"


def test_hidden_files_are_not_listed(tmp_path: Path) -> None:
    """Hadoop's checksums (``.x.crc``) and what is being written are not part of a checkpoint."""
    for name in ("1.delta", ".1.delta.crc", ".1.delta.c0ffee.tmp", "_metadata"):
        (tmp_path / name).write_bytes(b"x")
    for name in ("0", ".tmp"):
        (tmp_path / name).mkdir()
    listing = storage.list_directory(str(tmp_path))
    assert set(listing.files) == {"1.delta", "_metadata"}
    assert listing.directories == ("0",)


@pytest.mark.parametrize("ask", [storage.exists, storage.is_directory])
def test_an_error_of_the_disk_does_not_mean_that_nothing_is_there(
    ask: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    for absent in ("/dev/null/below", "/" + "x" * 300, "/nul\0"):
        assert not ask(absent)

    def fail(path: str) -> None:
        raise OSError(errno.ESTALE, "stale file handle", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        patch.setattr(os, "lstat", fail)
        with pytest.raises(StorageError, match="cannot read /savepoint: stale file handle"):
            ask("/savepoint")
        with pytest.raises(StorageError, match="cannot read /savepoint: stale file handle"):
            storage.size_of("/savepoint")
        with pytest.raises(StorageError, match="cannot read /savepoint: stale file handle"):
            local.check_stamp("/savepoint", "1-2")


def test_an_entry_that_may_be_listed_but_not_looked_at_is_refused() -> None:
    class Entry:
        path = "/listed/only"

        def stat(self, *, follow_symlinks: bool) -> os.stat_result:
            raise PermissionError(errno.EACCES, "Permission denied", self.path)

    with pytest.raises(StorageError, match="cannot read /listed/only: Permission denied"):
        LocalEntry(cast("os.DirEntry[str]", Entry())).size()
