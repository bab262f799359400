"""Files appear complete or not at all, and stay when the power goes: by the calls of real runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.errors import StorageError
from flinkish.savepoint.format.contents import QuerySource
from flinkish.savepoint.format.reader import FULL, check_files, open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.savepoint.conftest import JOB
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.disk_calls import Call, recorded


def write_atomically(path: Path, data: bytes, tmp_path: Path) -> None:
    storage.write_atomically(str(path), data)


def publish_file(path: Path, data: bytes, tmp_path: Path) -> None:
    temporary = storage.temporary_name(str(path))
    storage.write_bytes(temporary, data)
    storage.publish_file(temporary, str(path))


@pytest.mark.parametrize("put", [write_atomically, publish_file])
@pytest.mark.parametrize("replaces", [False, True])
def test_a_file_is_whole_on_the_disk_before_it_has_its_name(
    tmp_path: Path, put: Callable[[Path, bytes, Path], None], replaces: bool
) -> None:
    final = tmp_path / "file"
    if replaces:
        final.write_bytes(b"old")
    with recorded(tmp_path) as calls:
        put(final, b"new" * 1000, tmp_path)
    assert final.read_bytes() == b"new" * 1000
    assert [call.what for call in calls] == ["write", "sync", "rename", "sync"]
    written, synced, renamed, entries = calls
    assert written.path == synced.path == renamed.source != str(final)
    assert synced.size == 3000
    assert renamed.path == str(final)
    assert entries.path == str(tmp_path)


def test_a_written_file_is_brought_to_the_disk(tmp_path: Path) -> None:
    with recorded(tmp_path) as calls:
        storage.write_bytes(f"{tmp_path}/file", b"x" * 10)
    path = f"{tmp_path}/file"
    assert calls == [Call("write", path), Call("sync", path, size=10)]


def test_a_full_disk_leaves_the_old_file(small_disk: Path) -> None:
    """Also once there is no room at all for the new one, and nothing else stays."""
    final = small_disk / "file"
    final.write_bytes(b"old")
    with pytest.raises(StorageError, match="disk full"):
        storage.write_atomically(str(final), b"n" * (1 << 20))
    assert final.read_bytes() == b"old"
    assert [path.name for path in small_disk.iterdir()] == ["file"]


def test_a_copy_is_brought_to_the_disk(tmp_path: Path, other_disk: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * 100)
    with recorded(other_disk) as calls:
        storage.place(str(tmp_path / "source"), str(other_disk / "copy"))
    path = f"{other_disk}/copy"
    assert calls == [Call("write", path), Call("sync", path, size=100)]


def test_a_savepoint_is_on_the_disk_before_its_metadata(tmp_path: Path, other_disk: Path) -> None:
    """Every byte of every file before the rename that makes it a savepoint, that name after it."""
    checkpoint = CheckpointLikeness(tmp_path / "checkpoint", backend="rocksdb").run_to(4)
    query = QuerySource("q", str(checkpoint.root))
    with recorded(other_disk) as calls:
        path = write_savepoint(
            str(other_disk), JOB, [query], trigger="savepoint", reporter=SilentSavepointReporter()
        ).path
    savepoint = open_savepoint(path)
    check_files(savepoint, FULL)
    at = next(n for n, call in enumerate(calls) if call.path == f"{path}/_metadata")
    sealed = calls[at]
    assert sealed.what == "rename"
    before = {call.path: call.size for call in calls[:at] if call.what == "sync"}
    files = {savepoint.locate_file(record): record.size for record in savepoint.iter_files()}
    assert files
    assert {file: before.get(file) for file in files} == files
    assert sealed.source is not None
    assert before[sealed.source] == Path(path, "_metadata").stat().st_size
    # No file is touched after it was brought to the disk.
    for file in (*files, sealed.source):
        assert [call.what for call in calls if call.path == file] == ["write", "sync"]
    after = [call.path for call in calls[at:] if call.what == "sync"]
    assert after.index(path) < after.index(str(other_disk))
