"""What is read of a savepoint's files is what was recorded of them."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from flinkish.engine.errors import StateFormatError
from flinkish.savepoint.format.file_table import FileTable
from flinkish.savepoint.format.reader import OpenSavepoint, open_savepoint
from flinkish.savepoint.state.state_directories import SavedDirectory, saved_directory
from tests.savepoint.conftest import Taking
from tests.support.checkpoints.recorded import unpack
from tests.support.savepoint.places import put_tree


@pytest.fixture
def savepoint(take: Taking, tmp_path: Path) -> OpenSavepoint:
    return open_savepoint(take(unpack("spark43-rocksdb-dedup", tmp_path)).path)


def damage(savepoint: OpenSavepoint, path: str) -> None:
    """Change one byte of a file, which is a link to the checkpoint's."""
    file = Path(savepoint.query_root(savepoint.queries[0])) / path
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    file.write_bytes(bytes(data))


def test_other_bytes_of_the_same_size_are_refused(savepoint: OpenSavepoint) -> None:
    [sst, log] = [
        next(r.path for r in savepoint.iter_files() if part in r.path)
        for part in ("/SSTs/", "offsets/")
    ]
    found = saved_directory(savepoint, savepoint.queries[0])
    for path in (sst, log):
        with found.open(path) as file:
            assert file.read()
    damage(savepoint, sst)
    damage(savepoint, log)
    with pytest.raises(StateFormatError, match="does not have its recorded digest"):
        found.open(log)
    with pytest.raises(StateFormatError, match="does not have its recorded digest"):
        found.local_path(sst)


def test_a_remote_file_is_fetched_no_further_than_its_recorded_size(
    savepoint: OpenSavepoint,
) -> None:
    local = Path(savepoint.query_root(savepoint.queries[0]))
    far = put_tree(local, f"memory://recorded/{uuid.uuid4().hex}")
    with SavedDirectory(far, {}, savepoint.recorded_files(0)).open("metadata") as file:
        assert file.read() == (local / "metadata").read_bytes()
    short = SavedDirectory(far, {}, FileTable.of([("metadata", 3, "md5:" + "0" * 32)]))
    with pytest.raises(StateFormatError, match="4 bytes instead of the 3 recorded"):
        short.open("metadata")
