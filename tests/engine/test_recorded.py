"""The recorded checkpoints of Spark 3.5.9 and 4.3.0, read without Spark."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.checkpoint.format.names import ROCKSDB
from flinkish.engine.errors import StateFormatError
from flinkish.engine.rows.encodings import split_key, split_value
from flinkish.engine.stores.files import local_store
from flinkish.engine.stores.store_rows import count_rows, read_store
from tests.support.checkpoints.recorded import NAMES, unpack
from tests.support.engine.handwritten_state import rows, store
from tests.support.engine.local_stores import stores


def unframed(checkpoint: Path) -> Counter[tuple[str, int, tuple[bytes, ...], bytes]]:
    """All rows of a checkpoint as UnsafeRows: (store or family, partition, key, value)."""
    found: Counter[tuple[str, int, tuple[bytes, ...], bytes]] = Counter()
    for s in stores(checkpoint):
        for block in read_store(s.files, s.shapes):
            name = s.name or block.family
            for key, value in zip(block.keys, block.values, strict=True):
                keys = split_key(key) if block.framed else (key,)
                for row in split_value(value) if block.framed else [value]:
                    found[name, s.partition, keys, row] += 1
    return found


def test_every_store_is_read_and_checked(recorded: Path) -> None:
    found = list(stores(recorded))
    assert found
    for s in found:
        counts = count_rows(s.files, s.shapes)
        assert counts.total > 0
        assert set(counts.families) <= set(s.shapes)
        if counts.recorded is not None:
            assert counts.total == counts.recorded


@pytest.mark.parametrize(
    "names",
    [
        ("spark35-rocksdb-agg", "spark43-hdfs-agg", "spark43-changelog-agg"),
        ("spark43-rocksdb-dedup", "spark43-ids-zip-dedup"),
        ("spark35-hdfs-join", "spark43-ids-join", "spark43-changelog-join3"),
    ],
)
def test_one_query_has_one_state_whatever_holds_it(names: tuple[str, ...], tmp_path: Path) -> None:
    """The same query over the same input: backends, versions and formats agree in every byte."""
    first, *others = (unframed(unpack(name, tmp_path)) for name in names)
    assert first
    for other in others:
        assert other == first


def test_a_list_that_rocksdb_has_not_merged_yet_is_whole(tmp_path: Path) -> None:
    """Spark's own counter of each list is the oracle; the lists have delimiters in them."""
    delimiters = 0
    for s in stores(unpack("spark43-rocksdb-tws", tmp_path)):
        families = {block.family: block for block in read_store(s.files)}
        lists, counters = families["values"], families["$rowCounter_values"]
        assert lists.keys == counters.keys
        for value, counter in zip(lists.values, counters.values, strict=True):
            records = split_value(value)
            assert len(records) == int.from_bytes(split_value(counter)[0][8:16], "little")
            delimiters += len(value) - sum(len(row) + 5 for row in records)
    assert delimiters > 0


def digests(directory: Path) -> dict[str, str]:
    return {
        str(p.relative_to(directory)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in directory.rglob("*")
        if p.is_file()
    }


@pytest.mark.parametrize("name", [name for name in NAMES if "hdfs" not in name])
def test_reading_leaves_source_and_scratch_as_they_were(name: str, tmp_path: Path) -> None:
    checkpoint, scratch = unpack(name, tmp_path), tmp_path / "scratch"
    scratch.mkdir()
    before = digests(checkpoint)
    for s in stores(checkpoint):
        files = replace(s.files, scratch=str(scratch))
        linked = rows(files)
        copied = rows(replace(files, local_path=lambda _: None))
        assert linked == copied
        iterator = read_store(files)
        next(iterator)
        assert len(list(scratch.iterdir())) == 1
        iterator.close()  # type: ignore[attr-defined]
        assert list(scratch.iterdir()) == []
    assert digests(checkpoint) == before


SNAPSHOT_STORE = "state/0/0"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A RocksDB store of version 7 that is a snapshot only, with several SSTs."""
    return unpack("spark43-rocksdb-dedup", tmp_path) / SNAPSHOT_STORE


def damage_each(path: Path, damages: list[Callable[[bytes], bytes]], store_at: Path) -> list[str]:
    """Read the store with each damage of one file: names in errors; "" where nothing changed."""
    wanted = rows(local_store(str(store_at), 7, ROCKSDB))
    assert len(wanted) == 56
    whole = path.read_bytes()
    named = []
    for damage in damages:
        path.write_bytes(damage(whole))
        try:
            # Whatever is given without an error has to be all rows as they were.
            assert rows(local_store(str(store_at), 7, ROCKSDB)) == wanted
            named.append("")
        except StateFormatError as error:
            named.append(error.file)
    path.write_bytes(whole)
    return named


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :]


def cut(size: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:size]


def test_damaged_ssts_are_noticed(snapshot: Path) -> None:
    """Among them bits of data blocks, at which the binding's iteration ends without a word."""
    chosen = random.Random(5)
    for path in sorted((snapshot / "SSTs").glob("0*.sst")):
        size = path.stat().st_size
        flips = [flip(chosen.randrange(size * 8)) for _ in range(60)]
        named = damage_each(path, flips, snapshot)
        assert named.count("7.zip") > 30
        cuts = [cut(chosen.randrange(size)) for _ in range(8)]
        assert set(damage_each(path, cuts, snapshot)) == {f"SSTs/{path.name}"}
        path.rename(path.with_suffix(".away"))
        with pytest.raises(StateFormatError, match=f"{path.name}: the file is missing"):
            count_rows(local_store(str(snapshot), 7, ROCKSDB))
        path.with_suffix(".away").rename(path)


def test_damaged_archives_are_noticed(snapshot: Path) -> None:
    path = snapshot / "7.zip"
    size = path.stat().st_size
    chosen = random.Random(7)
    assert set(damage_each(path, [cut(n) for n in range(0, size, 97)], snapshot)) == {"7.zip"}
    named = damage_each(path, [flip(chosen.randrange(size * 8)) for _ in range(120)], snapshot)
    assert set(named) <= {"7.zip", ""}
    assert named.count("7.zip") > 60


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((b"v1\n", b"v9\n"), "snapshot metadata version v9 is newer"),
        ((b"sstFiles", b"other"), "unknown form"),
        ((b'"localFileName":"0', b'"localFileName":"../0'), "outside the store"),
        ((b'"dfsSstFileName":"0', b'"dfsSstFileName":"/0'), "outside the store"),
        ((b'"sizeBytes":1', b'"sizeBytes":7'), "bytes where the snapshot says"),
    ],
)
def test_foreign_metadata_is_refused(
    snapshot: Path, change: tuple[bytes, bytes], reason: str
) -> None:
    with zipfile.ZipFile(snapshot / "7.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["metadata"] = members["metadata"].replace(*change)
    with zipfile.ZipFile(snapshot / "7.zip", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(StateFormatError, match=reason):
        count_rows(local_store(str(snapshot), 7, ROCKSDB))


def test_members_that_leave_the_directory_are_refused(snapshot: Path) -> None:
    with zipfile.ZipFile(snapshot / "7.zip", "a") as archive:
        archive.writestr("../evil", b"x")
    with pytest.raises(StateFormatError, match="outside the store"):
        count_rows(local_store(str(snapshot), 7, ROCKSDB))


def test_keys_of_unknown_families_are_refused(tmp_path: Path) -> None:
    place = unpack("spark43-changelog-join3", tmp_path) / SNAPSHOT_STORE
    with zipfile.ZipFile(place / "7.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    changed = members["metadata"].replace(b'left-keyToNumValues":2', b'left-keyToNumValues":9')
    assert changed != members["metadata"]
    with zipfile.ZipFile(place / "7.zip", "w") as archive:
        for name, data in {**members, "metadata": changed}.items():
            archive.writestr(name, data)
    with pytest.raises(StateFormatError, match="unknown column family 2"):
        count_rows(local_store(str(place), 7, ROCKSDB))


def test_a_store_on_storage_without_local_paths(snapshot: Path) -> None:
    contents = {
        os.path.relpath(p, snapshot): p.read_bytes() for p in snapshot.rglob("*") if p.is_file()
    }
    wanted = rows(local_store(str(snapshot), 7, ROCKSDB))
    shutil.rmtree(snapshot)
    assert rows(store(contents, 7, ROCKSDB)) == wanted
