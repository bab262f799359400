"""What flinkish wrote before it had typed specs, a client and its rooms is still read.

``tests/data/before_client.tar.xz`` was made by the commit before (53e003e): ``counted.py`` was run,
savepointed (native and canonical) and stopped; ``dies.py`` was run. Spark 4.3.0.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from flinkish import Client, Savepoint
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobState, RequestKind
from tests.support.cli.command import Flinkish

ARCHIVE = Path(__file__).parents[1] / "data" / "before_client.tar.xz"


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A directory with ``registry.db`` and ``savepoints/``."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path / "before", filter="data")
    return tmp_path / "before"


def savepoints(before: Path) -> dict[str, list[Savepoint]]:
    """The savepoints by their format."""
    found: dict[str, list[Savepoint]] = {}
    for path in sorted((before / "savepoints").iterdir()):
        opened = Savepoint.open(str(path))
        found.setdefault(opened.header.format, []).append(opened)
    return found


def test_the_registry_is_read(before: Path) -> None:
    url = f"sqlite:///{before}/registry.db"
    with Client(registry=url) as client:
        jobs = {job.name: job for job in client.jobs(include_final=True)}
        assert {name: job.state for name, job in jobs.items()} == {
            "counted": JobState.FINISHED,
            "dies": JobState.FAILED,
        }
    with Registry.open(url) as registry:
        requests = registry.requests(jobs["counted"].job_id)
        assert [request.kind for request in requests] == [
            RequestKind.SAVEPOINT,
            RequestKind.SAVEPOINT,
            RequestKind.STOP,
        ]
        stop = requests[-1].result
        assert stop is not None
        assert stop.stop_method == "quiesce"
        assert stop.savepoint is not None
        kept = {path.name for path in (before / "savepoints").iterdir()}
        assert Path(stop.savepoint.path).name in kept


def test_the_savepoints_are_whole(before: Path) -> None:
    found = savepoints(before)
    assert {name: len(of) for name, of in found.items()} == {"native": 2, "canonical": 1}
    for savepoint in [*found["native"], *found["canonical"]]:
        assert savepoint.verify("deep").ok


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.parametrize("form", ["native", "canonical"])
def test_the_savepoints_are_restored(flinkish: Flinkish, before: Path, form: str) -> None:
    savepoint = savepoints(before)[form][-1]
    (query,) = savepoint.queries
    output = before / "output"
    output.mkdir()
    job = flinkish.run("counted.py", str(output), options=("-s", savepoint.path))
    following = query.batch_id + 1
    flinkish.wait_for_batch(job, following)
    flinkish.ok("cancel", job)
    found = json.loads((output / f"{following}.json").read_text())
    expected = Counter(number % 7 for number in range(10 * (following + 1)))
    assert found == {str(key): count for key, count in expected.items()}
