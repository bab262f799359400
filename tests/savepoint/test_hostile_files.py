"""Files of a savepoint whose digests hold and whose content is not Spark's: exit 15, by name."""

from __future__ import annotations

import hashlib
import os
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.client import planfile
from flinkish.errors import Corrupt, UsageError
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.format.metadata import Metadata, MetadataWriter
from flinkish.savepoint.format.reader import find_bad_files, open_savepoint
from flinkish.savepoint.manage.verify import verify
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.state.state_rows import open_state, show_rows
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.recorded import unpack

DEEP_JSON = b"[" * 100_000


def taken(name: str, tmp_path: Path) -> Path:
    info = write_savepoint(
        str(tmp_path / "savepoints"),
        SavepointJob("ab" * 16, "job", spark_version="4.3.0"),
        [QuerySource("q", str(unpack(name, tmp_path)))],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )
    return Path(info.path)


def put(savepoint: Path, relative: str, content: bytes) -> None:
    """Another content of a file, and metadata that says so."""
    metadata = Metadata(str(savepoint / "_metadata"))
    [query] = metadata.queries
    path = savepoint / query.directory / relative
    path.unlink()
    path.write_bytes(content)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    records = [
        replace(r, size=len(content), digest=digest) if r.path == relative else r
        for r in metadata.iter_files()
    ]
    assert any(r.digest == digest for r in records)
    query = replace(query, bytes=sum(r.size for r in records))
    with MetadataWriter(str(savepoint), metadata.header, [query]) as writer:
        for record in records:
            writer.add(record)
        writer.commit()


def a_file(savepoint: Path, ending: str) -> str:
    records = Metadata(str(savepoint / "_metadata")).iter_files()
    return sorted(r.path for r in records if r.path.endswith(ending))[-1]


@pytest.mark.parametrize(
    ("name", "ending", "content"),
    [
        ("spark43-hdfs-agg", "commit", b"v1\n" + DEEP_JSON),
        ("spark43-hdfs-agg", "commit", b"v1\n\xff"),
        ("spark43-hdfs-agg", "commit", b"v9\n{}"),
        ("spark43-hdfs-agg", "commit", b'v2\n{"stateUniqueIds":{"0":5}}'),
        ("spark43-hdfs-agg", ".delta", b""),
        ("spark43-hdfs-agg", ".delta", b"LZ4Block" + b"\xff" * 20),
        ("spark43-rocksdb-dedup", ".zip", b"PK\x05\x06" + b"\xff" * 18),
        ("spark43-ids-zip-dedup", ".crc", DEEP_JSON),
    ],
)
def test_a_deep_check_names_what_is_damaged(
    name: str, ending: str, content: bytes, tmp_path: Path
) -> None:
    savepoint = taken(name, tmp_path)
    [query] = open_savepoint(str(savepoint)).queries
    relative = f"commits/{query.batch_id}" if ending == "commit" else a_file(savepoint, ending)
    put(savepoint, relative, content)
    assert verify(open_savepoint(str(savepoint)), "full", SilentSavepointReporter()).ok
    found = verify(open_savepoint(str(savepoint)), "deep", SilentSavepointReporter())
    assert not found.ok
    error = found.error()
    assert error.code == 15
    assert relative.rpartition("/")[2].removesuffix(".crc") in error.message
    assert "cannot be decoded" in error.message


@pytest.mark.parametrize("trouble", [MemoryError, RecursionError, KeyError, OverflowError])
def test_whatever_decoding_comes_to_is_damage(
    trouble: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoint = taken("spark43-hdfs-agg", tmp_path)

    def fails(*_: object) -> None:
        raise trouble

    monkeypatch.setattr("flinkish.savepoint.manage.deep_check.count_rows", fails)
    found = verify(open_savepoint(str(savepoint)), "deep", SilentSavepointReporter())
    assert found.error().code == 15
    if trouble is MemoryError:
        assert "needs more memory" in found.bad[0].reason


def test_state_that_is_damaged_is_not_shown(tmp_path: Path) -> None:
    savepoint = taken("spark43-hdfs-agg", tmp_path)
    put(savepoint, a_file(savepoint, "_metadata/schema"), b"\0\2v1" + b"\0\x64" + b"[" * 100)
    with pytest.raises(Corrupt) as caught:
        show_rows(open_state(open_savepoint(str(savepoint)), "0"), 3)
    assert caught.value.code == 15


@pytest.mark.parametrize("what", ["pipe", "device", "directory"])
def test_a_data_file_that_is_none_is_bad(what: str, tmp_path: Path) -> None:
    savepoint = taken("spark43-hdfs-agg", tmp_path)
    metadata = Metadata(str(savepoint / "_metadata"))
    record = next(iter(metadata.iter_files()))
    path = savepoint / metadata.queries[0].directory / record.path
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    [bad] = find_bad_files(open_savepoint(str(savepoint)), "full")
    assert bad.path.endswith(record.path)


@pytest.mark.parametrize("what", ["pipe", "device", "directory"])
def test_only_regular_files_are_opened(what: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if what == "directory":
        (tmp_path / "directory").mkdir()
        path.symlink_to(tmp_path / "directory")
    elif what == "pipe":
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
    else:
        path.symlink_to("/dev/zero")
    for read in (storage.open_file, storage.read_bytes, lambda p: storage.read_head(p, 5)):
        with pytest.raises(Corrupt, match="not a regular file"):
            read(str(path))
    path.unlink()
    path.symlink_to(tmp_path / "y")
    (tmp_path / "y").write_bytes(b"linked")
    assert storage.read_bytes(str(path)) == b"linked"


def test_below_a_file_nothing_exists(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a file where a directory belongs")
    for read in (storage.open_file, storage.read_bytes, storage.size_of):
        with pytest.raises(FileNotFoundError):
            read(str(tmp_path / "x/1"))
    assert storage.list_names(str(tmp_path / "x")) == []


@pytest.mark.parametrize(
    "relative",
    [
        *("offsets", "commits", "offsets/6", "commits/6"),
        *("state/0/0", "state/0/0/7.delta", "state/0/0/_metadata/schema"),
    ],
)
@pytest.mark.parametrize("is_gone", [False, True])
def test_state_without_one_of_its_files_is_damaged(
    relative: str, is_gone: bool, tmp_path: Path
) -> None:
    """A directory where a file belongs, the reverse, and neither."""
    savepoint = taken("spark43-hdfs-agg", tmp_path)
    [query] = open_savepoint(str(savepoint)).queries
    path = savepoint / query.directory / relative
    is_file = path.is_file()
    path.rename(tmp_path / "away")
    if not is_gone:
        path.mkdir() if is_file else path.touch()
    with pytest.raises(Corrupt) as caught:
        show_rows(open_state(open_savepoint(str(savepoint)), "0"), 3)
    assert caught.value.code == 15


def test_a_large_file_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Corrupt, match="bytes; at most"):
        storage.read_bytes(str(tmp_path / "x"))


def test_a_list_of_references_is_unpacked_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = zlib.compress(b"0-q/a\n" * 100_000)
    monkeypatch.setattr(sharing, "MAX_REFERENCES", 1000)
    with pytest.raises(ValueError, match="too long"):
        sharing._unpacked(packed)
    monkeypatch.setattr(sharing, "MAX_REFERENCES", 1 << 20)
    assert sharing._unpacked(packed) == b"0-q/a\n" * 100_000
    for damaged in (packed[:-1], packed + b"x", b"", b"x" * 50):
        with pytest.raises(ValueError):  # noqa: PT011 - zlib's words
            sharing._unpacked(damaged)


@pytest.mark.parametrize(
    "content",
    [
        DEEP_JSON,
        b"\xff",
        b"5",
        b'{"kind": "flinkish restore plan", "schema_version": 1}',
        b"[]",
    ],
)
def test_plans(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(content)
    with pytest.raises(UsageError):
        planfile.load(str(tmp_path / "plan.json"))
