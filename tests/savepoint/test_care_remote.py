"""The care of savepoints on an S3 server: catalog, verify, prune, garbage, locks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.errors import Locked
from flinkish.savepoint.directory.catalog import look_at, read_catalog
from flinkish.savepoint.directory.leases import Kind, Lease, read_leases
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.format.reader import open_savepoint
from flinkish.savepoint.manage.prune import collect_garbage, prune
from flinkish.savepoint.manage.retention import Policy
from flinkish.savepoint.manage.verify import verify
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.savepoint.small_savepoints import JOB_ID
from tests.support.servers.s3 import S3Server

pytestmark = pytest.mark.servers


@pytest.fixture
def place(moto_s3: S3Server) -> Iterator[str]:
    with moto_s3.configured():
        yield f"{moto_s3.create_bucket('care')}/{uuid.uuid4().hex}"


def test_from_list_to_prune(place: str, tmp_path: Path) -> None:
    checkpoint = CheckpointLikeness(tmp_path / "checkpoint", backend="rocksdb").run_to(4)

    def take() -> str:
        return write_savepoint(
            place,
            SavepointJob(JOB_ID, "job"),
            [QuerySource("q", str(checkpoint.root))],
            trigger="savepoint",
            reporter=SilentSavepointReporter(),
        ).path

    first, second = take(), take()
    assert [entry.path for entry in read_catalog(place).savepoints] == [second, first]
    for path in (first, second):
        found = verify(open_savepoint(path), "full", SilentSavepointReporter())
        assert (found.bad, found.unexpected) == ((), ())
    with Lease.take(place, Kind.WRITE, owner="me@h", job_id="ab" * 16):
        assert len(read_leases(place)) == 1
        with pytest.raises(Locked):
            prune(place, Policy(keep_last=1), {})
    done = prune(place, Policy(keep_last=1), {})
    assert [outcome.removed for outcome in done.savepoints] == [False, True]
    assert done.errors == ()
    assert verify(open_savepoint(second), "full", SilentSavepointReporter()).ok
    husks = collect_garbage(place, (), now=time.time() + 7200)
    assert [husk.removed for husk in husks] == [False] * len(husks)
    assert verify(open_savepoint(second), "full", SilentSavepointReporter()).ok


def test_damage_and_garbage(place: str, tmp_path: Path) -> None:
    checkpoint = CheckpointLikeness(tmp_path / "checkpoint", backend="hdfs").run_to(4)
    path = write_savepoint(
        place,
        SavepointJob(JOB_ID, "job"),
        [QuerySource("q", str(checkpoint.root))],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    ).path
    savepoint = open_savepoint(path)
    records = list(savepoint.iter_files())
    storage.remove_file(*storage.split(savepoint.locate_file(records[0])))
    storage.write_bytes(savepoint.locate_file(records[1]), b"?" * records[1].size)
    bad = verify(savepoint, "full", SilentSavepointReporter()).bad
    assert [each.reason for each in bad] == ["is missing", "does not have its recorded digest"]
    storage.remove_file(path, "_metadata")
    (left,) = look_at(read_catalog(place).unfinished)
    assert left.modified is not None
    assert abs(left.modified - time.time()) < 120
    assert left.files == len(records) - 1
    (young,) = collect_garbage(place, ())
    assert young.reason == "it was changed within the last hour"
    (old,) = collect_garbage(place, (), now=time.time() + 7200)
    assert old.removed
    assert not storage.is_directory(path)
