"""RocksDB snapshot archives: what they name outside of themselves, and damage."""

from __future__ import annotations

import io
import zipfile

import pytest

from flinkish.checkpoint.format.archives import (
    ArchiveMetadata,
    SharedFile,
    parse_archive_metadata,
    read_archive_metadata,
    write_archive_metadata,
)
from flinkish.checkpoint.format.errors import (
    CannotWrite,
    CheckpointFormatError,
    UnsupportedCheckpointFormat,
)
from tests.support.checkpoints.handwritten import archive


def references(data: bytes) -> tuple[str, ...]:
    metadata = read_archive_metadata(io.BytesIO(data), "5.zip")
    return tuple(shared.path for shared in metadata.shared)


def test_archive_references() -> None:
    found = references(archive(["000008-a.sst", "000009-b.sst"]))
    assert found == ("SSTs/000008-a.sst", "SSTs/000009-b.sst")


def zipped(metadata: str | None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("CURRENT", "x")
        if metadata is not None:
            file.writestr("metadata", metadata)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 nothing",
        archive(["a.sst"])[:-30],
        zipped(None),
        zipped("v1\nnot json"),
        zipped("v1\n[]"),
        zipped('v1\n{"sstFiles":[{}]}'),
        zipped('v1\n{"sstFiles":[{"localFileName":"a","sizeBytes":1,"dfsSstFileName":"../../x"}]}'),
        zipped('v1\n{"sstFiles":[{"localFileName":"a","sizeBytes":1,"dfsSstFileName":".."}]}'),
    ],
)
def test_damaged_archives(data: bytes) -> None:
    with pytest.raises(CheckpointFormatError):
        references(data)


def test_archive_logs() -> None:
    text = 'v1\n{"sstFiles":[],"logFiles":[{"dfsLogFileName":"000004-x.log",'
    text += '"localFileName":"000004.log","sizeBytes":7}]}'
    assert references(zipped(text)) == ("logs/000004-x.log",)


SHARED = SharedFile("000008.sst", "SSTs/000008-a.sst", 100)


@pytest.mark.parametrize("version", [1, 2])
def test_metadata_is_read_as_it_was_written(version: int) -> None:
    families = {"default": 1, "$own": 2}
    data = write_archive_metadata([SHARED], 7, 3, families, {"$own"}, version=version)
    found = parse_archive_metadata(data, "5.zip")
    assert found == ArchiveMetadata((SHARED,), 10, {1: "default", 2: "$own"}, frozenset({"$own"}))
    assert data.startswith(b"v%d\n" % version)


def test_metadata_of_spark_35_has_no_families() -> None:
    data = write_archive_metadata((), 0, with_families=False)
    assert data == b'v1\n{"sstFiles":[],"numKeys":0}'
    with pytest.raises(CannotWrite, match=r"3\.5 have no column families"):
        write_archive_metadata((), 0, families={"default": 1}, with_families=False)


def test_newer_metadata_is_not_damage() -> None:
    with pytest.raises(UnsupportedCheckpointFormat, match="snapshot metadata version v3"):
        parse_archive_metadata(b"v3\n{}", "5.zip")
