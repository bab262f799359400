from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.errors import Corrupt, StorageError, UnsupportedFormat, UsageError
from flinkish.savepoint.directory import catalog
from flinkish.savepoint.directory.catalog import (
    Unfinished,
    job_prefix,
    look_at,
    read_catalog,
    read_paths,
)
from tests.support.savepoint.small_savepoints import make_savepoint


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory of savepoints on local and on remote storage."""
    return str(tmp_path / "sp") if request.param == "local" else f"memory://care{tmp_path}"


def test_newest_first_by_the_time_in_the_metadata(place: str) -> None:
    times = [300.0, 100.0, 200.0, 200.0]
    paths = [make_savepoint(place, created) for created in times]
    if storage.is_local(place):
        for number, path in enumerate(paths):
            os.utime(path, (number, number))
            os.utime(f"{path}/_metadata", (9e9 - number, 9e9 - number))
    found = read_catalog(place)
    assert [entry.path for entry in found.savepoints] == [
        paths[0],
        *sorted(paths[2:]),
        paths[1],
    ]
    assert [entry.header.created for entry in found.savepoints] == [300, 200, 200, 100]
    assert found.savepoints[0].bytes == 10
    assert [entry.opened for entry in found.savepoints] == [None] * 4
    whole = read_catalog(place, whole=True).savepoints
    assert [entry.opened and entry.opened.path for entry in whole] == [
        entry.path for entry in found.savepoints
    ]


def test_a_renamed_one_is_one(place: str, tmp_path: Path) -> None:
    path = make_savepoint(str(tmp_path / "sp"), 1)
    Path(path).rename(tmp_path / "sp/before the upgrade")
    (entry,) = read_catalog(str(tmp_path / "sp")).savepoints
    assert storage.base_name(entry.path) == "before the upgrade"


def test_what_cannot_be_read_stands_beside(tmp_path: Path) -> None:
    good, cut, newer, not_ours = (make_savepoint(str(tmp_path), 1 + n) for n in range(4))
    Path(cut, "_metadata").write_bytes(Path(cut, "_metadata").read_bytes()[:-7])
    data = Path(newer, "_metadata").read_bytes()
    at = data.index(b"flinkish.format-version") + len("flinkish.format-version") + 1
    Path(newer, "_metadata").write_bytes(data[:at] + b"9" + data[at + 1 :])
    Path(not_ours, "_metadata").write_bytes(b"\x00\x00\x00\x05 of Flink")
    (tmp_path / "photos").mkdir()
    (tmp_path / "savepoint-012345-0123456789ab").mkdir()
    found = read_catalog(str(tmp_path), whole=True)
    assert [entry.path for entry in found.savepoints] == [good]
    assert {each.path: type(each.error) for each in found.unreadable} == {
        cut: Corrupt,
        newer: UnsupportedFormat,
        not_ours: Corrupt,
    }
    assert found.unfinished == (str(tmp_path / "savepoint-012345-0123456789ab"),)
    assert not found.is_empty


def test_nothing_there(tmp_path: Path) -> None:
    assert read_catalog(str(tmp_path / "missing")).is_empty
    assert not (tmp_path / "missing").exists()
    gone = str(tmp_path / "gone")
    assert read_paths([gone]).missing == (gone,)
    with pytest.raises(StorageError):
        read_catalog("nosuchscheme://host/x")


def test_a_savepoint_is_no_directory_of_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is itself a savepoint"):
        read_catalog(make_savepoint(str(tmp_path), 1))


def test_unfinished_ones_have_the_time_of_their_newest_file(place: str) -> None:
    path = storage.join(place, "savepoint-012345-0123456789ab")
    storage.make_directory(storage.join(path, "0-q"))
    storage.write_bytes(storage.join(path, "0-q/a"), b"12345")
    storage.make_directory(storage.join(path, "_refs"))
    storage.write_bytes(storage.join(path, "_refs/savepoint-x"), b"1")
    (found,) = look_at([path])
    assert (found.files, found.bytes, found.users) == (2, 6, ("savepoint-x",))
    assert found.modified is not None
    if storage.is_local(path):
        for name in ("", "0-q", "0-q/a", "_refs", "_refs/savepoint-x"):
            os.utime(os.path.join(path, name), (50, 50))
        os.utime(f"{path}/0-q/a", (70, 70))
        assert look_at([path])[0].modified == 70


def test_a_link_that_is_removed_while_it_is_looked_at_has_no_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{tmp_path}/savepoint-012345-0123456789ab"
    os.symlink("/nowhere", path)

    def is_link(location: str) -> bool:
        os.unlink(location)
        return True

    monkeypatch.setattr(catalog, "is_link", is_link)
    assert look_at([path]) == (Unfinished(path, None, (), 0, 0),)


def test_names() -> None:
    assert job_prefix("s3://b/savepoint-00ff00-0123456789ab") == "00ff00"
    assert job_prefix("/x/savepoint-00ff00") is None
    assert job_prefix("/x/savepoint-00ff00-0123456789ab.bak") is None
