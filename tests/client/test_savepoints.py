"""Savepoints on disk from Python: opened, verified, disposed of, their state as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish import Client, Savepoint
from flinkish.client.savepoints import dispose_savepoint
from flinkish.errors import SavepointNotFound, UsageError
from flinkish.messages.requests import SavepointSummary
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.recorded import unpack


@pytest.fixture
def taken(private: Path) -> Savepoint:
    root = unpack("spark43-rocksdb-dedup", private)
    info = write_savepoint(
        str(private / "sp"),
        SavepointJob("ab" * 16, "flights", spark_version="4.3.0"),
        [QuerySource("counts", str(root))],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )
    return Savepoint.open(info.path)


def test_what_is_inside(taken: Savepoint) -> None:
    assert (taken.header.job.job_id, taken.header.job.name) == ("ab" * 16, "flights")
    assert [query.name for query in taken.queries] == ["counts"]
    assert taken.describe()["files"] == taken.files > 5
    assert taken.bytes == sum(query.bytes for query in taken.queries)
    assert Savepoint.open(taken.path + "/_metadata") == taken


def test_damage_is_found(taken: Savepoint) -> None:
    found = taken.verify("deep")
    assert found.ok
    assert found.rows
    assert found.rows > 0
    victim = next(p for p in Path(taken.path).rglob("*") if p.is_file() and p.name == "metadata")
    victim.unlink()
    assert [bad.reason for bad in taken.verify("quick").bad] == ["is missing"]
    with pytest.raises(UsageError, match="unknown level"):
        taken.verify("thoroughly")


def test_rows_of_a_state(taken: Savepoint) -> None:
    rows = taken.rows("0", limit=2)
    assert len(rows) == 2
    assert set(rows[0]) == {"partition", "key", "value"}
    with pytest.raises(UsageError, match="no operator 'nobody'"):
        taken.rows("nobody")


def test_a_savepoint_disposed_of_through_a_link_is_not_listed_any_more(
    taken: Savepoint, private: Path
) -> None:
    (private / "way").symlink_to(private / "sp")
    name = Path(taken.path).name
    with Client() as client:
        registry = client._context.writable_registry
        registry.add_savepoint(
            SavepointSummary(taken.path, "ab" * 16, 1.0, "native", bytes=1, files=1, duration=0.1)
        )
        client.savepoint(private / "way" / name).dispose()
        assert registry.savepoints() == []


def test_disposal(taken: Savepoint, private: Path) -> None:
    plan = taken.dispose(dry_run=True)
    assert plan.removed == taken.files + 1
    assert Path(taken.path).exists()
    with Client() as client:
        done = client.savepoint(taken.path).dispose()
    assert (done.removed, done.gone) == (plan.removed, True)
    assert not Path(taken.path).exists()
    with pytest.raises(SavepointNotFound):
        Savepoint.open(taken.path)
    with pytest.raises(SavepointNotFound):
        taken.dispose()


@pytest.mark.parametrize("left", ["nothing", "a husk"])
@pytest.mark.parametrize("ending", ["", "/_metadata"])
def test_a_disposal_that_was_cut_off_is_recorded_by_the_next_one(
    private: Path, left: str, ending: str
) -> None:
    path = private / "sp" / "savepoint-ababab-0123456789ab"
    path.parent.mkdir()
    if left == "a husk":
        (path / "counts").mkdir(parents=True)
    record = SavepointSummary(str(path), "ab" * 16, 1.0, "native", bytes=1, files=1, duration=0.1)
    with Client() as client:
        context = client._context
        context.writable_registry.add_savepoint(record)
        for dry_run in (True, False):
            assert context.registry.savepoints() == [record]
            done = dispose_savepoint(context, f"{path}{ending}", dry_run=dry_run)
            assert (done.path, done.removed) == (str(path), 0)
            assert done.gone is (left == "nothing")
        assert context.registry.savepoints() == []
        with pytest.raises(SavepointNotFound):
            dispose_savepoint(context, f"{path}{ending}")


def test_a_savepoint_in_a_directory_that_is_not_there_is_not_found(private: Path) -> None:
    path = str(private / "mount" / "savepoint-ababab-0123456789ab")
    record = SavepointSummary(path, "ab" * 16, 1.0, "native", bytes=1, files=1, duration=0.1)
    with Client() as client:
        client._context.writable_registry.add_savepoint(record)
        with pytest.raises(SavepointNotFound):
            dispose_savepoint(client._context, path)
        assert client._context.registry.savepoints() == [record]
