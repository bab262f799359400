"""Where the job of a name stands, for ``run --resume``."""

from __future__ import annotations

import inspect
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.client.context import Context
from flinkish.client.resuming import check_resume, run_to_resume
from flinkish.config import Config
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.restore.restorer import Restorer, lost_origin
from flinkish.driver.restore.start_judge import begun_run
from flinkish.driver.runtime.earlier_runs import run_of
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.query_setup import Prepared, Preparer
from flinkish.errors import (
    ConsentNeeded,
    Corrupt,
    FlinkishError,
    Incompatible,
    SavepointNotFound,
    Superseded,
    UsageError,
    WrongState,
)
from flinkish.launch.job_origin import resumed_origin
from flinkish.launch.known_jobs import came_from, standing
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import (
    OperatorOrigin,
    OperatorRow,
    QueryRow,
    RestorePlan,
    SourceOrigin,
    SourceRow,
)
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavedQuery, SavepointSummary
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.in_use import outlived, savepoints_in_use
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    Request,
    RequestKind,
    RequestState,
    arguments_for,
)
from flinkish.registry.liveness import process_ref
from flinkish.registry.resumed_runs import newest_first, offered_names, taken_by
from flinkish.savepoint.format.reader import open_savepoint
from tests.cli.conftest import Command
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.checkpoints.saved import save


class Jobs:
    """Ended jobs of one query, one after the other, with checkpoints of their own."""

    def __init__(self, registry: Registry, directory: Path, *, resumes: bool = False) -> None:
        self.registry = registry
        self._launch = Launch("/a.py", resumes=resumes)
        self._directory = directory

    def ran(
        self,
        digit: str,
        name: str,
        batch: int | None,
        query_id: str = "shared",
        restore: RestoreSpec | None = None,
        *,
        query: str = "q",
        state: JobState = JobState.FAILED,
        plan: RestorePlan | None = None,
        began: bool = True,
    ) -> str:
        job_id = digit * (32 // len(digit))
        root = self._directory / job_id / query
        if batch is not None:
            CheckpointLikeness(root).run_to(batch)
        launch = replace(self._launch, restore=restore)
        own = str(root.parent)
        now = self.registry.now()
        first = JobState.RUNNING if began else JobState.CREATED
        job = JobRecord(job_id, name, first, now, launch, checkpoint_dir=own)
        self.registry.add_job(job)
        status = QueryStatus(query, query_id, "r", str(root), False, batch, plan=plan)
        self.registry.heartbeat(job.job_id, [status])
        self.registry.transition(job.job_id, state)
        return job.job_id

    def after(self, digit: str, before: str, batch: int = 4, **more: Any) -> str:
        """A run of the name "cron" that went on from another one."""
        spec = RestoreSpec(str(self._directory / before), job=before)
        return self.ran(digit, "cron", batch, restore=spec, **{"plan": took("q"), **more})

    def stopped(self, job_id: str) -> None:
        """Let a ``stop`` have ended a job."""
        kind, done = RequestKind.STOP, RequestState.COMPLETED
        self.registry.record_request(
            Request("f" * 32, job_id, kind, done, self.registry.now(), arguments_for(kind, "/sp"))
        )

    def offered(self, job_id: str) -> dict[str, int | None]:
        """The queries that the next run gets, with their batches."""
        origin = resumed_origin(self.registry, self.registry.job(job_id))
        return {q.name: newest_committed_batch(q.checkpoint_dir) for q in origin.queries}


def took(*names: str, query: str = "q", operators: tuple[OperatorRow, ...] = ()) -> RestorePlan:
    """The plan of a query that began with the positions of saved ones."""
    row = QueryRow(query, origin=names[0], from_batch=3, batch_id=3)
    sources = tuple(SourceRow(query, origin=SourceOrigin(name, 0)) for name in names)
    return RestorePlan(queries=(row,), sources=sources, operators=operators)


def state(verdict: str, query: str | None) -> OperatorRow:
    """The row of an operator whose state was that of another query, if it had any."""
    origin = None if query is None else OperatorOrigin(query)
    return OperatorRow("q", "dedupe", verdict=verdict, origin=origin)


def test_the_newest_run_that_has_committed(cli: Command, tmp_path: Path) -> None:
    cli.ok("list")
    with cli.registry() as registry, Context(Config.load()) as context:
        jobs = Jobs(registry, tmp_path)
        assert run_to_resume(context, "cron") is None
        jobs.ran("a", "cron", None)
        assert standing(registry, "cron") is None, "it has committed nothing: a first start"
        jobs.ran("b", "cron", 3)
        newest = jobs.ran("c", "cron", 5)
        jobs.ran("d", "cron", None)
        jobs.ran("e", "another", 9, "other")
        found = run_to_resume(context, "cron")
        assert found is not None
        assert found.job_id == newest
        moved = jobs.ran("f", "re named", 6)
        with pytest.raises(Superseded, match=f"job re named \\({moved}\\)") as refused:
            run_to_resume(context, "cron")
        assert "--name 're named' --resume" in refused.value.hint
        (query,) = registry.queries(newest)
        registry.heartbeat(newest, [replace(query, batch_id=7)])
        shutil.rmtree(query.checkpoint_dir)
        found = run_to_resume(context, "cron")
        assert found is not None
        assert found.job_id == newest, "it was ahead, although its checkpoint is gone"


def test_a_running_job_that_has_committed_nothing_is_named_without_a_batch(
    cli: Command, tmp_path: Path
) -> None:
    cli.ok("list")
    with cli.registry() as registry, Context(Config.load()) as context:
        jobs = Jobs(registry, tmp_path)
        jobs.ran("a", "cron", 3)
        moved = jobs.ran("b", "moved", None, state=JobState.CANCELED)
        registry.restart(registry.job(moved), "restarted", process_ref())
        with pytest.raises(Superseded) as refused:
            run_to_resume(context, "cron")
        assert refused.value.message.endswith("has continued from the state of that query")


@pytest.mark.parametrize("end", [JobState.FAILED, JobState.CANCELED])
def test_a_run_that_ended_while_its_queries_were_held_does_not_count(
    cli: Command, tmp_path: Path, end: JobState
) -> None:
    """Refused, killed or canceled: its checkpoint lacks the state that has no owner."""
    cli.ok("list")
    savepoint = RestoreSpec("/sp")
    with cli.registry() as registry, Context(Config.load()) as context:
        jobs = Jobs(registry, tmp_path)
        held = jobs.ran("a", "cron", 3, restore=savepoint, plan=took("q"), began=False, state=end)
        jobs.ran("f", "cron", None)  # a plain run that was refused: it has done nothing either
        with pytest.raises(WrongState, match="ended before it had started from /sp") as refused:
            run_to_resume(context, "cron")
        assert f"flinkish restart {held}" in refused.value.hint
        (query,) = registry.queries(held)
        planned = CheckpointLikeness(Path(query.checkpoint_dir)).root / "offsets"
        shutil.copy(planned / "3", planned / "4")
        assert standing(registry, "cron") is None, "batch 4 was planned in the savepoint"
        ran = jobs.ran("b", "cron", 4, restore=savepoint, plan=took("q"), began=False)
        jobs.after("c", ran, 3, began=False)
        jobs.ran("d", "cron", 3, restore=savepoint, plan=took("q"), began=False)
        found = run_to_resume(context, "cron")
        assert found is not None
        assert found.job_id == ran, "it had a batch of its own"
        gone = jobs.ran("e", "cron", 2, restore=savepoint, began=False)
        shutil.rmtree(registry.queries(gone)[0].checkpoint_dir)
        found = run_to_resume(context, "cron")
        assert found is not None
        assert found.job_id == gone, "it had batches of its own, although its checkpoint is gone"


def test_a_run_that_was_resumed_is_not_the_newest_because_of_a_clock() -> None:
    def ended(digit: str, end: float, after: str | None = None) -> JobRecord:
        restore = None if after is None else RestoreSpec("/cp", job=after * 32)
        launch = Launch("/a.py", restore=restore)
        job_id = digit * 32
        return JobRecord(job_id, "cron", JobState.FINISHED, end - 1, launch, end_time=end)

    # The clock was set back by an hour after the second run.
    runs = [ended("a", 3600), ended("b", 7200, "a"), ended("c", 3700, "b"), ended("d", 3800, "c")]
    runs += [ended("e", 5000), replace(ended("f", 9000, "d"), state=JobState.RUNNING)]
    assert "".join(job.job_id[0] for job in newest_first(runs)) == "dcbea"


def test_a_run_that_another_has_overtaken_is_not_started(cli: Command, tmp_path: Path) -> None:
    """It chose where to resume before the other had begun, and was launched when that had ended."""
    cli.ok("list")
    with cli.registry() as registry:
        jobs = Jobs(registry, tmp_path)
        first = jobs.ran("a", "cron", 3)
        restore = RestoreSpec(str(tmp_path / first), job=first)
        launch = replace(registry.job(first).launch, restore=restore)
        late = replace(registry.job(first), job_id="e" * 32, launch=launch, end_time=None)
        late = replace(late, state=JobState.INITIALIZING, start_time=registry.now())
        newest = jobs.after("b", first, 4)
        registry.add_job(late)
        with pytest.raises(Superseded, match=f"{newest} has continued to batch 4"):
            Runtime(registry, late, str(tmp_path / "root"))
        shutil.rmtree(registry.queries(newest)[0].checkpoint_dir)
        with pytest.raises(Superseded, match=f"{newest} has continued$"):
            Runtime(registry, late, str(tmp_path / "root"))


def test_queries_that_the_newest_run_had_not_started(cli: Command, tmp_path: Path) -> None:
    """A program of two queries, one after the other, that was killed in the first of them."""
    cli.ok("list")
    with cli.registry() as registry:
        jobs = Jobs(registry, tmp_path)
        first = jobs.ran("a", "cron", 3)
        CheckpointLikeness(tmp_path / "second").run_to(1)
        second = replace(QueryStatus("second", "i", "r", str(tmp_path / "second")), active=False)
        registry.heartbeat(first, [second])
        spec = RestoreSpec(str(tmp_path), job=first)
        killed = jobs.ran("b", "cron", 4, restore=spec)
        assert jobs.offered(killed) == {"q": 4, "second": 1}
        dropped = jobs.ran(
            "c", "cron", 4, restore=replace(spec, options=RestoreOptions(allow_non_restored=True))
        )
        assert jobs.offered(dropped) == {"q": 4, "second": 1}, "it was killed before it dropped any"
        said = jobs.after("d", first, plan=took("q", operators=(state("dropped", "second"),)))
        assert jobs.offered(said) == {"q": 4}, "dropped on purpose"
        ended = jobs.after("e", first, state=JobState.FINISHED)
        assert jobs.offered(ended) == {"q": 4}, "its program was through"
        jobs.stopped(ended)
        assert jobs.offered(ended) == {"q": 4, "second": 1}
        assert came_from(registry, registry.job(dropped)) == [first]
        assert came_from(registry, registry.job(first)) == []


def test_a_long_chain_of_runs_of_which_old_ones_are_gone(cli: Command, tmp_path: Path) -> None:
    cli.ok("list")
    with cli.registry() as registry:
        jobs = Jobs(registry, tmp_path)
        newest = first = jobs.ran(f"{0:04x}", "cron", 3)
        for number in range(1, 60):
            newest = jobs.after(f"{number:04x}", newest)
        shutil.rmtree(tmp_path / first)
        shutil.rmtree(tmp_path / (f"{30:04x}" * 8))
        allowed = sys.getrecursionlimit()
        sys.setrecursionlimit(len(inspect.stack()) + 50)
        try:
            assert jobs.offered(newest) == {"q": 4}
        finally:
            sys.setrecursionlimit(allowed)
        registry.begin_purge(registry.job(first), {})
        registry.forget(first)
        assert jobs.offered(newest) == {"q": 4}


@pytest.mark.parametrize(
    ("plan", "taken"),
    [
        (None, {"q"}),
        (took("q"), {"q"}),
        (took("a", "b"), {"q", "a", "b"}),
        (took("q", operators=(state("as-is", "b"),)), {"q"}),
        (took("q", operators=(state("dropped", "b"),)), {"q", "b"}),
        (RestorePlan(operators=(state("as-is", "b"),)), {"q", "b"}),
        (RestorePlan(queries=(QueryRow("q", from_batch=3),)), {"q", None}),
        (RestorePlan(queries=(QueryRow("q"),)), {"q"}),
        (RestorePlan(sources=(SourceRow("q"),), operators=(state("new", None),)), {"q"}),
    ],
)
def test_what_a_query_took(plan: RestorePlan | None, taken: set[str | None]) -> None:
    assert taken_by([QueryStatus("q", "i", "r", "/c", plan=plan)]) == taken


def test_a_purge_leaves_all_that_the_next_run_goes_on_from(cli: Command, tmp_path: Path) -> None:
    cli.ok("list")
    with cli.registry() as registry:
        jobs = Jobs(registry, tmp_path, resumes=True)
        old = jobs.ran("a", "cron", 3)
        whole = jobs.after("b", old, state=JobState.FINISHED)
        second = replace(QueryStatus("second", "i", "r", str(tmp_path / whole / "second")))
        CheckpointLikeness(tmp_path / whole / "second").run_to(1)
        registry.heartbeat(whole, [replace(second, active=False, batch_id=1)])
        middle = jobs.after("c", whole)
        newest = jobs.after("d", middle)
        time.sleep(0.01)
        purge = ("purge", "--ended-before", "1ms", "--failed", "--yes")
        assert cli.ok(*purge, "-q").out.split() == [old]
        assert jobs.offered(newest) == {"q": 4, "second": 1}
        (query,) = registry.queries(newest)
        root = CheckpointLikeness(tmp_path / "later").run_to(5).root
        now = replace(registry.job(newest), job_id="e" * 32, state=JobState.RUNNING)
        registry.add_job(now)
        registry.heartbeat(now.job_id, [replace(query, checkpoint_dir=str(root), batch_id=5)])
        assert cli.ok(*purge, "-q").out.split() == [newest], "the second is not started yet"
        registry.transition(now.job_id, JobState.FINISHED)
        time.sleep(0.01)
        assert cli.ok(*purge, "-q").out.split() == [whole, middle]
        assert jobs.offered(now.job_id) == {"q": 5}


def test_a_run_that_was_ended_in_the_first_batch_of_a_query(cli: Command, tmp_path: Path) -> None:
    cli.ok("list")
    with cli.registry() as registry:
        jobs = Jobs(registry, tmp_path)
        jobs.ran("a", "cron", 3)
        killed, refused = (registry.job(jobs.ran(digit, "cron", None)) for digit in "bc")
        assert begun_run(registry, refused, "q") is None, "it has planned nothing"
        root = CheckpointLikeness(tmp_path / killed.job_id / "q").run_to(0).root
        shutil.rmtree(root / "commits")
        begun = begun_run(registry, refused, "q")
        assert begun is not None
        assert (begun.job_id, begun.batch) == (killed.job_id, 0)
        assert begun_run(registry, killed, "q") is None, "the newest other one has planned nothing"


def test_a_purge_leaves_what_the_next_run_goes_on_from(cli: Command, tmp_path: Path) -> None:
    cli.ok("list")
    with cli.registry() as registry:
        jobs = Jobs(registry, tmp_path, resumes=True)
        old = jobs.ran("a", "cron", 3)
        newest = jobs.ran("b", "cron", 4)
        refused = jobs.ran("c", "cron", None)
    time.sleep(0.01)
    purge = ("purge", "--ended-before", "1ms", "--failed", "--dry-run")
    assert cli.ok(*purge, "-q").out.split() == [old, refused]
    (kept,) = (job for job in cli.ok(*purge, "--json").json()["jobs"] if job["job_id"] == newest)
    assert "flinkish run --resume continues from it" in str(kept)
    with cli.registry() as registry:
        jobs = Jobs(registry, tmp_path / "held", resumes=True)
        jobs.ran("d", "held", 3, restore=RestoreSpec("/sp"), plan=took("q"), began=False)
    time.sleep(0.01)
    assert cli.ok(*purge, "-q").out.split() == [old, refused], "or the next would begin at 0"


def recorded(registry: Registry, path: str, *names: str) -> None:
    """Record a savepoint of queries."""
    queries = tuple(SavedQuery(name, 3, name) for name in names)
    registry.add_savepoint(SavepointSummary(path, "j", 1.0, "native", 1, 1, 0.1, queries))


@pytest.mark.parametrize(
    ("names", "state", "more", "began_with"),
    [
        (("q", "second"), JobState.FAILED, {}, "/sp"),
        (("q", "second"), JobState.FAILED, {"allow_non_restored": True}, "/sp"),
        (("q", "second"), JobState.FINISHED, {}, ""),
        (("q",), JobState.FAILED, {}, ""),
        ((), JobState.FAILED, {}, "/sp"),  # nobody knows what it has
        (("q", "second"), JobState.FAILED, {"claim_mode": "claim"}, "/sp"),
        ((), JobState.FAILED, {"claim_mode": "claim"}, "/sp"),
    ],
)
def test_a_killed_run_that_had_begun_with_a_savepoint(
    cli: Command,
    tmp_path: Path,
    names: tuple[str, ...],
    state: JobState,
    more: dict[str, Any],
    began_with: str,
) -> None:
    cli.ok("list")
    with cli.registry() as registry:
        if names:
            (tmp_path / "moved").symlink_to("/sp")
            recorded(registry, str(tmp_path / "moved"), *names)
        jobs = Jobs(registry, tmp_path)
        spec = RestoreSpec("/sp", RestoreOptions(**more))
        ran = jobs.ran("a", "cron", 4, restore=spec, plan=took("q"), state=state)
        for job_id in (ran, jobs.after("b", ran)):
            origin = resumed_origin(registry, registry.job(job_id))
            assert origin.began_with == began_with
            assert origin.claimed == (bool(more.get("claim_mode")) and not names)
            assert not began_with or origin.taken == ("q",)
            protected = savepoints_in_use(registry).protected
            assert list(protected) == [began_with] * bool(began_with and names)


def test_the_savepoint_that_a_run_never_began_with_is_needed(cli: Command, tmp_path: Path) -> None:
    """``restart`` begins with it; and what the job goes on from without it is needed as well."""
    cli.ok("list")
    with cli.registry() as registry:
        jobs = Jobs(registry, tmp_path)
        recorded(registry, "/first", "q", "second")
        jobs.ran("a", "cron", 4, restore=RestoreSpec("/first"), plan=took("q"))
        held: dict[str, Any] = {"restore": RestoreSpec("/sp"), "plan": took("q"), "began": False}
        jobs.ran("b", "cron", 3, **{**held, "restore": RestoreSpec("/older")})
        never = jobs.ran("c", "cron", 3, state=JobState.CANCELED, **held)
        jobs.ran("d", "cron", None)
        protected = savepoints_in_use(registry).protected
        assert protected.keys() == {"/first", "/sp"}
        assert f"({never[:6]}) ended before it had started from it" in protected["/sp"]
        jobs.ran("e", "cron", 9)
        assert not savepoints_in_use(registry).protected


def test_what_a_running_job_has_not_started_is_needed(cli: Command, tmp_path: Path) -> None:
    """A program of bounded queries that waits for the first, which has committed a batch."""
    cli.ok("list")
    with cli.registry() as registry:
        recorded(registry, "/sp", "q", "second")
        jobs = Jobs(registry, tmp_path)
        spec = RestoreSpec("/sp")
        job = registry.job(jobs.ran("a", "cron", 4, restore=spec, plan=took("q")))
        running = replace(job, job_id="b" * 32, state=JobState.RUNNING)
        registry.add_job(running)
        first = replace(registry.queries(job.job_id)[0], active=True)
        registry.heartbeat(running.job_id, [first])
        assert "has not started all" in savepoints_in_use(registry).protected["/sp"]
        registry.heartbeat(running.job_id, [first, replace(first, name="second")])
        assert not savepoints_in_use(registry).protected


def test_outlived() -> None:
    begun = QueryStatus("q", "i", "r", "/c", batch_id=4, plan=took("q"))
    assert not outlived([replace(begun, batch_id=3)])
    assert outlived([begun], {"q"})
    assert not outlived([begun], {"q", "second"})
    spec, second = RestoreSpec("/c", job="j"), QueryStatus("second", "i", "r", "/c")
    assert offered_names(spec, {"j": [begun, second]}, ()) == {"q"}, "second has nothing to give"
    runs = {
        job: [replace(begun, checkpoint_dir=f"/cp/{job}/{name}", name="renamed") for name in names]
        for job, names in (("j", ("q", "second")), ("k", ("third",)))
    }
    runs["j"].append(replace(second, checkpoint_dir="/cp/j/empty"))
    assert offered_names(RestoreSpec("/cp/j"), runs, ()) == {"q", "second"}
    assert not offered_names(RestoreSpec("/cp/j/q"), runs, ()), "its query has no name there"


GONE, DAMAGED = SavepointNotFound("/sp is gone"), Corrupt("/sp is damaged")


@pytest.mark.parametrize(
    ("names", "more", "error", "is_lost"),
    [
        (("q", "second"), {}, GONE, True),
        (("q", "second"), {}, DAMAGED, True),
        (("q",), {}, DAMAGED, False),
        (("q", "second"), {"claim_mode": "claim"}, GONE, True),
        (("q",), {"claim_mode": "claim"}, GONE, False),
        ((), {"claim_mode": "claim"}, GONE, False),
        (("q", "second"), {"claim_mode": "claim"}, DAMAGED, True),
        (("q", "second"), {"allow_non_restored": True}, GONE, True),
        (("q", "third"), {"allow_non_restored": True}, GONE, False),
        ((), {"allow_non_restored": True}, GONE, True),
    ],
)
def test_a_query_whose_savepoint_is_lost_when_its_job_is_started_again(
    cli: Command,
    tmp_path: Path,
    names: tuple[str, ...],
    more: dict[str, Any],
    error: FlinkishError,
    is_lost: bool,
) -> None:
    cli.ok("list")
    with cli.registry() as registry:
        if names:
            recorded(registry, "/sp", *names)
        spec = RestoreSpec("/sp", RestoreOptions(**more))
        job_id = Jobs(registry, tmp_path).ran("a", "cron", 4, restore=spec, plan=took("q"))
        lost = lost_origin(registry, registry.job(job_id), spec, error)
        assert (lost is not None and lost.refusal("second") is not None) == is_lost
        again = [run_of(query) for query in registry.queries(job_id)]
    if lost is None or not is_lost:
        return
    earlier = {run.name: run for run in again}
    preparer = Preparer(str(tmp_path), Planning({}), None, list, earlier, lost=lost)
    new = Prepared("second", False, None, None, None, ())
    with pytest.raises(ConsentNeeded, match="'second' may be one of them") as refused:
        preparer._placed(new, WriterFacts(), None)
    assert f"flinkish restart {job_id} --from SAVEPOINT" in refused.value.hint
    new = replace(new, name="q", own="file:///own")
    first = preparer._resumed(new, earlier["q"], {})
    again_at = preparer._placed(replace(first, location="file:///own"), WriterFacts(), None)
    assert again_at.location == first.location


def test_a_restorer_names_the_queries_that_are_not_started(cli: Command, tmp_path: Path) -> None:
    """For a savepoint of the running job, which has no state of them."""
    cli.ok("list")
    path = save(tmp_path, "hdfs-agg", "rocksdb-dedup")
    with cli.registry() as registry:
        restorer = Restorer(registry, "a" * 32, RestoreSpec(path), Planning({}))
        names = [(left.query, left.pending) for left in restorer.not_started()]
        assert names == [("query hdfs-agg", True), ("query rocksdb-dedup", True)]
        dropped = RestoreOptions(allow_non_restored=True)
        restorer = Restorer(registry, "a" * 32, RestoreSpec(path, dropped), Planning({}))
        assert len(restorer.not_started()) == 2, "the program may still start them"
        approved = RestoreSpec(path, dropped, expected=RestorePlan(complete=True))
        with pytest.raises(Incompatible, match="not the planned one: nothing in the program takes"):
            Restorer(registry, "a" * 32, approved, Planning({})).check(more_to_come=False)
        approved = replace(approved, expected=restorer.restore_plan())
        restorer = Restorer(registry, "a" * 32, approved, Planning({}))
        assert restorer.check(more_to_come=False)
        assert restorer.not_started() == (), "dropped by consent"


def test_a_job_that_never_began_is_not_started_again_without_its_savepoint(
    cli: Command, tmp_path: Path
) -> None:
    """State without an owner may be left in it, which no checkpoint of the job has."""
    cli.ok("list")
    with cli.registry() as registry:
        spec = RestoreSpec("/sp", RestoreOptions(claim_mode="claim"))
        jobs = Jobs(registry, tmp_path)
        held = jobs.ran("a", "cron", 3, restore=spec, plan=took("q"), began=False)
        registry.restart(registry.job(held), "again", process_ref())
        with pytest.raises(SavepointNotFound, match="no savepoint at /sp") as lost:
            Runtime(registry, registry.job(held), str(tmp_path / "root"))
        assert f"flinkish restart {held} --from SAVEPOINT" in str(lost.value.hint)
        ran = jobs.ran("b", "other", 4, "another", restore=RestoreSpec("/sp"), plan=took("q"))
        registry.restart(registry.job(ran), "again", process_ref())
        runtime = Runtime(registry, registry.job(ran), str(tmp_path / "root"))
        assert runtime.restorer is None


def test_a_savepoint_of_a_job_names_the_queries_that_it_had_not_started(
    cli: Command, tmp_path: Path
) -> None:
    """Restored without them, they would start from the beginning without a word."""
    cli.ok("list")
    with cli.registry() as registry:
        recorded(registry, "/sp", "q", "second")
        jobs = Jobs(registry, tmp_path)
        killed = jobs.ran("a", "cron", 4, restore=RestoreSpec("/sp"), plan=took("q"))
        again = jobs.after("b", killed)
        held = jobs.ran("c", "other", 3, "o", RestoreSpec("/sp"), plan=took("q"), began=False)
        for job_id in (killed, again):
            path = cli.ok("savepoint", "-q", job_id, str(tmp_path / "saved")).out.strip()
            (left,) = open_savepoint(path).header.job.left_out
            assert (left.query, left.pending) == ("second", True)
            assert "its state is in /sp" in left.reason
        assert resumed_origin(registry, registry.job(again)).left_out == ()
        refused = cli("savepoint", held, str(tmp_path / "saved"))
        assert refused.code == WrongState.code
        assert "use /sp instead" in refused.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--resume",), "needs the name of the job"),
        (("--resume", "--name", "a", "-s", "/sp"), "a savepoint and --resume are mutually"),
        (("--resume", "--name", "a", "-cm", "claim"), "a claim mode and --resume are mutually"),
    ],
)
def test_options_that_contradict_it(cli: Command, words: tuple[str, ...], says: str) -> None:
    refused = cli("run", *words, str(cli.program))
    assert refused.code == 2
    assert says in refused.err


def test_a_first_run_starts_as_without_it(cli: Command, tmp_path: Path) -> None:
    cli.ok("list")
    words = ("run", "--dry-run", "--name", "cron", "--resume", str(cli.program))
    assert "no run of job cron in the registry sqlite:///" in cli.ok(*words).err
    root = str(CheckpointLikeness(tmp_path / "q").run_to(3).root)
    job = cli.start(
        *("serve", "--name", "cron", "--resume", "-D", f"execution.state-recovery.path={root}")
    )
    with cli.registry() as registry:
        restore = registry.job(job).launch.restore
    assert restore is not None
    assert (restore.path, restore.job) == (root, None)


def test_beside_a_job_that_runs(cli: Command) -> None:
    running = cli.start("serve", "--name", "cron")
    resume = ("run", "--name", "cron", "--resume")
    assert cli(*resume, str(cli.program)).code == 13
    assert running in cli.ok(*resume, "--if-not-running", str(cli.program)).out


def test_a_plan_is_named_although_it_names_a_savepoint() -> None:
    with pytest.raises(UsageError, match="a plan and --resume are mutually exclusive"):
        check_resume("/sp", RestoreOptions(), "a", has_plan=True)
