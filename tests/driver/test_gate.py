"""stop and cancel as one action: the program never gets past a query that is only quiesced."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.driver import job as driver_job
from flinkish.driver.job import conclude
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.requests import actions, agent, drain, job_savepoint, time_limit
from flinkish.driver.requests.agent import leave_without_jvm
from flinkish.driver.runtime import job_session, query_reports, query_starts, quiesce
from flinkish.driver.runtime.hook import Hook
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.query_setup import Prepared
from flinkish.driver.script import ProgramOutcome
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import (
    GivenUp,
    NoCommittedBatch,
    NotSavepointable,
    RegistryError,
    StorageError,
    WrongState,
)
from flinkish.messages.launch import ExternalLauncher, Launch
from flinkish.messages.requests import RequestResult, SavepointArguments, SavepointSummary
from flinkish.registry.claims import file_resource
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import (
    ENDED_BEFORE_QUERIES,
    JobRecord,
    JobState,
    ProcessRef,
    RequestKind,
    RequestState,
    arguments_for,
)
from flinkish.registry.liveness import process_ref
from flinkish.restore.origin.restore_inputs import NewSink
from flinkish.savepoint.write.writer import write_savepoint
from tests.driver.runtime.test_query_reports import HERE, Run, fake_query
from tests.support.driver.in_process_job import InProcessJob

pytestmark = pytest.mark.spark

NewJob = Callable[..., InProcessJob]


def rate(spark: Any) -> Any:
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()


def start_counting(spark: Any, name: str = "counts", interval: str = "0 seconds") -> Any:
    frame = rate(spark).groupBy(rate_key()).count()
    writer = frame.writeStream.queryName(name).outputMode("update").format("noop")
    return writer.trigger(processingTime=interval).start()


def rate_key() -> Any:
    from pyspark.sql import functions as F

    return (F.col("value") % 5).alias("k")


class Away:
    """Stands before a method of the registry, which cannot be reached for some calls."""

    def __init__(self, method: Callable[..., Any], calls: int = 2) -> None:
        self._method, self._calls = method, calls

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        if self._calls:
            self._calls -= 1
            raise RegistryError("the registry failed: the server restarts")
        return self._method(*arguments, **more)


def bare_runtime(
    registry: Registry,
    external: ExternalLauncher | None = None,
    options: Mapping[str, str] | None = None,
) -> Runtime:
    """A job whose program has started no query."""
    launch = Launch("/a.py", external=external, options=dict(options or {}))
    job = JobRecord("a" * 32, "a", JobState.CREATED, 1.0, launch)
    registry.add_job(job)
    runtime = Runtime(registry, job, "/root")
    runtime.start_phase.ended()
    return runtime


@pytest.mark.parametrize(
    ("kind", "write", "end"),
    [
        (RequestKind.STOP, "fail", RequestState.FAILED),
        (RequestKind.CANCEL, "complete", RequestState.COMPLETED),
    ],
)
def test_a_request_has_its_outcome_once_the_registry_is_back(
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: RequestKind,
    write: str,
    end: RequestState,
) -> None:
    """Without one it would be in progress for ever, and no later request be served."""
    runtime = bare_runtime(registry)
    arguments = arguments_for(kind, str(tmp_path) if kind is RequestKind.STOP else None)
    request_id = registry.submit(runtime.job_id, kind, arguments).request_id
    request = registry.claim(runtime.job_id)
    assert request is not None
    monkeypatch.setattr(registry, write, Away(getattr(registry, write)))
    monkeypatch.setattr(actions, "_PAUSE", 0.0)
    carried_out = actions.Actions(
        runtime, savepoint_timeout=60.0, quiesce_timeout=60.0, cancel_grace=5.0
    )
    carried_out.perform(request, threading.Event())
    assert registry.request(request_id).state is end


def test_a_status_that_the_shell_would_cut_to_zero_is_still_a_failure(registry: Registry) -> None:
    runtime = bare_runtime(registry)
    idle: Any = SimpleNamespace(close=lambda: None)
    hook: Any = SimpleNamespace(remove=lambda: None)
    outcome = ProgramOutcome(256, SystemExit(256))
    assert conclude(runtime, idle, hook, outcome, stop_session=False) == 1
    assert registry.job(runtime.job_id).state is JobState.FAILED


@pytest.mark.parametrize("ending", [None, JobState.FINISHED])
def test_a_query_that_fails_in_its_last_batch_fails_the_job_whose_program_has_ended(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: JobState | None
) -> None:
    runtime = bare_runtime(registry)
    run = Run()
    runtime.adopt(fake_query("q", tmp_path, run))
    if ending is not None:
        runtime.end(ending)

    def fail_last_batch(*_: object) -> None:
        run.is_active, run.error = False, "the disk is full"

    monkeypatch.setattr(job_session, "quiesce", fail_last_batch)
    idle: Any = SimpleNamespace(close=lambda: None)
    hook: Any = SimpleNamespace(remove=lambda: None)
    status = conclude(runtime, idle, hook, ProgramOutcome(0, None), stop_session=False)
    final = registry.job(runtime.job_id)
    if ending is None:
        assert (status, final.state) == (1, JobState.FAILED)
        assert (final.failure or {})["message"] == "query 'q' failed: the disk is full"
    else:
        assert (status, final.state) == (0, ending), "the job has been stopped before"


def test_a_program_starts_and_stops_spark_while_the_registry_is_away(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = bare_runtime(registry)
    session = SimpleNamespace(version="4.3.0", sparkContext=SimpleNamespace(applicationId="app"))
    for method in ("update_job", "heartbeat"):
        monkeypatch.setattr(registry, method, Away(getattr(registry, method), calls=1))
    runtime.session_created(session)
    assert registry.job(runtime.job_id).spark_version is None
    runtime.session_created(session)
    assert registry.job(runtime.job_id).spark_version == "4.3.0", "at the next occasion"
    stopped: list[str] = []
    Hook(runtime)._spark_stop(stopped.append)("spark")
    assert stopped == ["spark"]
    assert runtime.session.is_stopped


@pytest.mark.parametrize("jvm_is_gone", [False, True])
@pytest.mark.parametrize(
    ("strategy", "state", "request_state"),
    [
        ("none", JobState.FAILED, RequestState.FAILED),
        ("fixed-delay", JobState.FAILING, RequestState.PENDING),
    ],
)
def test_what_a_failed_driver_has_not_served_is_left_to_the_supervisor(
    registry: Registry,
    strategy: str,
    state: JobState,
    request_state: RequestState,
    jvm_is_gone: bool,
) -> None:
    """A cancel then keeps the job from its restart."""
    runtime = bare_runtime(registry, options={"restart-strategy.type": strategy})
    registry.transition(runtime.job_id, JobState.RUNNING)
    cancel = registry.submit(
        runtime.job_id, RequestKind.CANCEL, arguments_for(RequestKind.CANCEL, None)
    )
    if jvm_is_gone:
        leave_without_jvm(runtime, lambda _: None)
    else:
        idle: Any = SimpleNamespace(close=lambda: None)
        hook: Any = SimpleNamespace(remove=lambda: None)
        conclude(runtime, idle, hook, ProgramOutcome(1, SystemExit(1)), stop_session=False)
    assert registry.job(runtime.job_id).state is state
    assert registry.request(cancel.request_id).state is request_state


def test_a_builder_takes_a_conf_by_position_as_pyspark_does(registry: Registry) -> None:
    config = Hook(bare_runtime(registry))._config(lambda *given, **_: given)
    assert config("builder", None, None, "conf") == ("builder", None, None, "conf")
    assert config("builder", "key", 1) == ("builder", "key", 1)


def test_a_writer_started_again_is_recorded_with_its_last_output_alone(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = bare_runtime(registry)
    seen: list[tuple[str | None, str | None]] = []
    monkeypatch.setattr(
        runtime, "start_query", lambda _, facts, __: seen.append((facts.path, facts.table))
    )
    hook = Hook(runtime)
    start, to_table = hook._start(lambda *_: None), hook._to_table(lambda *_: None)
    writer: Any = SimpleNamespace(options=lambda **_: None)
    to_table(writer, "t")
    start(writer, "/out")
    to_table(writer, "t")
    assert seen == [(None, "t"), ("/out", None), (None, "t")]


def test_a_checkpoint_without_a_scheme_is_looked_for_where_spark_puts_it(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the log of a file sink was not completed if Spark's default storage is not local."""
    runtime = bare_runtime(registry)
    looked: list[str | None] = []

    @contextmanager
    def ready(_session: Any, _name: str, _format: Any, checkpoint: Any, *_: Any) -> Iterator[None]:
        looked.append(checkpoint)
        yield

    monkeypatch.setattr(query_starts, "file_sink_log_ready", ready)
    monkeypatch.setattr(query_reports, "at_start", lambda *_: nullcontext())
    monkeypatch.setattr(spark_jvm, "checkpoint_root", lambda _: "hdfs://host/ck")
    prepared = Prepared("q", False, None, None, None, (), own="/ck")
    monkeypatch.setattr(runtime._starts._preparer, "prepare", lambda *_, **__: prepared)
    hadoop = SimpleNamespace(get=lambda _: "hdfs://host")
    session = SimpleNamespace(
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop), sparkContext=None
    )
    writer: Any = SimpleNamespace(_spark=session, queryName=lambda _: None, option=lambda *_: None)
    identity = SimpleNamespace(toString=lambda: "1")
    handle = SimpleNamespace(_jsq=SimpleNamespace(id=lambda: identity, runId=lambda: identity))
    facts = WriterFacts("q", "parquet", options={"checkpointlocation": "/ck"})
    runtime._starts._begun("q", writer, facts, lambda: handle, [])
    assert looked == ["hdfs://host/ck"]


@pytest.mark.parametrize("drain", [False, True])
def test_the_error_of_a_canonical_savepoint_says_whether_the_job_continues(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drain: bool
) -> None:
    runtime = bare_runtime(registry)
    arguments = arguments_for(RequestKind.STOP, str(tmp_path), drain=drain)
    request = registry.submit(runtime.job_id, RequestKind.STOP, arguments)
    stops = actions.Actions(runtime, savepoint_timeout=1, quiesce_timeout=1, cancel_grace=1)
    monkeypatch.setattr(stops, "_write", lambda *_: SimpleNamespace(path="/sp"))
    error = stops._with_native(request, [], "stop", (), StorageError("the disk is full"))
    assert ("the job continues" in error.message) is not drain
    assert error.hint is not None
    assert ("-type native" in error.hint) is not drain
    assert error.hint.endswith("run it from there: flinkish run -s /sp")


def test_a_savepoint_goes_on_while_its_progress_cannot_be_reported(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = bare_runtime(registry)
    arguments = arguments_for(RequestKind.SAVEPOINT, str(tmp_path))
    registry.submit(runtime.job_id, RequestKind.SAVEPOINT, arguments)
    request = registry.claim(runtime.job_id)
    assert request is not None
    monkeypatch.setattr(registry, "progress", Away(registry.progress, calls=1))
    reporter = job_savepoint.RequestReporter(runtime, request)
    reporter.phase("copying")
    reporter.phase("writing")
    assert registry.request(request.request_id).progress == {"phase": "writing"}


def test_a_wait_goes_on_while_the_registry_cannot_say_whether_the_job_is_canceled(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that drains could not continue if the savepoint failed for that."""
    runtime = bare_runtime(registry)
    arguments = arguments_for(RequestKind.STOP, str(tmp_path), drain=True)
    request = registry.submit(runtime.job_id, RequestKind.STOP, arguments)
    registry.submit(runtime.job_id, RequestKind.CANCEL, arguments_for(RequestKind.CANCEL, None))
    monkeypatch.setattr(registry, "plain_cancel", Away(registry.plain_cancel, calls=1))
    stops = actions.Actions(runtime, savepoint_timeout=1, quiesce_timeout=1, cancel_grace=1)
    monkeypatch.setattr(actions, "_PAUSE", 0.0)
    stops._check_not_cancelled(request)
    with pytest.raises(WrongState, match="cancel"):
        stops._check_not_cancelled(request)


def test_a_registry_that_is_away_is_not_asked_at_every_poll(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each question may take until the connection's time limit, while a batch waits to be seen."""
    runtime = bare_runtime(registry)
    registry.submit(runtime.job_id, RequestKind.CANCEL, arguments_for(RequestKind.CANCEL, None))
    request = registry.claim(runtime.job_id)
    assert request is not None
    monkeypatch.setattr(registry, "plain_cancel", Away(registry.plain_cancel, calls=9))
    monkeypatch.setattr(actions, "_PAUSE", 3600.0)
    stops = actions.Actions(runtime, savepoint_timeout=1, quiesce_timeout=1, cancel_grace=1)
    for _ in range(3):
        stops._check_not_cancelled(request)
    assert capsys.readouterr().err.count("the server restarts") == 1


def test_a_last_batch_that_ended_while_the_registry_was_asked_has_not_taken_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    times = SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda _: None)
    monkeypatch.setattr(drain, "time", times)
    monkeypatch.setattr(spark_jvm, "has_ended", lambda _: clock[0] > 0)
    monkeypatch.setattr(spark_jvm, "error_of", lambda _: None)
    monkeypatch.setattr(drain, "newest_committed_batch", lambda _: 4)
    query: Any = SimpleNamespace(name="q", jsq=None, checkpoint="")
    runtime: Any = SimpleNamespace(run_once=lambda _: None)
    drain._run_once(
        runtime, query, 4, deadline=5.0, interrupted=lambda: clock.append(clock.pop() + 9)
    )
    assert clock == [9.0]


def test_a_cancel_that_cannot_be_recorded_ends_the_job_as_canceled(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queries have ended: the program must not go on as if they had read everything."""
    runtime = bare_runtime(registry)
    registry.submit(runtime.job_id, RequestKind.CANCEL, arguments_for(RequestKind.CANCEL, None))
    request = registry.claim(runtime.job_id)
    assert request is not None
    monkeypatch.setattr(registry, "transition", Away(registry.transition, calls=1))
    cancels = actions.Actions(runtime, savepoint_timeout=1, quiesce_timeout=1, cancel_grace=1)
    cancels.perform(request, threading.Event())
    assert runtime.ending is JobState.CANCELED
    assert registry.request(request.request_id).state is RequestState.COMPLETED


@pytest.mark.parametrize("step", ["complete", "transition"])
def test_a_driver_that_dies_after_the_savepoint_of_a_cancel_does_not_hide_it(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A job that is CANCELLING is canceled for its dead driver, which answers nothing."""
    runtime = bare_runtime(registry)
    registry.submit(runtime.job_id, RequestKind.CANCEL, arguments_for(RequestKind.CANCEL, "/sp"))
    request = registry.claim(runtime.job_id)
    assert request is not None
    taken = SavepointSummary("/sp/savepoint-1", runtime.job_id, 1.0, "native", 1, 1, 1.0)
    cancels = actions.Actions(runtime, savepoint_timeout=1, quiesce_timeout=1, cancel_grace=1)
    monkeypatch.setattr(cancels, "_quiesce_and_write", lambda *_: RequestResult(taken))

    def dies(*_: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(registry, step, dies)
    with pytest.raises(SystemExit):
        cancels.perform(request, threading.Event())
    assert registry.job(runtime.job_id).state is JobState.CREATED
    if step == "transition":
        assert registry.request(request.request_id).result == RequestResult(taken)
        assert registry.ended_by(runtime.job_id) is RequestKind.CANCEL


@pytest.mark.parametrize("format_", ["canonical", "native"])
def test_a_savepoint_that_cannot_be_recorded_is_named_by_the_error(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    """It is complete, and neither taken again nor lost from sight."""
    runtime = bare_runtime(registry)
    arguments = arguments_for(RequestKind.STOP, str(tmp_path), format=format_)
    request = registry.submit(runtime.job_id, RequestKind.STOP, arguments)
    stops = actions.Actions(runtime, savepoint_timeout=1, quiesce_timeout=1, cancel_grace=1)
    written = SavepointSummary("/sp/savepoint-1", runtime.job_id, 1.0, format_, 1, 1, 1.0)
    taken: list[str] = []

    def write(*_: Any, **__: Any) -> SavepointSummary:
        taken.append(written.path)
        return written

    monkeypatch.setattr(job_savepoint, "write_savepoint", write)
    monkeypatch.setattr(job_savepoint, "save_canonical", write)
    monkeypatch.setattr(job_savepoint, "SparkTransferer", lambda *_: None)
    monkeypatch.setattr(job_savepoint, "_source_of", lambda _: None)
    for method in ("add_savepoint", "job"):
        monkeypatch.setattr(registry, method, Away(getattr(registry, method), calls=9))
    session = SimpleNamespace(version="4.1.0", sparkContext=None)
    queries: Any = [SimpleNamespace(session=session)]
    with pytest.raises(RegistryError, match="complete at /sp/savepoint-1") as caught:
        stops._write_at_the_end(request, queries, "stop", ())
    assert caught.value.data["savepoint"] == written.path
    assert taken == [written.path]


@pytest.mark.parametrize("method", ["heartbeat", "transition"])
def test_a_job_is_running_once_the_registry_is_back(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Its program does not see that the registry was away."""
    runtime = bare_runtime(registry)
    query = SimpleNamespace(name="q", run_id="r", progress={}, recorded=("r",))
    runtime._gate.add(query)  # type: ignore[arg-type]
    monkeypatch.setattr(runtime._reports, "statuses", list)  # Spark is not asked
    monkeypatch.setattr(registry, method, Away(getattr(registry, method), calls=1))
    runtime.program_asks()
    assert registry.job(runtime.job_id).state is JobState.CREATED
    runtime.program_asks()
    assert registry.job(runtime.job_id).state is JobState.RUNNING


def test_a_guest_whose_start_cannot_be_reported_is_served(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every savepoint would be refused: the query would run without flinkish too."""
    runtime = bare_runtime(registry, ExternalLauncher("python", "1"))
    query = SimpleNamespace(name="q", run_id="r", handle=object(), progress={}, recorded=("r",))
    monkeypatch.setattr(runtime.session, "created", lambda _: None)
    monkeypatch.setattr(runtime._reports, "statuses", list)  # Spark is not asked
    monkeypatch.setattr(runtime._starts, "_begun", lambda *_: query)
    monkeypatch.setattr(registry, "heartbeat", Away(registry.heartbeat))
    writer = SimpleNamespace(_spark=SimpleNamespace(_jsparkSession=None))
    handle = runtime.start_query(writer, WriterFacts(query_name="q"), lambda: None)
    assert handle is query.handle
    assert not runtime._starts._not_served
    assert [each.name for each in runtime.queries()] == ["q"]


def test_a_savepoint_is_refused_while_any_unnamed_query_runs_without_flinkish(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = bare_runtime(registry, ExternalLauncher("python", "1"))

    def refuse(*_: Any) -> None:
        raise WrongState("it cannot be served")

    monkeypatch.setattr(runtime._starts, "_start_query", refuse)
    monkeypatch.setattr(spark_jvm, "has_ended", lambda jsq: jsq == "the second")
    for jsq in ("the first", "the second"):
        handle = SimpleNamespace(_jsq=jsq)
        assert runtime._starts._start_guest(None, WriterFacts(), lambda: handle) is handle  # noqa: B023
    assert runtime.not_served() == {"without a name": "it cannot be served"}


def test_a_job_waits_for_the_registry_before_its_next_query(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a restart of the registry's server would fail a program that has several queries."""
    monkeypatch.setattr(query_reports, "_PAUSE", 0.0)
    for method in ("queries", "facts"):
        monkeypatch.setattr(registry, method, Away(getattr(registry, method)))
    launch = Launch("/a.py")
    registry.add_job(job := JobRecord("c" * 32, "c", JobState.RESTARTING, 1.0, launch))
    runtime = Runtime(registry, job, "/root")
    run = Run(is_active=False)
    runtime._gate.add(fake_query("first", tmp_path, run))
    for method in ("heartbeat", "claim_resources"):
        monkeypatch.setattr(registry, method, Away(getattr(registry, method)))
    sink = NewSink("parquet", "/out")
    with runtime._reports.starting("second", HERE):
        runtime._starts._others.take("second", sink, None, None)
    assert [query.active for query in registry.queries(job.job_id)] == [False]
    assert [claim.query for claim in registry.writers()] == ["second"]
    assert runtime.fatal is None


@pytest.mark.parametrize(
    ("external", "patience", "runs"),
    [(None, 60.0, True), (None, 0.0, False), (ExternalLauncher("python", "1"), 0.0, True)],
    ids=["away for a while", "away for long", "guest"],
)
def test_the_registry_knows_a_query_before_it_runs_a_batch(
    registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
    external: ExternalLauncher | None,
    patience: float,
    runs: bool,
) -> None:
    """Else the job's next run starts from the beginning if the driver dies before its report."""
    runtime = bare_runtime(registry, external)
    at_start: list[Callable[[Any], None]] = []
    told_to_end: list[Any] = []
    jsq = Run()
    known: list[list[str]] = []

    @contextmanager
    def listening(_session: Any, _name: str, call: Callable[[Any], None]) -> Iterator[None]:
        at_start.append(call)
        yield

    def begin() -> Any:
        for call in at_start:
            call(jsq)
        if not told_to_end:  # Spark runs the first batch
            known.append([query.name for query in registry.queries(runtime.job_id)])
        return SimpleNamespace(_jsq=jsq)

    monkeypatch.setattr(query_reports, "at_start", listening)
    monkeypatch.setattr(query_reports, "_PAUSE", 0.0)
    monkeypatch.setattr(query_reports, "_PATIENCE", patience)
    monkeypatch.setattr(spark_jvm, "end_after_batch", lambda _, ended: told_to_end.append(ended))
    monkeypatch.setattr(spark_jvm, "checkpoint_root", lambda _: "/ck")
    prepared = Prepared("q", False, "/ck", None, None, ())
    monkeypatch.setattr(runtime._starts._preparer, "prepare", lambda *_, **__: prepared)
    monkeypatch.setattr(registry, "heartbeat", Away(registry.heartbeat))
    session = SimpleNamespace(**vars(HERE), sparkContext=None)
    writer: Any = SimpleNamespace(_spark=session, queryName=lambda _: None, option=lambda *_: None)
    if not runs:
        with pytest.raises(RegistryError):
            runtime._starts._begun("q", writer, WriterFacts("q"), begin, [])
        assert told_to_end == [jsq]
        assert isinstance(runtime.fatal, RegistryError)
        return
    runtime._starts._begun("q", writer, WriterFacts("q"), begin, [])
    assert known == [["q"] if external is None else []]


@pytest.mark.parametrize("is_taken", [False, True], ids=["free", "taken"])
def test_a_guest_takes_its_output_once_the_registry_is_back(
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_taken: bool,
) -> None:
    """Else another job could write to the same files for as long as the program runs."""
    runtime = bare_runtime(registry, ExternalLauncher("python", "0.1.0"))
    other = JobRecord("b" * 32, "b", JobState.RUNNING, 1.0, Launch("/b.py"), driver=process_ref())
    registry.add_job(other)
    out = file_resource("/out")
    if is_taken:
        registry.claim_resources(other.job_id, "q", [out])
    query = fake_query("q", tmp_path, Run())
    query.root_uri = str(tmp_path)
    sink = NewSink("parquet", "/out")
    monkeypatch.setattr(query_starts, "new_sink", lambda *_: sink)
    monkeypatch.setattr(registry, "claim_resources", Away(registry.claim_resources, 1))
    runtime.adopt(query)
    assert [claim.job.job_id for claim in registry.writers()] == [other.job_id] * is_taken
    for _ in range(2):
        runtime.report()
    holder = other.job_id if is_taken else runtime.job_id
    assert [claim.job.job_id for claim in registry.writers()] == [holder]
    assert len(query.notes) == 1 + is_taken
    assert not is_taken or "query 'q' of the RUNNING job b" in " ".join(query.notes)


@pytest.mark.parametrize("calls", [0, 1], ids=["reached", "away"])
def test_a_driver_without_its_jvm_ends_whether_or_not_the_registry_is_reached(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    runtime = bare_runtime(registry)
    monkeypatch.setattr(registry, "abandon", Away(registry.abandon, calls))
    left: list[int] = []
    leave_without_jvm(runtime, left.append)
    assert left == [1]
    assert registry.job(runtime.job_id).state.is_final == (calls == 0)


@pytest.mark.parametrize("has_started", [False, True], ids=["waits", "new driver"])
def test_a_driver_without_its_jvm_leaves_a_job_alone_that_is_started_again(
    registry: Registry, has_started: bool
) -> None:
    """Its supervisor has seen the end of the JVM too, and was faster."""
    runtime = bare_runtime(registry)
    registry.transition(runtime.job_id, JobState.FAILING)
    registry.restart(registry.job(runtime.job_id), "attempt 1, in 1 s", process_ref())
    if has_started:
        registry.update_job(runtime.job_id, driver=process_ref(os.getppid()))
        registry.transition(runtime.job_id, JobState.CREATED)
    cancel = registry.submit(
        runtime.job_id, RequestKind.CANCEL, arguments_for(RequestKind.CANCEL, None)
    )
    before = registry.job(runtime.job_id)
    left: list[int] = []
    leave_without_jvm(runtime, left.append)
    assert left == [1]
    assert registry.job(runtime.job_id) == before
    assert registry.request(cancel.request_id).state is RequestState.PENDING


@pytest.mark.parametrize("method", ["job", "update_job"])
def test_a_driver_that_starts_waits_for_the_registry(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Else an outage of the registry would use up an attempt of the restart strategy."""
    runtime = bare_runtime(registry)

    def refuse(*_: Any) -> Any:
        raise WrongState("the driver has come this far")

    monkeypatch.setattr(driver_job, "assemble", refuse)
    monkeypatch.setattr(driver_job, "Registry", SimpleNamespace(open=lambda *_, **__: registry))
    monkeypatch.setattr(query_reports, "_PAUSE", 0.0)
    monkeypatch.setattr(registry, method, Away(getattr(registry, method)))
    monkeypatch.setenv("FLINKISH_REGISTRY", "sqlite:////r.db")
    monkeypatch.setenv("FLINKISH_JOB_ID", runtime.job_id)
    assert driver_job.main([]) == 1
    failure = registry.job(runtime.job_id).failure
    assert failure is not None
    assert failure["message"] == "the driver has come this far"


def test_a_stopped_job_whose_jvm_dies_before_its_program_ends_is_finished(
    registry: Registry,
) -> None:
    runtime = bare_runtime(registry)
    runtime.end(JobState.FINISHED)
    left: list[int] = []
    leave_without_jvm(runtime, left.append)
    assert left == [0]
    final = registry.job(runtime.job_id)
    assert (final.state, final.failure) == (JobState.FINISHED, None)


@pytest.mark.parametrize("ending", [None, JobState.FINISHED])
@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize("method", ["heartbeat", "abandon", "transition"])
def test_the_end_of_a_job_is_recorded_once_the_registry_is_back(
    registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    status: int,
    ending: JobState | None,
) -> None:
    """Else a job that was stopped, or whose program is done, would count as failed."""
    runtime = bare_runtime(registry)
    if ending is not None:
        runtime.end(ending)
    monkeypatch.setattr(query_reports, "_PAUSE", 0.0)
    monkeypatch.setattr(registry, method, Away(getattr(registry, method)))
    idle: Any = SimpleNamespace(close=lambda: None)
    hook: Any = SimpleNamespace(remove=lambda: None)
    outcome = ProgramOutcome(status, SystemExit(status) if status else None)
    is_failed = ending is None and status != 0
    assert conclude(runtime, idle, hook, outcome, stop_session=False) == int(is_failed)
    assert registry.job(runtime.job_id).state is (
        JobState.FAILED if is_failed else JobState.FINISHED
    )


@pytest.mark.parametrize("status", [0, 1])
def test_a_driver_that_was_replaced_does_not_record_its_end(
    registry: Registry, status: int
) -> None:
    """Else the end of its program would be that of the job, which its successor runs."""
    runtime = bare_runtime(registry)
    registry.act_as(runtime.job_id, process_ref())
    registry.update_job(runtime.job_id, driver=ProcessRef("another-host", 7))
    idle: Any = SimpleNamespace(close=lambda: None)
    hook: Any = SimpleNamespace(remove=lambda: None)
    outcome = ProgramOutcome(status, SystemExit(status) if status else None)
    assert conclude(runtime, idle, hook, outcome, stop_session=False) == status
    agent.finish_now(runtime, threading.Event(), lambda _: None)
    assert registry.job(runtime.job_id).state is JobState.CREATED


def test_a_driver_whose_program_does_not_end_leaves_once_its_end_is_recorded(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would hang, or its supervisor would start a stopped job again."""
    runtime = bare_runtime(registry)
    runtime.end(JobState.CANCELED)
    monkeypatch.setattr(agent, "_PAUSE", 0.0)
    for method in ("abandon", "transition"):
        monkeypatch.setattr(registry, method, Away(getattr(registry, method)))
    left: list[JobState] = []
    agent.finish_now(
        runtime, threading.Event(), lambda _: left.append(registry.job(runtime.job_id).state)
    )
    assert left == [JobState.CANCELED]
    agent.finish_now(
        runtime, threading.Event(), lambda _: left.append(registry.job(runtime.job_id).state)
    )
    assert left == [JobState.CANCELED] * 2, "also if its end is recorded already"


def test_a_driver_whose_program_ends_at_last_leaves_while_the_registry_is_away(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its threads would never end, and with them the process."""
    runtime = bare_runtime(registry)
    runtime.end(JobState.CANCELED)
    closed = threading.Event()
    closed.set()
    monkeypatch.setattr(registry, "abandon", Away(registry.abandon, calls=1))
    agent.finish_now(runtime, closed, lambda _: pytest.fail("the program is cut off"))
    assert not registry.job(runtime.job_id).state.is_final


@pytest.mark.parametrize("why", [None, "the registry says that this job is FAILED"])
def test_the_reason_for_which_queries_are_ended_is_the_one_that_is_said(
    registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    why: str | None,
) -> None:
    runtime = bare_runtime(registry)
    query: Any = SimpleNamespace(name="q", run_id="r", jsq=None, quiesced=False, gateway_jvm=None)
    runtime._gate.add(query)
    monkeypatch.setattr(spark_jvm, "has_ended", lambda _: False)
    monkeypatch.setattr(spark_jvm, "error_of", lambda _: None)
    monkeypatch.setattr(job_session, "quiesce", lambda *_: None)
    runtime.end_queries(why)
    said = capsys.readouterr().err
    assert ("the program ended, or stops Spark, while 'q' ran" in said) is (why is None)
    assert (f"{why}: ending 'q'" in said) is (why is not None)


def test_a_batch_that_cannot_be_interrupted_keeps_no_other_query_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else a driver that was replaced would go on writing beside the new one."""
    over, told = threading.Event(), list[str]()

    def lost() -> None:
        told.append("lost")
        raise ConnectionError("the JVM does not answer")

    def blocked() -> None:
        over.wait(5.0)
        told.append("blocked")

    stubborn = SimpleNamespace(stop=blocked)
    broken = SimpleNamespace(stop=lost)
    other = SimpleNamespace(stop=lambda: told.append("other"))
    ended = SimpleNamespace(stop=lambda: told.append("ended"))
    monkeypatch.setattr(spark_jvm, "has_ended", lambda query: query is ended)
    monkeypatch.setattr(quiesce, "_STOP_LIMIT", 1.0, raising=False)
    try:
        quiesce.stop_hard([stubborn, broken, other, ended])
        assert sorted(told) == ["lost", "other"]
    finally:
        over.set()
    said = capsys.readouterr().err
    assert "the JVM does not answer" in said
    assert "a batch was interrupted, and still runs 1 s after that" in said


def unwritable(tmp_path: Path) -> str:
    """A target below a plain file: not writable for root either."""
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    return str(blocker / "savepoints")


def test_a_failed_stop_leaves_the_job_running_and_the_program_waiting(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    returned = threading.Event()

    def program() -> None:
        start_counting(spark).awaitTermination()
        returned.set()

    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= 1)
    run_before = job.runtime.queries()[0].run_id
    with pytest.raises(StorageError) as caught:
        job.request(RequestKind.STOP, unwritable(tmp_path))
    assert "savepoints" in caught.value.message
    assert job.job().state is JobState.RUNNING
    assert not returned.is_set()
    # An unwritable target is found before anything is quiesced: the same run goes on.
    assert job.runtime.queries()[0].run_id == run_before
    batch = job.batch()
    job.wait_until(lambda: job.batch() > batch)
    job.request(RequestKind.STOP, str(tmp_path / "savepoints"))
    assert job.wait().state is JobState.FINISHED
    assert returned.is_set()


@pytest.mark.parametrize(
    "waiting",
    [
        "awaitTermination",
        *(
            pytest.param(how, marks=pytest.mark.deep)
            for how in ("awaitAny", "awaitAny later", "isActive", "active", "timeout")
        ),
    ],
)
def test_a_savepoint_that_fails_after_the_quiesce_resumes_the_queries(
    spark: Any,
    new_job: NewJob,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    waiting: str,
) -> None:
    """The write itself fails (the target disappears under it): same query id, next batch."""
    returned, resumed = threading.Event(), threading.Event()

    def program() -> None:
        query = start_counting(spark)
        if waiting == "awaitTermination":
            query.awaitTermination()
        elif waiting.startswith("awaitAny"):
            if waiting == "awaitAny later":
                resumed.wait()
            spark.streams.awaitAnyTermination()
        elif waiting == "timeout":
            while not query.awaitTermination(1):
                pass
        elif waiting == "active":
            while spark.streams.active:
                time.sleep(0.01)
        else:
            while query.isActive:
                time.sleep(0.01)
        returned.set()

    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= 1)
    before = job.runtime.queries()[0]
    query_id, run_id = before.query_id, before.run_id
    # The early look at the target is skipped, as if it broke right after it.
    with monkeypatch.context() as patch:
        patch.setattr(actions, "check_writable", lambda target: None)
        with pytest.raises(StorageError):
            job.request(RequestKind.STOP, unwritable(tmp_path))
    assert job.job().state is JobState.RUNNING
    after = job.runtime.queries()[0]
    assert after.query_id == query_id
    assert after.run_id != run_id
    resumed.set()
    batch = job.batch()
    job.wait_until(lambda: job.batch() > batch + 1)
    assert not returned.is_set()
    result = job.request(RequestKind.STOP, str(tmp_path / "savepoints"))
    assert result["stop_method"] == "quiesce"
    assert job.wait().state is JobState.FINISHED
    assert returned.is_set()


def test_stop_wakes_a_trigger_that_sleeps(spark: Any, new_job: NewJob, tmp_path: Path) -> None:
    job = new_job().start(lambda: start_counting(spark, interval="10 minutes").awaitTermination())
    job.wait_until(lambda: job.batch() >= 0)
    began = time.monotonic()
    job.request(RequestKind.STOP, str(tmp_path))
    assert job.wait().state is JobState.FINISHED
    assert time.monotonic() - began < 30


def test_nothing_is_processed_after_the_savepoint_of_a_stop(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    seen: list[int] = []

    def program() -> None:
        writer = rate(spark).writeStream.queryName("q")
        writer.foreachBatch(lambda frame, batch: seen.append(batch)).start().awaitTermination()

    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= 3)
    result = job.request(RequestKind.STOP, str(tmp_path))
    job.wait()
    assert seen == list(range(len(seen)))
    assert result["savepoint"]["queries"][0]["batch_id"] == seen[-1]


@pytest.mark.parametrize(
    ("interval", "times"),
    [
        ("0 seconds", 2),
        pytest.param("0 seconds", 6, marks=pytest.mark.deep),
        pytest.param("150 milliseconds", 6, marks=pytest.mark.deep),
    ],
)
def test_a_stop_at_any_moment_interrupts_no_batch(
    spark: Any, new_job: NewJob, tmp_path: Path, interval: str, times: int
) -> None:
    """On 4.x Spark itself gives up a batch whose query is ended while it is being planned."""
    rng = random.Random(f"{interval} {times}")
    for _ in range(times):
        job = new_job().start(lambda: start_counting(spark, interval=interval).awaitTermination())
        job.wait_until(lambda: job.batch() >= 0)  # noqa: B023 - called at once
        time.sleep(rng.random() * 0.6)
        savepoint = job.request(RequestKind.STOP, str(tmp_path))["savepoint"]
        assert job.wait().state is JobState.FINISHED
        checkpoint = Path(job.runtime.queries()[0].checkpoint)
        planned = max(int(p.name) for p in (checkpoint / "offsets").iterdir() if p.name.isdigit())
        assert planned == savepoint["queries"][0]["batch_id"]


def test_several_queries_are_cut_and_ended_together(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    def program() -> None:
        start_counting(spark, "one")
        start_counting(spark, "two", "200 milliseconds")
        rate(spark).writeStream.format("noop").start()
        spark.streams.awaitAnyTermination()

    job = new_job().start(program)
    job.wait_until(lambda: len(job.runtime.queries()) == 3 and job.batch() >= 1)
    result = job.request(RequestKind.STOP, str(tmp_path))
    names = [q["name"] for q in result["savepoint"]["queries"]]
    assert names == ["one", "two", "query-1"]
    assert job.wait().state is JobState.FINISHED
    assert not spark.streams.active


def test_cancel_ends_a_long_batch_the_hard_way_and_says_so(
    spark: Any, new_job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, hold = threading.Event(), threading.Event()

    def slow(frame: Any, batch: int) -> None:
        inside.set()
        hold.wait(60)

    def program() -> None:
        rate(spark).writeStream.queryName("slow").foreachBatch(slow).start().awaitTermination()

    def stop_hard(queries: Any) -> None:
        # The interrupt does not reach Python: the batch itself ends some time later.
        threading.Timer(0.3, hold.set).start()
        quiesce.stop_hard(queries)

    monkeypatch.setattr(actions, "stop_hard", stop_hard)
    job = new_job(cancel_grace=0.5).start(program)
    job.wait_until(inside.is_set)
    result = job.request(RequestKind.CANCEL)
    assert result == {"savepoint": None, "stop_method": "stop"}
    assert job.wait().state is JobState.CANCELED


def test_cancel_with_savepoint(spark: Any, new_job: NewJob, tmp_path: Path) -> None:
    job = new_job().start(lambda: start_counting(spark).awaitTermination())
    job.wait_until(lambda: job.batch() >= 1)
    result = job.request(RequestKind.CANCEL, str(tmp_path))
    assert Path(result["savepoint"]["path"]).joinpath("_metadata").is_file()
    assert job.wait().state is JobState.CANCELED
    states = [change.state.value for change in job.registry.state_history(job.job_id)]
    assert states == ["INITIALIZING", "CREATED", "RUNNING", "CANCELLING", "CANCELED"]


def test_a_stop_that_takes_longer_than_its_limit_fails_and_the_job_goes_on(
    spark: Any, new_job: NewJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = threading.Event()
    seen: list[int] = []

    def slow(frame: Any, batch: int) -> None:
        seen.append(batch)
        if batch == 1:
            pause.wait(30)

    def program() -> None:
        rate(spark).writeStream.queryName("q").foreachBatch(slow).start().awaitTermination()

    def late(*words: Any, **named: Any) -> Any:
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600.0)
        slow_disk.setattr(time_limit, "time", later)
        return write_savepoint(*words, **named)

    job = new_job().start(program)
    job.wait_until(lambda: 1 in seen)
    with pytest.raises(GivenUp, match="did not end within the 1 s of the request") as given_up:
        job.request(RequestKind.STOP, str(tmp_path), timeout=1.0)
    assert "--timeout" in given_up.value.hint
    assert job.job().state is JobState.RUNNING
    pause.set()
    job.wait_until(lambda: 4 in seen)
    with monkeypatch.context() as slow_disk:
        slow_disk.setattr(job_savepoint, "write_savepoint", late)
        with pytest.raises(GivenUp, match=r"was not complete within 600 s: .* the job continues"):
            job.request(RequestKind.STOP, str(tmp_path), timeout=600.0)
    before = len(seen)
    job.wait_until(lambda: len(seen) > before)
    assert seen == sorted(set(seen)), "no batch ran twice, none was interrupted"
    job.request(RequestKind.STOP, str(tmp_path))
    assert job.wait().state is JobState.FINISHED


def test_a_savepoint_before_the_first_commit_waits_for_it(
    spark: Any, new_job: NewJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    hold = threading.Event()
    looks: list[int | None] = []

    def look(checkpoint: str) -> int | None:
        looks.append(newest_committed_batch(checkpoint))
        return looks[-1]

    def program() -> None:
        writer = rate(spark).writeStream.queryName("q")
        writer.foreachBatch(lambda frame, batch: hold.wait(60)).start().awaitTermination()

    monkeypatch.setattr(job_savepoint, "newest_committed_batch", look)
    job = new_job().start(program)
    job.wait_until(lambda: job.runtime.queries() != [])
    submitted = job.registry.submit(
        job.job_id, RequestKind.SAVEPOINT, SavepointArguments(str(tmp_path))
    )
    job.wait_until(lambda: len(looks) > 2)  # it looks for a commit, and looks again
    assert job.registry.request(submitted.request_id).state is RequestState.IN_PROGRESS
    assert looks[:3] == [None, None, None]
    hold.set()
    assert job.finish(submitted.request_id).state is RequestState.COMPLETED
    job.request(RequestKind.CANCEL)


def test_a_savepoint_with_nothing_to_read_times_out(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()

    def program() -> None:
        frame = spark.readStream.schema("a int").json(str(tmp_path / "in"))
        frame.writeStream.queryName("q").format("noop").start().awaitTermination()

    job = new_job().start(program)
    job.wait_until(lambda: job.runtime.queries() != [])
    with pytest.raises(NoCommittedBatch, match="no input was found for 'q'"):
        job.request(RequestKind.SAVEPOINT, str(tmp_path / "sp"), timeout=1)
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED


def test_memory_sink_is_refused_and_the_job_untouched(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    def program() -> None:
        rate(spark).writeStream.queryName("mem").format("memory").start().awaitTermination()

    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= 0)
    with pytest.raises(NotSavepointable) as caught:
        job.request(RequestKind.STOP, str(tmp_path))
    assert "memory" in caught.value.message
    batch = job.batch()
    job.wait_until(lambda: job.batch() > batch)
    job.request(RequestKind.CANCEL)


def test_a_program_without_a_query_has_nothing_to_save(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    go_on = threading.Event()
    job = new_job().start(lambda: go_on.wait(60))
    with pytest.raises(WrongState) as caught:
        job.request(RequestKind.SAVEPOINT, str(tmp_path), timeout=0.3)
    assert "no streaming query" in caught.value.message
    go_on.set()
    assert job.wait().state is JobState.FINISHED


def test_a_failing_query_fails_the_job_even_when_the_program_does_not_look(
    spark: Any, new_job: NewJob
) -> None:
    def boom(frame: Any, batch: int) -> None:
        raise ValueError("bad row 17")

    def program() -> None:
        query = rate(spark).writeStream.queryName("q").foreachBatch(boom).start()
        while query.isActive:
            time.sleep(0.05)

    job = new_job().start(program)
    final = job.wait()
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert "query 'q' failed" in str(final.failure["message"])


def test_the_end_of_the_script_waits_for_the_savepoint_in_flight(
    spark: Any, new_job: NewJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that ends in the middle of a savepoint: until that is written its query runs."""
    writing, go_on = threading.Event(), threading.Event()

    def write(*args: Any, **kwargs: Any) -> Any:
        writing.set()
        go_on.wait(60)
        return write_savepoint(*args, **kwargs)

    def program() -> None:
        start_counting(spark)
        writing.wait(60)

    monkeypatch.setattr(job_savepoint, "write_savepoint", write)
    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= 0)
    submitted = job.submit(RequestKind.SAVEPOINT, str(tmp_path))
    job.wait_until(lambda: job.outcome is not None)
    ended = job.batch()
    # Queries that are told to end commit the batch they are in, and no more.
    job.wait_until(lambda: job.batch() > ended + 3, timeout=30)
    assert job.job().state is JobState.RUNNING
    go_on.set()
    assert job.wait().state is JobState.FINISHED
    assert job.registry.request(submitted).state is RequestState.COMPLETED
    assert job.registry.state_history(job.job_id)[-1].reason == ENDED_BEFORE_QUERIES
    assert not spark.streams.active


def test_spark_is_stopped_while_a_query_runs(
    spark: Any, new_job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that runs is committed first, and the job's end says that the query still ran."""
    from pyspark import SparkContext

    at_stop = []
    # The session is that of all tests: nobody may really stop it.
    monkeypatch.setattr(SparkContext, "stop", lambda _: at_stop.append(spark.streams.active))

    def program() -> None:
        query = start_counting(spark)
        while not query.recentProgress:
            time.sleep(0.05)
        spark.sparkContext.stop()
        spark.sparkContext.stop()

    job = new_job().start(program)
    final = job.wait()
    assert (final.state, final.failure) == (JobState.FINISHED, None)
    assert job.registry.state_history(job.job_id)[-1].reason == ENDED_BEFORE_QUERIES
    assert at_stop == [[], []]
    (query,) = job.registry.queries(job.job_id)
    assert (query.active, query.error) == (False, None)
    assert query.batch_id == job.batch() >= 0


@pytest.mark.deep
def test_two_sessions_have_no_query_of_one_name(spark: Any, new_job: NewJob) -> None:
    """Spark lets them: only one of the two would be in a savepoint, and be stopped."""

    def program() -> None:
        first = start_counting(spark, "q")
        first.stop()
        start_counting(spark.newSession(), "q").stop()  # one behind the other is no matter
        start_counting(spark, "q")
        start_counting(spark.newSession(), "q").awaitTermination()

    job = new_job().start(program)
    final = job.wait()
    assert final.state is JobState.FAILED
    assert "two running queries of the program have the same name: 'q'" in str(final.failure)


@pytest.mark.deep
def test_one_writer_started_twice_resumes_as_two_queries(
    spark: Any, new_job: NewJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has gone on to the second query when the first is to be started again."""

    def program() -> None:
        writer = rate(spark).writeStream.format("noop")
        writer.queryName("one").start()
        writer.foreachBatch(lambda frame, _: frame.count()).trigger(processingTime="1 second")
        writer.queryName("two").start()
        spark.streams.awaitAnyTermination()

    job = new_job().start(program)
    job.wait_until(lambda: len(job.runtime.queries()) == 2 and job.batch() >= 1)

    def facts() -> list[tuple[str, ...]]:
        runs = [spark_jvm.stream_execution(q.jsq) for q in job.runtime.queries()]
        how = [(str(run.sink().getClass()), str(run.trigger().toString())) for run in runs]
        return [(q.name, q.query_id, *of) for q, of in zip(job.runtime.queries(), how, strict=True)]

    before = facts()
    assert before[0][2:] != before[1][2:]
    with monkeypatch.context() as patch:
        patch.setattr(actions, "check_writable", lambda target: None)
        with pytest.raises(StorageError):
            job.request(RequestKind.STOP, unwritable(tmp_path))
    batch = job.batch()
    job.wait_until(lambda: job.batch() > batch + 1)
    assert facts() == before
    job.request(RequestKind.STOP, str(tmp_path / "sp"))
    assert job.wait().state is JobState.FINISHED


@pytest.mark.parametrize("kind", [RequestKind.SAVEPOINT, RequestKind.STOP])
def test_a_cancel_does_not_wait_behind_a_request_that_waits(
    spark: Any, new_job: NewJob, tmp_path: Path, kind: RequestKind
) -> None:
    (tmp_path / "in").mkdir()

    def program() -> None:
        frame = spark.readStream.schema("a int").json(str(tmp_path / "in"))
        frame.writeStream.queryName("q").format("noop").start().awaitTermination()

    job = new_job().start(program)
    job.wait_until(lambda: job.runtime.queries() != [])
    waiting = job.registry.submit(job.job_id, kind, SavepointArguments(str(tmp_path)))
    job.wait_until(
        lambda: job.registry.request(waiting.request_id).state is RequestState.IN_PROGRESS
    )
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED
    given_up = job.registry.request(waiting.request_id)
    assert given_up.state is RequestState.FAILED
    assert given_up.error is not None
    assert "cancel" in str(given_up.error["message"])
