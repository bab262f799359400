"""Every file and row of the recorded checkpoints, read and written again."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.checkpoint.format.names import HDFS, ROCKSDB
from flinkish.checkpoint.format.operator_files import (
    parse_operator_metadata,
    write_operator_metadata,
)
from flinkish.checkpoint.format.schema_files import (
    parse_schema_file,
    schema_version,
    write_schema_file,
)
from flinkish.engine.errors import EngineError, LostRows, UnsupportedState
from flinkish.engine.rows.encodings import join_list, normal_value, split_key, split_value
from flinkish.engine.rows.row_codec import compile_key, compile_schema
from flinkish.engine.stores.codecs import decompressed
from flinkish.engine.stores.files import local_store
from flinkish.engine.stores.records import (
    MERGE,
    PUT,
    REMOVE,
    Content,
    plain_records,
    read_changelog,
)
from flinkish.engine.stores.rocksdb_store import open_rocksdb_store
from flinkish.engine.stores.rocksdb_writer import Families, write_runs, write_snapshot
from flinkish.engine.stores.sst_files import SortedRows
from flinkish.engine.stores.store_rows import count_rows, read_store
from flinkish.engine.stores.writers import write_changelog, write_records
from tests.support.checkpoints.recorded import NAMES, fast_of, unpack
from tests.support.engine.handwritten_state import CODECS
from tests.support.engine.handwritten_state import store as store_of
from tests.support.engine.local_stores import stores
from tests.support.engine.reencoding_program import archived_metadata
from tests.support.engine.rewrite_checkpoint import creating, rewrite


def test_every_row_is_encoded_as_it_was(recorded: Path) -> None:
    rows = 0
    for s in stores(recorded):
        operator = recorded / "state" / str(s.operator)
        paths = [operator / "0" / s.name / "_metadata" / "schema"]
        paths += operator.glob("_stateSchema/*/[0-9]*")
        families = {
            family.name: family
            for path in paths
            if path.exists()
            for family in parse_schema_file(path.read_bytes(), path.name)
        }
        for block in read_store(s.files, s.shapes):
            family = families[block.family]
            keys = compile_key(family.key, family.encoder)
            batch = keys.decode(block.keys, framed=block.framed)
            assert keys.encode(batch, framed=block.framed) == block.keys
            codec = compile_schema(family.value)
            values = [split_value(v) if block.framed else [v] for v in block.values]
            flat = [row for found in values for row in found]
            assert codec.encode(codec.decode(flat)).rows() == flat
            rows += len(flat)
    assert rows


def test_every_file_is_written_as_it_was(recorded: Path) -> None:
    """Deltas, snapshots, changelogs of all versions, schemas, operator metadata: each byte."""
    seen: Counter[str] = Counter()
    for path in sorted((recorded / "state").rglob("*")):
        if not path.is_file() or path.name.startswith("."):
            continue
        data, again = path.read_bytes(), io.BytesIO()
        content = Content(decompressed(io.BytesIO(data), "lz4", path.name), path.name)
        kind = path.suffix
        if kind in {".delta", ".snapshot"}:
            assert write_records(again, plain_records(content)) > 0 or kind == ".delta"
        elif kind == ".changelog":
            log = read_changelog(content)
            write_changelog(again, log.changes(), version=log.version, lineage=log.lineage)
        elif path.name == "schema" or "_stateSchema" in path.parts:
            kind = "schema"
            again.write(
                write_schema_file(
                    parse_schema_file(data, path.name), schema_version(data, path.name)
                )
            )
        elif "_metadata" in path.parts:
            kind = "metadata"
            again.write(write_operator_metadata(parse_operator_metadata(data, path.name)))
        elif kind == ".zip":
            again.write(archived_metadata(path))
            with zipfile.ZipFile(path) as archive:
                data = archive.read("metadata")
        else:
            assert kind in {".sst", ".crc"}
            continue
        assert again.getvalue() == data, path
        seen[kind] += 1
    assert seen["schema"]
    assert seen[".delta"] or seen[".zip"] or seen[".changelog"]


@pytest.mark.parametrize("name", fast_of(NAMES))
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_rewritten_stores_have_the_same_rows(name: str, codec: str, tmp_path: Path) -> None:
    checkpoint = unpack(name, tmp_path)
    before = [raw_rows(s.files) for s in stores(checkpoint)]
    rewrite(checkpoint, codec)
    after = list(stores(checkpoint))
    assert all(s.files.compression == codec for s in after)
    for s, (rows, families) in zip(after, before, strict=True):
        assert raw_rows(s.files) == (rows, families)
        counts = count_rows(s.files, s.shapes)
        assert counts.total == len(rows)
        assert counts.recorded in {len(rows), None}
        assert (counts.recorded is None) == (s.files.backend == HDFS)


def raw_rows(files: Any) -> tuple[dict[bytes, list[bytes]], dict[int, str]]:
    """Rows as RocksDB has them; lists as their records, because their delimiters may go."""
    if files.backend == HDFS:
        found = {k: [v] for b in read_store(files) for k, v in zip(b.keys, b.values, strict=True)}
        return found, {}
    with open_rocksdb_store(files) as opened:
        rows = {key: split_value(value) for key, value in opened.rows()}
        return rows, opened.metadata.families


def test_a_snapshot_of_many_rows(tmp_path: Path) -> None:
    """More than one batch, several families, keys out of order; changes follow it."""
    families = Families({"default": 1, "$own": 2}, frozenset({"$own"}))
    wanted = {
        bytes([1 + i % 2, 0, 0]) + b"%07d" % (i * 7919 % 70_001): b"\x00" + b"v" * (i % 50)
        for i in range(70_000)
    }
    written = write_snapshot(
        wanted.items(), creating(tmp_path), "4.zip", families=families, scratch=str(tmp_path)
    )
    assert written == len(wanted)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["4.zip", "SSTs"]
    files = local_store(str(tmp_path), 4, ROCKSDB)
    counts = count_rows(files)
    assert counts.families == {"default": 35_000, "$own": 35_000}
    assert counts.recorded == counts.total == 70_000
    key = next(iter(wanted))
    with open(tmp_path / "5.changelog", "wb") as file:
        changes = [(REMOVE, key, b""), (PUT, b"\x01\x00\x00new", b"\x00x"), (MERGE, key, b"\x00y")]
        assert write_changelog(file, changes, version=2) == 3
    with open_rocksdb_store(local_store(str(tmp_path), 5, ROCKSDB)) as opened:
        rows = dict(opened.rows())
    assert rows == {**wanted, b"\x01\x00\x00new": b"\x00x", key: b"\x00y"}


@pytest.mark.parametrize(("rows", "ssts"), [(25_000, 3), (60_000, 1)])
def test_rows_sorted_in_several_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, ssts: int
) -> None:
    """Runs overlap; where there are many RocksDB merges them into SSTs that do not."""
    monkeypatch.setattr("flinkish.engine.stores.sst_files.MAX_RUN_BYTES", 1 << 16)
    wanted = {b"%06d" % (i * 7919 % rows): b"\x00" + b"v" * (i % 50) for i in range(rows)}
    assert len(wanted) == rows
    written = write_snapshot(wanted.items(), creating(tmp_path), "4.zip", scratch=str(tmp_path))
    assert written == rows
    assert sorted(p.name for p in tmp_path.iterdir()) == ["4.zip", "SSTs"]
    assert len(list((tmp_path / "SSTs").iterdir())) == ssts
    with open_rocksdb_store(local_store(str(tmp_path), 4, ROCKSDB)) as opened:
        assert list(opened.rows()) == sorted(wanted.items())


def test_files_of_sorted_rows_become_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers, whose keys alternate; the second family's id sorts before the first one's."""
    monkeypatch.setattr("flinkish.engine.stores.sst_files.MAX_RUN_BYTES", 1 << 14)
    families = Families({"default": 2, "$own": 1}, frozenset({"$own"}))
    wanted: dict[bytes, bytes] = {}
    writers = [SortedRows(str(tmp_path / f"run{number}")) for number in range(2)]
    counts: Counter[int | None] = Counter()
    for family in (2, 1):
        for start in range(0, 4_000, 500):
            for number, writer in enumerate(writers):
                keys = [b"%c\x00%06d" % (family, 2 * i + number) for i in range(start, start + 500)]
                values = [hashlib.sha256(key).digest() for key in keys]
                writer.add(family, keys, values)
                wanted.update(zip(keys, values, strict=True))
    for writer in writers:
        writer.finish()
        counts.update(writer.counts)
    with pytest.raises(LostRows, match="repeat"):
        writers[0].add(1, [b"\x01\x00b", b"\x01\x00a"], [b"", b""])
    runs = [writer.files[:-1] if writer is writers[0] else writer.files for writer in writers]
    assert all(len(files) > 10 for files in runs)
    adopted: list[str] = []

    def adopt(path: str, name: str) -> bool:
        adopted.append(name)
        os.makedirs(tmp_path / "new" / "SSTs", exist_ok=True)
        os.rename(path, tmp_path / "new" / name)
        return True

    for create, by in ((creating(tmp_path / "copied"), None), (creating(tmp_path / "new"), adopt)):
        assert write_runs(
            runs, counts, os.link, create, "4.zip", families=families, adopt=by
        ) == len(wanted)
    assert len(adopted) == sum(map(len, runs))
    for name in ("copied", "new"):
        files = local_store(str(tmp_path / name), 4, ROCKSDB)
        with open_rocksdb_store(files) as opened:
            assert list(opened.rows()) == sorted(wanted.items())
        assert count_rows(files).families == {"default": 8_000, "$own": 8_000}
        assert count_rows(files).recorded == 16_000


def test_keys_that_repeat_are_refused(tmp_path: Path) -> None:
    twice = [(b"a", b"\x001"), (b"b", b"\x002"), (b"a", b"\x003")]
    with pytest.raises(LostRows, match="repeat"):
        write_snapshot(twice, creating(tmp_path), "4.zip", scratch=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_what_no_snapshot_can_have_is_refused(tmp_path: Path) -> None:
    families = Families({"default": 1})
    for key in (b"\x07\x00key", b"\x01"):
        with pytest.raises(EngineError, match="unknown column family"):
            write_snapshot([(key, b"v")], creating(tmp_path), "1.zip", families=families)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("codec", CODECS)
def test_files_of_every_codec_are_read(codec: str) -> None:
    rows = [(b"key-%05d" % i, b"value" * (i % 30)) for i in range(5_000)]
    file = io.BytesIO()
    assert write_records(file, rows, codec) == len(rows)
    found: dict[bytes, bytes | None] = {}
    for block in read_store(store_of({"3.snapshot": file.getvalue()}, 3, compression=codec)):
        found.update(zip(block.keys, block.values, strict=True))
    assert found == dict(rows)
    with pytest.raises(UnsupportedState, match="unknown compression codec 'brotli'"):
        write_records(io.BytesIO(), rows, "brotli")


@pytest.mark.parametrize(
    ("version", "lineage", "changes", "reason"),
    [
        (5, None, [], "no changelog of version 5"),
        (1, [(1, "a")], [], "of version 1 with a lineage"),
        (4, None, [], "of version 4 without a lineage"),
        (1, None, [(MERGE, b"k", b"v")], "puts and removals only"),
        (2, None, [(7, b"k", b"v")], "no change of the kind 0x07"),
    ],
)
def test_changelogs_that_do_not_exist_are_refused(
    version: int, lineage: Any, changes: Any, reason: str
) -> None:
    with pytest.raises(EngineError, match=reason):
        write_changelog(io.BytesIO(), changes, version=version, lineage=lineage)


@given(st.lists(st.binary(max_size=3).map(lambda b: b"\x00" * 8 + b * 8), min_size=1, max_size=9))
def test_lists_are_taken_apart_again(rows: list[bytes]) -> None:
    rows = [row[: len(row) // 8 * 8] for row in rows]
    for delimiter in (b"", b","):
        assert split_value(join_list(rows, delimiter)) == rows
    assert split_key(join_list(rows[:1])) == (rows[0],)


def test_lists_are_written_with_one_delimiter(tmp_path: Path) -> None:
    """What Spark had not merged comes with commas, which its newer reader takes for sizes."""
    lists = changed = 0
    for s in stores(unpack("spark43-rocksdb-tws", tmp_path)):
        for block in read_store(s.files):
            for value in block.values:
                normal = normal_value(value)
                records = split_value(value)
                assert split_value(normal) == records
                lists += block.family == "values"
                changed += normal != value
                if block.family == "values":
                    assert len(normal) == sum(len(row) + 5 for row in records)
                else:
                    assert normal == value
    assert 0 < changed <= lists


def test_a_file_may_be_replaced_by_ours(tmp_path: Path) -> None:
    """A delta of Spark's after a snapshot of ours, on the same store."""
    checkpoint = unpack("spark43-hdfs-agg", tmp_path)
    partition = checkpoint / "state" / "0" / "0"
    newest = max(int(p.stem) for p in partition.glob("[0-9]*.delta"))
    wanted = raw_rows(local_store(str(partition), newest, HDFS))
    before = local_store(str(partition), newest - 1, HDFS)
    rows = [(k, v) for b in read_store(before) for k, v in zip(b.keys, b.values, strict=True)]
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.copy(partition / f"{newest}.delta", moved)
    with open(moved / f"{newest - 1}.snapshot", "wb") as file:
        write_records(file, rows)
    assert raw_rows(local_store(str(moved), newest, HDFS)) == wanted
