from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.checkpoint.operators import StateOnDisk
from flinkish.errors import Corrupt, NotSavepointable, SavepointNotFound, UnsupportedFormat
from flinkish.messages.requests import LeftOut
from flinkish.operators.identity import OperatorFacts, OperatorIdentity
from flinkish.savepoint.format import metadata
from flinkish.savepoint.format.contents import (
    FileRecord,
    Header,
    OperatorRecord,
    QueryRecord,
    SavepointJob,
)
from flinkish.savepoint.format.metadata import Metadata, MetadataWriter
from flinkish.savepoint.format.records import SCHEMA

JOB = SavepointJob(
    *("a" * 32, "job é"),
    spark_version="4.3.0",
    left_out=(LeftOut("q", "no input", pending=True), LeftOut("r", "it ended")),
    complete=False,
)
HEADER = Header(JOB, 1700000000.25, "savepoint")
STRUCT: dict[str, Any] = {"type": "struct", "fields": []}
QUERY = QueryRecord(
    name="counts",
    directory="0-counts",
    query_id="q",
    batch_id=7,
    run_id="r",
    planned_batch=8,
    watermark_ms=12,
    offsets=('{"logOffset":3}', "-"),
    pins={"spark.sql.shuffle.partitions": "2"},
    source=[{"description": "x"}],
    sink={"format": "parquet"},
    backend="hdfs",
    checkpoint_format=1,
    checkpoint="/ck",
    operators=(
        OperatorRecord(
            StateOnDisk(0, "stateStoreSave", 2, 100, 3, (StoreInfo("default", STRUCT, None),)),
            OperatorFacts(0, "stateStoreSave", OperatorIdentity("u"), rows=4),
        ),
    ),
    files=2,
    bytes=30,
)
FILES = [
    FileRecord(0, "metadata", 10, "sha256:" + "0" * 64),
    FileRecord(0, "state/0/0/8.delta", 20, "crc32-512:" + "1" * 64),
]


def write(directory: Path, files: Sequence[FileRecord] = FILES) -> Path:
    query = replace(QUERY, files=len(files), bytes=sum(file.size for file in files))
    with MetadataWriter(str(directory), HEADER, [query]) as writer:
        for file in files:
            writer.add(file)
        size = writer.commit()
    path = directory / "_metadata"
    assert path.stat().st_size == size
    return path


def read(path: Path) -> tuple[Metadata, list[FileRecord]]:
    found = Metadata(str(path))
    return found, list(found.iter_files())


def test_roundtrip(tmp_path: Path) -> None:
    found, files = read(write(tmp_path))
    assert found.header == HEADER
    assert found.queries == (QUERY,)
    assert files == FILES
    assert (found.files, found.bytes) == (2, 30)
    assert [p.name for p in tmp_path.iterdir()] == ["_metadata"]


def test_any_avro_reader_can_read_it(tmp_path: Path) -> None:
    with write(tmp_path).open("rb") as file:
        records = list(fastavro.reader(file))
    assert len(records) == 5
    assert records[2]["path"] == "metadata"  # type: ignore[call-overload, index]


def test_uncommitted_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), MetadataWriter(str(tmp_path), HEADER, [QUERY]):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_text_that_is_not_unicode_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """Python keeps bytes of a name or an argument that are not UTF-8 as lone surrogates."""
    job = replace(HEADER.job, name="caf\udce9")
    with pytest.raises(NotSavepointable, match=r"caf\\udce9"):
        MetadataWriter(str(tmp_path), replace(HEADER, job=job), [QUERY])
    odd = replace(FILES[0], path="caf\udce9")
    with pytest.raises(NotSavepointable, match=r"caf\\udce9"):
        write(tmp_path, [odd])
    assert list(tmp_path.iterdir()) == []


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(SavepointNotFound) as caught:
        read(tmp_path / "_metadata")
    assert caught.value.code == 11


def test_truncation_at_every_length(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(Corrupt):
            read(path)


def test_every_flipped_byte(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = path.read_bytes()
    harmless: list[int] = []
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        try:
            found, files = read(path)
        except (Corrupt, UnsupportedFormat):  # a changed version digit claims a newer format
            continue
        # The hash in the last block covers all before it, not how that block itself is compressed:
        # another distance may repeat the same bytes, and nobody reads zlib's own checksum.
        assert (found.header, found.queries, files) == (HEADER, (QUERY,), FILES)
        harmless.append(at)
    marker = whole[-16:]  # random, as is how the hash of it compresses
    last_block = whole.rindex(marker, 0, len(whole) - 16) + 16
    assert all(last_block <= at < len(whole) - 16 for at in harmless)


def test_totals_must_agree(tmp_path: Path) -> None:
    with MetadataWriter(str(tmp_path), HEADER, [replace(QUERY, bytes=31)]) as writer:
        for file in FILES:
            writer.add(file)
        writer.commit()
    with pytest.raises(Corrupt, match="its numbers of queries, files and bytes do not match"):
        read(tmp_path / "_metadata")


@pytest.mark.parametrize("more", [b"\x00", b"\x80", b"\x02\x02", b"x" * 100])
def test_something_after_the_footer(tmp_path: Path, more: bytes) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes() + more)
    with pytest.raises(Corrupt):
        read(path)


@pytest.mark.parametrize("content", [b"", b"garbage", b"Obj\x01", b"\x00" * 5000, b"PK\x03\x04"])
def test_garbage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "_metadata").write_bytes(content)
    with pytest.raises(Corrupt) as caught:
        read(tmp_path / "_metadata")
    assert caught.value.code == 15
    assert str(tmp_path) in caught.value.message


def test_another_avro_file(tmp_path: Path) -> None:
    with (tmp_path / "_metadata").open("wb") as file:
        fastavro.writer(file, {"type": "long"}, [1, 2])
    with pytest.raises(Corrupt, match="no format version"):
        read(tmp_path / "_metadata")


def test_newer_version_and_unknown_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "FORMAT_VERSION", 2)
    path = write(tmp_path)
    monkeypatch.undo()
    with pytest.raises(UnsupportedFormat, match="format version 2") as caught:
        read(path)
    assert caught.value.code == 4
    with path.open("wb") as file:
        fastavro.writer(
            file,
            SCHEMA,
            [],
            metadata={metadata.KEY_VERSION: "1", metadata.KEY_FEATURES: '["shredded"]'},
        )
    with pytest.raises(UnsupportedFormat, match="shredded"):
        read(path)


@pytest.mark.parametrize(
    "bad", ["../x", "/etc/passwd", "a/../../b", "", "a//b", "./a", "a/.", "a\0b", "..", "a/.."]
)
def test_paths_that_escape(tmp_path: Path, bad: str) -> None:
    path = write(tmp_path, [FileRecord(0, bad, 1, "sha256:" + "0" * 64)])
    with pytest.raises(Corrupt, match="outside the savepoint"):
        read(path)


def test_query_numbers_and_directories_are_checked(tmp_path: Path) -> None:
    for number in (1, -1):
        path = write(tmp_path, [FileRecord(number, "x", 1, "sha256:" + "0" * 64)])
        with pytest.raises(Corrupt, match="absent query"):
            read(path)
    outside = replace(QUERY, directory="../x", files=0, bytes=0)
    with MetadataWriter(str(tmp_path), HEADER, [outside]) as writer:
        writer.commit()
    with pytest.raises(Corrupt, match="outside the savepoint"):
        Metadata(str(tmp_path / "_metadata"))


def test_many_files_stream_in_bounded_memory(tmp_path: Path) -> None:
    def many() -> Iterator[FileRecord]:
        for number in range(30_000):
            yield FileRecord(0, f"state/0/{number}/1.delta", number, "crc32-512:" + "1" * 64)

    tracemalloc.start()
    try:
        query = replace(QUERY, bytes=sum(range(30_000)))
        with MetadataWriter(str(tmp_path), HEADER, [query]) as writer:
            for file in many():
                writer.add(file)
            writer.commit()
        found = Metadata(str(tmp_path / "_metadata"))
        count = sum(1 for _ in found.iter_files())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == found.files == 30_000
    assert peak < 4_000_000
