"""A session that has queries already: which are adopted, and that these are saved and stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection

from flinkish import uid
from flinkish.driver.attached import attachment
from flinkish.driver.attached.adoption import is_temporary, names_of, trigger_of
from flinkish.driver.attached.attachment import attach
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import SavepointNotFound, UsageError
from flinkish.messages.launch import ExternalLauncher, Launch
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    Request,
    RequestKind,
    RequestState,
    arguments_for,
)
from flinkish.savepoint.format.reader import describe, open_savepoint


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("ProcessingTimeTrigger(0)", {}),
        ("ProcessingTimeTrigger(500)", {"processingTime": "500 milliseconds"}),
        ("AvailableNowTrigger", {"availableNow": True}),
        ("OneTimeTrigger", {"once": True}),
        ("ContinuousTrigger(1000)", {"continuous": True}),
        ("RealTimeTrigger(5000)", {"realTime": True}),
    ],
)
def test_a_trigger_is_read_from_its_name(text: str, trigger: dict[str, Any]) -> None:
    assert trigger_of(text) == trigger


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("file:/tmp/temporary-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0", True),
        ("file:///data/temporary-orders/ck", False),
        ("s3a://bucket/temporary-v2", False),
        ("file:/tmp/temporary-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0/ck", False),
    ],
)
def test_only_a_checkpoint_that_spark_deletes_is_temporary(root: str, expected: bool) -> None:
    assert is_temporary(root) is expected


@pytest.mark.parametrize(
    ("running", "names"),
    [
        ([None, None], ["query-1", "query-2"]),
        (["query-2", None, None], ["query-2", "query-1", "query-3"]),
        ([None, "query-1"], ["query-2", "query-1"]),
    ],
)
def test_running_queries_have_names_of_their_own(
    running: list[str | None], names: list[str]
) -> None:
    assert names_of([SimpleNamespace(name=name) for name in running]) == names


def test_an_adopted_unnamed_query_is_hidden_by_no_other(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two queries of one name only the newer would be in status and savepoints."""
    launch = Launch("/a.py", external=ExternalLauncher("python", "1"))
    job = JobRecord("a" * 32, "a", JobState.CREATED, 1.0, launch)
    registry.add_job(job)
    runtime = Runtime(registry, job, "/root")
    session: Any = SimpleNamespace(_jsparkSession=SimpleNamespace(equals=lambda _: True))
    session.conf = SimpleNamespace(get=lambda *_: None)
    hadoop = SimpleNamespace(get=lambda _: "")
    session._jsc = SimpleNamespace(hadoopConfiguration=lambda: hadoop)
    query: Any = SimpleNamespace(
        name="query-1",
        generated_name=True,
        adopted=True,
        facts=WriterFacts(format="noop"),
        root_uri="file:///ck",
        checkpoint="/ck",
        own="file:///ck",
        session=session,
        query_id="1",
        run_id="2",
        jsq=None,
    )
    monkeypatch.setattr(runtime._starts._others, "take", lambda *_, **__: None)
    monkeypatch.setattr(spark_jvm, "has_ended", lambda _: False)
    monkeypatch.setattr(spark_jvm, "error_of", lambda _: None)
    runtime.adopt(query)
    preparer = runtime._starts._preparer
    assert preparer.name_of(WriterFacts(), session) == "query-2"
    again = WriterFacts(options={"checkpointlocation": "/ck"})
    assert preparer.name_of(again, session) == "query-1", "it is the same query"
    with (
        pytest.raises(UsageError, match="'query-1'"),
        runtime._starts._reports.starting("query-1", session),
    ):
        pass


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(attachment, "is_interactive", lambda: True)
    yield
    if attachment._current is not None:
        attachment._current.detach()
        monkeypatch.setattr(attachment, "_current", None)


@pytest.mark.spark
def test_a_notebook_attaches_to_what_runs(spark: Any, tmp_path: Path, notebook: None) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = rows.selectExpr("value % 7 as k").groupBy("k").count().transform(uid("counts"))
    kept = (
        counts.writeStream.queryName("kept")
        .outputMode("complete")
        .format("noop")
        .option("checkpointLocation", str(tmp_path / "kept"))
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    rows.writeStream.queryName("shown").format("noop").start()
    wait_for(lambda: kept.lastProgress is not None)

    url = f"sqlite:///{tmp_path}/registry.db"
    job = attach("explore", registry=url)
    assert job.adopted == ("kept",)
    assert list(job.left) == ["shown"]
    assert "temporary" in job.left["shown"]
    assert attach("another", registry=url) is job, "one job at a time"
    later = counts.writeStream.queryName("later").outputMode("complete").format("noop").start()
    with Registry.open(url) as registry:
        job_id = str(job.job_id)
        wait_for(lambda: registry.job(job_id).state is JobState.RUNNING)
        runtime = job._runtime
        runtime.report()  # what each run is looked at through is kept
        assert calls_of(runtime.report) <= 5 * len(runtime.queries()), "a heartbeat costs little"
        assert list(spark._jsparkSession.streams().listListeners()) == [], "a batch costs nothing"
        saved = finished(registry, job_id, RequestKind.SAVEPOINT, tmp_path / "sp")
        assert saved.state is RequestState.COMPLETED, saved.error
        assert saved.result is not None
        assert saved.result.savepoint is not None
        contents = describe(open_savepoint(saved.result.savepoint.path))["savepoint"]
        queries = {query["name"]: query for query in contents["queries"]}
        assert sorted(queries) == ["kept", "later"]
        [operator] = queries["kept"]["operators"]
        assert operator["uid"] == "counts", "read from the running query"
        drained = finished(registry, job_id, RequestKind.STOP, tmp_path / "sp", drain=True)
        assert drained.state is RequestState.FAILED
        assert kept.isActive

        stopped = finished(registry, job_id, RequestKind.STOP, tmp_path / "sp")
        assert stopped.state is RequestState.COMPLETED, stopped.error
        wait_for(lambda: registry.job(job_id).state is JobState.FINISHED)
        assert not kept.isActive
        assert not later.isActive
        assert job.has_ended
    assert [query.name for query in spark.streams.active] == ["shown"], "the kernel runs on"
    spark.streams.active[0].stop()


def calls_of(action: Callable[[], object]) -> int:
    """How many calls to the JVM an action makes in this thread."""
    this, calls = threading.get_ident(), 0
    send = ClientServerConnection.send_command

    def counted(connection: Any, command: str) -> Any:
        nonlocal calls
        calls += threading.get_ident() == this
        return send(connection, command)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientServerConnection, "send_command", counted)
        action()
    return calls


def finished(
    registry: Registry, job_id: str, kind: RequestKind, target: Path, **more: Any
) -> Request:
    request_id = registry.submit(job_id, kind, arguments_for(kind, str(target), **more)).request_id
    wait_for(lambda: registry.request(request_id).state.is_final)
    return registry.request(request_id)


@pytest.mark.spark
def test_a_refused_restore_is_asked_for_again(spark: Any, tmp_path: Path, notebook: None) -> None:
    url = f"sqlite:///{tmp_path}/registry.db"
    with pytest.raises(SavepointNotFound):
        attach("again", savepoint=str(tmp_path / "nothing"), registry=url)
    assert attach("again", registry=url).job_id is not None, "not the refused one"


@pytest.mark.spark
def test_a_query_that_flinkish_would_refuse_starts_all_the_same(
    spark: Any, tmp_path: Path, notebook: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two queries write to one file sink: ``flinkish run`` refuses the second."""
    job = attach("guest", registry=f"sqlite:///{tmp_path}/registry.db")
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    for name in ("one", "two"):
        query = (
            rows.writeStream.queryName(name)
            .format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / name))
            .start()
        )
        assert query.isActive
    assert "flinkish run would refuse it" in capsys.readouterr().err
    job.detach()
    assert len(spark.streams.active) == 2, "they run on"
    for query in spark.streams.active:
        query.stop()
