"""What ``check`` tells its driver of the jobs that have run a query."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.client.dryrun import known_runs, restore_question
from flinkish.connectors.sources import SavedSource
from flinkish.launch.known_jobs import came_from, read_elsewhere
from flinkish.messages.calls import KnownRun
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import QueryRow, RestorePlan, SourceOrigin, SourceRow
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavedQuery, SavepointSummary
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.restore.origin.restore_origin import RestorableQuery, RestoreOrigin
from flinkish.restore.recipe import OriginCheckpoint
from tests.cli.conftest import Command
from tests.support.checkpoints.handwritten import QUERY_ID, CheckpointLikeness
from tests.support.restore.query_builders import saved_query


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


@pytest.mark.parametrize(("name", "own_id"), [("q", "A"), ("merged", "M")])
@pytest.mark.parametrize(("saved", "since"), [((SavedQuery("r", 3, "B"),), 3), ((), 5)])
def test_a_merged_query_has_gone_on_from_each_of_those_that_it_continues(
    cli: Command, name: str, own_id: str, saved: tuple[SavedQuery, ...], since: int
) -> None:
    """Job a ran q and r; b has merged them, and c has gone on from it; d continues q alone."""

    def row(origin: str, entry: int) -> SourceRow:
        return SourceRow(name, entry=entry, origin=SourceOrigin(origin, entry))

    writes = {"format": "kafka"}
    begun = QueryRow(name, origin="q", from_batch=20, batch_id=20, writes=writes)
    merged = RestorePlan(queries=(begun,), sources=(row("q", 0), row("r", 1)))
    again = RestorePlan(queries=(replace(begun, origin=name, from_batch=60, batch_id=60),))
    alone = RestorePlan(queries=(replace(begun, name="q"),))
    runs = (
        ("a", None, (("q", "A", 20, None), ("r", "B", 5, None)), 2.0),
        ("b", RestoreSpec("/sp"), ((name, own_id, 60, merged),), None),
        ("c", RestoreSpec("/c", job="b" * 32), ((name, own_id, 70, again),), None),
        ("d", RestoreSpec("/sp"), (("q", "D", 90, alone),), None),
    )
    cli.ok("list")
    with cli.registry() as registry:
        for digit, restore, queries, end in runs:
            state = JobState.INITIALIZING if end is None else JobState.FINISHED
            launch = Launch("/a.py", restore=restore)
            registry.add_job(JobRecord(digit * 32, "job", state, 1.0, launch, end_time=end))
            stats = [
                QueryStatus(query, query_id, "r", "/gone", batch_id=batch, plan=plan)
                for query, query_id, batch, plan in queries
            ]
            registry.heartbeat(digit * 32, stats)
        summary = SavepointSummary("/sp", "a" * 32, 1.0, "native", 1, 1, 0.1, saved)
        registry.add_savepoint(summary)
        found = known_runs(registry, {"B": "kafka"}, None)["B"]
        assert {run.job_id[0]: (run.since, run.last_batch) for run in found} == {
            "a": (None, 5),
            "b": (since, since + 40),
            "c": (since, since + 50),
        }
        assert len(found) == 3
        assert read_elsewhere(registry, "B", 1.5) == 70
        assert read_elsewhere(registry, "A", 1.5) == 90


SAVED_FILES = SavedSource("q", 0, "0", "{}", signature="file[/in]")


@pytest.mark.parametrize(
    ("query_id", "path", "options", "batch"),
    [
        ("shared", "/sp/2", {"cleansource": "delete"}, 50),  # where the defect was
        ("shared", "/sp/2", None, 50),
        ("shared", "/sp/2", {"cleansource": "off"}, None),
        ("back", "/sp/4", {"cleansource": "archive"}, 90),
        ("shared", "/sp/5", {"cleansource": "delete"}, None),  # the other had ended before
        ("shared", "/unknown", {"cleansource": "delete"}, 50),
        ("fork", "/sp/2", {"cleansource": "delete"}, None),
    ],
)
def test_who_has_read_on_under_another_query_id(
    cli: Command, query_id: str, path: str, options: dict[str, str] | None, batch: int | None
) -> None:
    """Savepoints 1 and 2 of job a; b went back to 1, and saved 4; c continued from 2, and saved 5.

    Files that one of them has read are gone when another's savepoint is restored.
    """

    def row(batch: int) -> RestorePlan:
        return RestorePlan(queries=(QueryRow("q", origin="q", from_batch=batch, batch_id=batch),))

    runs = (
        ("a", None, "shared", 20, None, 2.0),
        ("b", RestoreSpec("/sp/1"), "back", 50, row(10), 4.0),
        ("c", RestoreSpec("/sp/2"), "shared", 90, row(20), 5.0),
        ("d", RestoreSpec("/sp/1"), "idle", 10, row(10), None),
        ("e", RestoreSpec("/sp/1", RestoreOptions(fork=True)), "fork", 99, row(10), None),
    )
    saved = replace(saved_query(key="q"), sources=(replace(SAVED_FILES, options=options),))
    offer = RestorableQuery(saved, OriginCheckpoint("/c", (), 0), query_id)
    cli.ok("list")
    with cli.registry() as registry:
        for digit, restore, own_id, newest, plan, end in runs:
            launch = Launch("/a.py", restore=restore)
            state = JobState.INITIALIZING if end is None else JobState.FINISHED
            job = JobRecord(digit * 32, digit, state, 1.0, launch, end_time=end)
            registry.add_job(job)
            query = QueryStatus("q", own_id, "r", "/gone", batch_id=newest, plan=plan)
            registry.heartbeat(job.job_id, [query])
        for number, digit in ((1, "a"), (2, "a"), (4, "b"), (5, "c")):
            path_of = f"/sp/{number}"
            created = float(number)
            summary = SavepointSummary(path_of, digit * 32, created, "native", 1, 1, 0.1, ())
            registry.add_savepoint(summary)
        origin = RestoreOrigin({"q": offer}, is_savepoint=True)
        question = restore_question(registry, RestoreSpec(path), origin, None)
    assert question.read_elsewhere.get(query_id) == batch


@pytest.mark.parametrize(
    ("state", "newest", "begun"),
    [
        (JobState.FINISHED, 4, 4),  # where the defect was
        (JobState.FINISHED, 3, 3),
        (JobState.FINISHED, 2, None),  # it has only the restored batch
        (JobState.FAILED, 3, None),  # its queries were held: the savepoint has planned the batch
    ],
)
def test_who_has_called_a_function_with_batches_under_another_query_id(
    cli: Command, tmp_path: Path, state: JobState, newest: int, begun: int | None
) -> None:
    """Savepoint 2 of job a; the query of job b, which has another name, went on from it."""
    checkpoint = CheckpointLikeness(tmp_path / "renamed").run_to(max(2, newest - 1))
    if newest > 2:
        checkpoint.plan(newest)
    row = QueryRow("renamed", origin="q", from_batch=2, batch_id=2)
    plan = RestorePlan(queries=(row,))
    runs = (
        ("a", None, JobState.FINISHED, QueryStatus("q", "shared", "r", "/gone", batch_id=2)),
        (
            *("b", RestoreSpec("/sp/2"), state),
            QueryStatus("renamed", "id", "r", str(checkpoint.root), batch_id=2, plan=plan),
        ),
    )
    saved = replace(saved_query(key="q"), sink={"format": "foreachBatch"})
    offer = RestorableQuery(saved, OriginCheckpoint("/c", (), 0), "shared")
    origin = RestoreOrigin({"q": offer}, is_savepoint=True)
    cli.ok("list")
    with cli.registry() as registry:
        for number, (digit, restore, ended, query) in enumerate(runs, 2):
            launch = Launch("/a.py", restore=restore)
            job = JobRecord(digit * 32, digit, ended, 1.0, launch, end_time=2.0 * number)
            registry.add_job(job)
            registry.heartbeat(job.job_id, [query])
        registry.add_savepoint(SavepointSummary("/sp/2", "a" * 32, 3.0, "native", 1, 1, 0.1, ()))
        question = restore_question(registry, RestoreSpec("/sp/2"), origin, None)
    assert question.begun_elsewhere.get("shared") == begun
