"""What ``check`` tells its driver of the jobs that have run a query."""

from __future__ import annotations

from pathlib import Path

from flinkish.client.dryrun import known_runs
from flinkish.launch.known_jobs import came_from
from flinkish.messages.calls import KnownRun
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import QueryRow, RestorePlan
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord, JobState
from tests.cli.conftest import Command
from tests.support.checkpoints.handwritten import QUERY_ID, CheckpointLikeness


def test_what_a_killed_job_has_committed_and_begun(cli: Command, tmp_path: Path) -> None:
    """The logs say it; the reports of a killed job are as old as its last heartbeat."""
    checkpoint = CheckpointLikeness(tmp_path / "query").run_to(2)
    checkpoint.plan(3)
    here = QueryStatus("q", QUERY_ID, "r", str(checkpoint.root), batch_id=1)
    gone = QueryStatus("q", QUERY_ID, "r", str(tmp_path / "gone"), batch_id=7)
    cli.ok("list")
    with cli.registry() as registry:
        for digit, query in (("a", here), ("b", gone)):
            job = JobRecord(digit * 32, f"job-{digit}", JobState.INITIALIZING, 1.0, Launch("/a.py"))
            registry.add_job(job)
            registry.heartbeat(job.job_id, [query])
        found = known_runs(registry, {QUERY_ID: None, "nobodys": "csv"}, None)
        assert sorted(found.pop(QUERY_ID), key=lambda run: run.job_id) == [
            KnownRun("a" * 32, "INITIALIZING", last_batch=2, begun_batch=3),
            KnownRun("b" * 32, "INITIALIZING", last_batch=7),
        ]
        assert found == {"nobodys": ()}
        (other,) = known_runs(registry, {QUERY_ID: "kafka"}, "a" * 32)[QUERY_ID]
        assert other.job_id == "b" * 32


def test_a_job_that_went_back_under_another_query_id(cli: Command, tmp_path: Path) -> None:
    """And one that has gone on from it; a fork and a query with another sink are none of them."""

    def row(batch: int, format: str = "kafka") -> RestorePlan:
        writes = {"format": format}
        found = QueryRow("q", origin="q", from_batch=batch, batch_id=batch, writes=writes)
        return RestorePlan(queries=(found,))

    sp, link = str(tmp_path / "sp"), str(tmp_path / "link")
    Path(link).symlink_to(sp)
    cli.ok("list")
    with cli.registry() as registry:
        runs = (
            ("a", None, "shared", 20, None),
            ("b", RestoreSpec(link), "back", 8, row(5)),
            ("c", RestoreSpec("/c", job="b" * 32), "back", 11, row(8)),
            ("d", RestoreSpec(sp, RestoreOptions(fork=True)), "fork", 9, row(5)),
            ("e", RestoreSpec(sp), "files", 9, row(5, "csv")),
            ("f", RestoreSpec(sp), "shared", 9, row(5)),
        )
        for digit, restore, query_id, batch, plan in runs:
            launch = Launch("/a.py", restore=restore)
            job = JobRecord(digit * 32, "job", JobState.INITIALIZING, 1.0, launch)
            registry.add_job(job)
            query = QueryStatus("q", query_id, "r", "/gone", batch_id=batch, plan=plan)
            registry.heartbeat(job.job_id, [query])
        saved = SavepointSummary(sp, "a" * 32, 1.0, "native", 1, 1, 0.1, ())
        registry.add_savepoint(saved)
        assert came_from(registry, registry.job("b" * 32)) == ["a" * 32]
        found = known_runs(registry, {"shared": "kafka"}, None)["shared"]
        assert {run.job_id[0]: (run.since, run.last_batch) for run in found} == {
            "a": (None, 20),
            "b": (5, 8),
            "c": (5, 11),
            "f": (None, 9),
        }
        assert {
            run.job_id[0] for run in known_runs(registry, {"shared": "kafka"}, "b" * 32)["shared"]
        } == {*("a", "c", "f")}
        # Only a Kafka sink repeats what they have written: nobody else is looked for.
        assert {
            run.job_id[0] for run in known_runs(registry, {"shared": "csv"}, None)["shared"]
        } == {*("a", "f")}
