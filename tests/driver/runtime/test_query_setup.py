"""Which checkpoint a query goes on in when its job is started again, or is restored."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.checkpoint.format.pins import SETTING_CHECKPOINT_FORMAT
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime import query_reports
from flinkish.driver.runtime.earlier_runs import EarlierRun, run_of
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.query_setup import Prepared, Preparer
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import ConsentNeeded
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import QueryRow, RestorePlan
from flinkish.messages.queries import QueryStatus
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from tests.support.checkpoints.recorded import unpack

CONF = SimpleNamespace(get=lambda *_: None)
SESSION = SimpleNamespace(
    conf=CONF, _jsc=SimpleNamespace(hadoopConfiguration=lambda: SimpleNamespace(get=lambda _: ""))
)
WRITER = SimpleNamespace(_spark=SESSION)
RESTORED = RestorePlan(queries=(QueryRow("query-1", batch_id=4), QueryRow("query-2", batch_id=4)))


class NoPlan:
    """In place of the planning, which asks Spark."""

    def plan_to_run(self, *_: Any) -> tuple[None, list[str]]:
        return None, []


class Restoring:
    """In place of the restorer: each query is restored at batch 4."""

    def __init__(self) -> None:
        self.owners: list[str] = []

    def settings_for(self, _: str) -> dict[str, str]:
        return {}

    def restore(self, name: str, *_: Any) -> Any:
        assert name not in self.owners
        self.owners.append(name)
        return SimpleNamespace(batch_id=4, notes=(), plan=None, typed={})

    def take_back(self, name: str) -> None:
        self.owners.remove(name)

    def session_settings(self) -> dict[str, str]:
        return {SETTING_CHECKPOINT_FORMAT: "2"}


class Running:
    """The queries that Spark has started and that have not failed."""

    def __init__(self) -> None:
        self.queries: list[Any] = []

    def __call__(self) -> list[Any]:
        return self.queries

    def start(self, prepared: Prepared, number: int = 1) -> None:
        query = SimpleNamespace(
            name=prepared.name,
            generated_name=prepared.generated_name,
            run_id=f"run-{number}",
            jsq=SimpleNamespace(exception=lambda: SimpleNamespace(isEmpty=lambda: True)),
            plan=None,
            planned=None,
            own=prepared.own,
        )
        self.queries = [each for each in self.queries if each.name != prepared.name] + [query]


def preparer(*earlier: EarlierRun, restorer: Any = None, started: Any = list) -> Preparer:
    runs = {run.name: run for run in earlier}
    return Preparer("/root/job", NoPlan(), restorer, started, runs)  # type: ignore[arg-type]


def prepare(job: Preparer, own: str | None, name: str | None = None) -> Prepared:
    options = {} if own is None else {"checkpointlocation": own}
    facts = WriterFacts(options=options, query_name=name)
    return job.prepare(job.name_of(facts, SESSION), WRITER, facts)


def run(name: str, checkpoint: str, own: str, **more: Any) -> EarlierRun:
    return run_of(QueryStatus(name, f"id-{name}", "r", checkpoint, own_location=own, **more))


def test_unnamed_queries_in_another_order_have_their_own_checkpoints() -> None:
    places = {"query-1": "/chk/orders", "query-2": "/chk/clicks"}
    job = preparer(*(run(n, at, at) for n, at in places.items()))
    for written in ("/chk/clicks", "file:///chk/orders/"):
        found = prepare(job, written)
        assert found.location == f"file://{written.removeprefix('file://').rstrip('/')}"
    assert prepare(job, "/chk/clicks").name == "query-2", "started again"
    assert prepare(job, "/chk/new").name == "query-3"


def failed(name: str, writer: Any, path: str) -> Any:
    """An unnamed query of the job that has failed."""
    facts = WriterFacts(format="parquet", path=path)
    return SimpleNamespace(
        name=name, generated_name=True, facts=facts, writer=writer, jsq=None, own=None
    )


def test_of_failed_unnamed_queries_each_continues_as_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_jvm, "error_of", lambda _: "the broker is down")
    writers = [object(), object()]
    queries = [failed("query-1", writers[0], "/a"), failed("query-2", writers[1], "/b")]
    job = Preparer("/root/job", NoPlan(), None, lambda: queries)  # type: ignore[arg-type]
    new = WriterFacts(format="parquet", path="/c")
    assert job.name_of(new, SESSION, writers[1]) == "query-2"
    assert job.name_of(new, SESSION, writers[0]) == "query-1"
    assert job.name_of(WriterFacts(format="parquet", path="/b"), SESSION, object()) == "query-2"
    with pytest.raises(ConsentNeeded, match="'query-1', 'query-2'; it may continue any of them"):
        job.name_of(new, SESSION, object())
    queries.pop()
    assert job.name_of(new, SESSION, object()) == "query-1"


def test_a_query_without_a_location_takes_no_other_s_checkpoint() -> None:
    job = preparer(run("query-1", "/chk/a", "/chk/a"), run("query-2", "/root/job/query-2", ""))
    assert prepare(job, None).location == "file:///root/job/query-2"
    assert prepare(job, "/chk/a").location == "file:///chk/a"


def test_restored_unnamed_queries_are_known_by_what_the_program_wrote() -> None:
    job = preparer(
        run("query-1", "/root/job/query-1", "rel/orders", plan=RESTORED),
        run("query-2", "/root/job/query-2", "rel/clicks", plan=RESTORED),
    )
    assert prepare(job, "rel/clicks").location == "file:///root/job/query-2"
    assert prepare(job, "rel/orders").location == "file:///root/job/query-1"


@pytest.mark.parametrize("own", ["/chk/monday", ""])
def test_an_unnamed_query_that_may_be_another_is_refused(own: str) -> None:
    job = preparer(run("query-1", own or "/root/job/query-1", own))
    with pytest.raises(ConsentNeeded, match="would resume as 'query-1'") as refused:
        prepare(job, "/chk/tuesday")
    assert "queryName" in str(refused.value.hint)


def test_a_named_query_goes_on_wherever_its_location_is_by_now() -> None:
    job = preparer(run("q", "/chk/monday", "/chk/monday"))
    found = prepare(job, "/chk/tuesday", "q")
    assert found.location == "file:///chk/monday"
    assert found.own == "/chk/tuesday"
    again = prepare(job, "/chk/tuesday/", "q")
    assert again.location == "file:///chk/monday", "the program starts it again"


def test_a_restored_query_does_not_lend_its_checkpoint_to_another_of_its_name() -> None:
    started = Running()
    job = preparer(restorer=Restoring(), started=started)
    first = prepare(job, "/chk/orders", "load")
    assert (first.restored_batch, first.location) == (4, "file:///root/job/load")
    started.start(first)
    assert prepare(job, "/chk/orders", "load").location == first.location
    with pytest.raises(ConsentNeeded, match="has resumed a query with /chk/orders"):
        prepare(job, "/chk/clicks", "load")


@pytest.mark.parametrize("name", ["load", None])
@pytest.mark.parametrize("own", ["/chk/load", None])
def test_a_restored_query_that_spark_refuses_is_restored_again_at_the_next_start(
    own: str | None, name: str | None
) -> None:
    started, restorer = Running(), Restoring()
    job = preparer(restorer=restorer, started=started)
    options = {} if own is None else {"checkpointlocation": own}
    writer, facts = SimpleNamespace(_spark=SESSION), WriterFacts(options=options, query_name=name)
    place = iter(["/chk/first", "/chk/second"]).__next__

    def again() -> Prepared:
        called = job.name_of(facts, SESSION, writer)
        return job.prepare(called, writer, facts, place=lambda _: place())

    first = again()
    job.not_started(first.name, writer, facts)
    assert restorer.owners == [], "its state has no owner"
    assert again() == first
    assert restorer.owners == [first.name]
    started.start(first)
    later = again()
    if own is None:  # another start of a query that has ended well
        assert later.location == f"file:///root/job/{'load-2' if name else 'query-2'}"
    else:
        assert (later.location, later.restored_batch) == (first.location, None)


def test_a_resumed_query_that_spark_refuses_resumes_at_the_next_start() -> None:
    started = Running()
    job = preparer(
        *(run(name, f"/root/job/{name}", "") for name in ("load", "query-1", "query-2")),
        started=started,
    )
    for name in ("load", None):
        first = prepare(job, None, name)
        job.not_started(first.name, WRITER, WriterFacts(query_name=name))
        assert prepare(job, None, name) == first
        started.start(first)
    assert prepare(job, None, "load").location == "file:///root/job/load-2", "a new run"
    assert prepare(job, None).location == "file:///root/job/query-2"


def test_an_unnamed_query_continues_no_other_that_spark_has_refused() -> None:
    def started_by(write: Any) -> WriterFacts:
        return WriterFacts(format="foreachBatch", calls={"format": ("foreachBatch", (write,), {})})

    for earlier in ([], [run("query-2", "/root/job/query-2", "")]):
        job = preparer(*earlier)
        writer, facts = SimpleNamespace(_spark=SESSION), started_by(print)
        assert job.name_of(facts, SESSION, writer) == "query-1"
        job.not_started("query-1", writer, facts)
        files = WriterFacts(format="parquet", path="/out")
        assert job.name_of(files, SESSION, WRITER) == "query-2"
        if earlier:
            with pytest.raises(
                ConsentNeeded, match="it may be one that Spark has refused to start: 'query-1'"
            ):
                job.name_of(started_by(repr), SESSION, WRITER)
        else:
            assert job.name_of(started_by(repr), SESSION, WRITER) == "query-3"
        assert job.name_of(started_by(print), SESSION, WRITER) == "query-1", "by a new writer"
        assert job.name_of(facts, SESSION, writer) != "query-1", "it has been tried again"


def test_the_state_of_a_query_that_spark_refuses_has_no_owner_until_its_next_start(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = unpack("spark43-hdfs-agg", tmp_path)
    monkeypatch.setattr(Planning, "plan_to_run", NoPlan.plan_to_run)
    monkeypatch.setattr(query_reports, "at_start", lambda *_: nullcontext())
    launch = Launch("/a.py", restore=RestoreSpec(str(origin)))
    job = JobRecord("a" * 32, "a", JobState.CREATED, 1.0, launch)
    registry.add_job(job)
    runtime = Runtime(registry, job, str(tmp_path / "job"))
    context = SimpleNamespace(applicationId="app")
    java = SimpleNamespace(equals=lambda _: True)
    session = SimpleNamespace(
        **{**vars(SESSION), "conf": SimpleNamespace(get=lambda _key, default=None: default)},
        version="4.3.0",
        sparkContext=context,
        _jsparkSession=java,
    )
    writer = SimpleNamespace(
        _spark=session, queryName=lambda _: None, option=lambda _key, value: places.append(value)
    )
    places: list[str] = []
    restorer = runtime.restorer
    assert restorer is not None

    def begin() -> None:
        assert not restorer.non_restored()
        assert newest_committed_batch(places[-1].removeprefix("file://")) == 6
        raise ValueError("no broker")

    for _ in range(2):
        with pytest.raises(ValueError, match="no broker"):
            runtime.start_query(writer, WriterFacts(format="noop"), begin)
        assert restorer.is_waiting()
    assert places == [f"file://{tmp_path}/job/query-1"] * 2
    assert runtime.fatal is None


def test_threads_that_start_queries_leave_each_other_the_settings() -> None:
    job = preparer(restorer=Restoring())
    values: dict[str, str] = {}
    conf = SimpleNamespace(set=values.__setitem__, unset=values.__delitem__, get=values.get)
    session = SimpleNamespace(conf=conf, sparkContext=None)
    begun, left = threading.Event(), threading.Event()
    seen: list[str | None] = []

    def start() -> None:
        with job.session_settings(session, "b"):
            begun.set()
            left.wait(60)
            seen.append(values.get(SETTING_CHECKPOINT_FORMAT))

    other = threading.Thread(target=start)
    with job.session_settings(session, "a"):
        other.start()
        begun.wait(0.1)  # it must not
    left.set()
    other.join()
    assert seen == ["2"]
    assert values == {}, "for queries that are started later"
