"""What ``check`` tells its driver of the jobs that have run a query."""

from __future__ import annotations

from pathlib import Path

from flinkish.client.dryrun import known_runs
from flinkish.registry.jobs import JobRecord, JobState, Launch, QueryStatus
from flinkish.spec.calls import KnownRun
from tests.cli.conftest import Command
from tests.support.checkpoints.handwritten import CheckpointLikeness


def test_what_a_killed_job_has_committed_and_begun(cli: Command, tmp_path: Path) -> None:
    """The logs say it; the reports of a killed job are as old as its last heartbeat."""
    checkpoint = CheckpointLikeness(tmp_path / "query").run_to(2)
    checkpoint.plan(3)
    here = QueryStatus("q", "shared", "r", str(checkpoint.root), batch_id=1)
    gone = QueryStatus("q", "shared", "r", str(tmp_path / "gone"), batch_id=7)
    cli.ok("list")
    with cli.registry() as registry:
        for digit, query in (("a", here), ("b", gone)):
            job = JobRecord(digit * 32, f"job-{digit}", JobState.INITIALIZING, 1.0, Launch("/a.py"))
            registry.add_job(job)
            registry.heartbeat(job.job_id, [query])
        found = known_runs(registry, ["shared", "nobodys"], None)
        assert sorted(found.pop("shared"), key=lambda run: run.job_id) == [
            KnownRun("a" * 32, "INITIALIZING", last_batch=2, begun_batch=3),
            KnownRun("b" * 32, "INITIALIZING", last_batch=7),
        ]
        assert found == {"nobodys": ()}
        (other,) = known_runs(registry, ["shared"], "a" * 32)["shared"]
        assert other.job_id == "b" * 32
