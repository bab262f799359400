"""The status of a query: what is read out of Spark's progress reports."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.driver.plan.writer_settings import WriterFacts, facts_of
from flinkish.driver.runtime.running_query import (
    RECENT_BATCHES,
    ManagedQuery,
    SnapshotFacts,
    batch_end,
    status_of,
    with_batch,
)
from flinkish.errors import WrongState
from flinkish.messages.queries import BatchRun

RAN, IDLE = {"triggerExecution": 9, "addBatch": 7}, {"triggerExecution": 9}
BEGAN = {"timestamp": "2026-11-23T23:59:59.750Z"}


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (
            {**BEGAN, "durationMs": {"triggerExecution": 500, "addBatch": 400}},
            "2026-11-24T00:00:00.250Z",
        ),
        ({**BEGAN, "durationMs": {"triggerExecution": 3, "latestOffset": 2}}, None),
        ({**BEGAN, "durationMs": {}}, None),
        ({}, None),
    ],
    ids=["batch", "idle", "unfinished", "none yet"],
)
def test_the_end_of_a_batch(progress: dict[str, Any], expected: str | None) -> None:
    assert batch_end(progress) == expected


def progress(batch: int, durations: dict[str, int], **metrics: int) -> dict[str, Any]:
    operators = [{"customMetrics": metrics}]
    return {"batchId": batch, "durationMs": durations, "stateOperators": operators}


def test_snapshots_as_spark_4_3_reports_them() -> None:
    """The names are those of a progress report of Spark 4.3.0, of both providers."""
    facts = SnapshotFacts()
    first, second = (
        "SnapshotLastUploaded.partition_0_default",
        "SnapshotLastUploaded.partition_1_default",
    )
    facts.see(progress(40, RAN, **{first: -1, second: -1, "rocksdbNumSnapshotsAutoRepaired": 1}))
    assert (facts.version, facts.repaired) == (40, 1)  # not more than this driver can know
    facts.see(progress(40, RAN, **{first: -1, second: -1, "rocksdbNumSnapshotsAutoRepaired": 1}))
    assert facts.repaired == 1
    facts.see(progress(50, IDLE, numSnapshotsAutoRepaired=1))
    assert facts.repaired == 1, "it repeats the metrics of the last batch"
    facts.see(progress(50, RAN, **{first: 48, second: 44, "numSnapshotsAutoRepaired": 2}))
    assert (facts.version, facts.repaired) == (44, 3)


def test_snapshots_of_a_spark_that_does_not_report_them() -> None:
    facts = SnapshotFacts()
    facts.see({})
    facts.see(progress(3, RAN, rocksdbCommitFlushLatency=2))
    assert (facts.version, facts.repaired) == (None, None)


def _progress(batch: int, rows: int = 7, **durations: int) -> dict[str, Any]:
    took = durations or {"triggerExecution": 1500, "addBatch": 900}
    return {"batchId": batch, "numInputRows": rows, "durationMs": took}


def test_the_newest_batches_are_kept() -> None:
    batches: tuple[BatchRun, ...] = ()
    for number in range(RECENT_BATCHES + 5):
        batches = with_batch(with_batch(batches, _progress(number)), _progress(number))
    assert batches[-1] == BatchRun(RECENT_BATCHES + 4, 1.5, 7)
    assert [each.batch_id for each in batches] == list(range(5, RECENT_BATCHES + 5))


def test_a_batch_that_is_run_again_replaces_the_later_ones() -> None:
    batches = tuple(BatchRun(number, 1.0, 1) for number in range(4))
    assert with_batch(batches, _progress(2)) == (*batches[:2], BatchRun(2, 1.5, 7))


@pytest.mark.parametrize(
    "progress",
    [{}, _progress(4, 0, triggerExecution=3), {"batchId": 4, "durationMs": {"addBatch": 1}}],
    ids=["none yet", "idle", "unfinished"],
)
def test_a_report_without_a_batch_adds_none(progress: dict[str, Any]) -> None:
    batches = (BatchRun(3, 1.0, 1),)
    assert with_batch(batches, progress) is batches


def remote_query() -> ManagedQuery:
    return ManagedQuery(
        name="q",
        generated_name=False,
        facts=WriterFacts(),
        writer=None,
        begin=lambda: None,
        handle=SimpleNamespace(_jsq="jsq"),
        root_uri="s3a://bucket/q",
        session=None,
        query_id="id",
        run_id="r",
    )


def look_at(query: ManagedQuery, reported: dict[str, Any] | None) -> None:
    """Let the next look at the query see this progress report."""
    look = SimpleNamespace(progress=reported, waits_for_input=True, has_ended=False, error=None)
    query._run = SimpleNamespace(jsq="jsq", look=lambda: look)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("reported", "newest"),
    [
        (None, None),
        (_progress(0), 0),
        (_progress(0, 0, triggerExecution=3), None),
        (_progress(8, 0, triggerExecution=3), 7),
    ],
    ids=["nothing yet", "first batch", "idle before it", "idle after batch 7"],
)
def test_an_idle_query_on_remote_storage_is_at_its_last_batch(
    reported: dict[str, Any] | None, newest: int | None
) -> None:
    """Spark reports an idle trigger under the number of the batch to come."""
    query = remote_query()
    look_at(query, reported)
    assert status_of(query).batch_id == newest


def test_an_idle_query_ended_its_last_batch_when_it_did() -> None:
    """A sink's log that is older than the last batch is another directory, not the time idle."""
    query = remote_query()
    for reported in (
        {"batchId": 7, "durationMs": {"triggerExecution": 500, "addBatch": 400}, **BEGAN},
        {
            "batchId": 8,
            "durationMs": {"triggerExecution": 3},
            "timestamp": "2026-11-24T09:00:00.0Z",
        },
    ):
        look_at(query, reported)
        assert status_of(query).last_batch_end == "2026-11-24T00:00:00.250Z"


class Writer:
    """A builder as PySpark's, which records its calls as the hook does."""

    def __init__(self) -> None:
        self.has: dict[str, Any] = {}

    def _set(self, method: str, *args: Any, **kwargs: Any) -> Writer:
        self.has["sink" if method in ("format", "foreachBatch") else method] = args or kwargs
        facts_of(self).note(method, args, kwargs)
        return self

    def __getattr__(self, method: str) -> Any:
        if method not in ("format", "foreachBatch", "outputMode", "partitionBy", "trigger"):
            raise AttributeError(method)
        return partial(self._set, method)

    def option(self, key: str, value: str) -> Writer:
        self.has[key] = value
        facts_of(self).options[key.lower()] = value
        return self

    def queryName(self, name: str) -> Writer:
        self.has["name"] = name
        facts_of(self).query_name = name
        return self


def started(name: str, writer: Writer, seen: list[dict[str, Any]]) -> ManagedQuery:
    """A query that the program has started with what its writer has now."""
    jsq = SimpleNamespace(runId=lambda: SimpleNamespace(toString=lambda: "run"))

    def begin() -> Any:
        seen.append(dict(writer.has))
        return SimpleNamespace(_jsq=jsq)

    facts = facts_of(writer).copy()
    handle = SimpleNamespace(_jsq=jsq)
    return ManagedQuery(name, False, facts, writer, begin, handle, f"/{name}", None, "id", "run")


def first(frame: Any, batch: int) -> None:
    """Write a batch of the first query."""


def second(frame: Any, batch: int) -> None:
    """Write a batch of the second query."""


def test_a_query_is_started_again_with_its_own_sink_though_its_writer_was_used_again() -> None:
    """Else it would write its rows to the output of the other, which Spark does not notice."""
    writer, seen = Writer(), list[dict[str, Any]]()
    writer.foreachBatch(first).option("topic", "a").queryName("a")
    one = started("a", writer, seen)
    writer.foreachBatch(second).option("topic", "b").queryName("b").trigger(once=True)
    writer.outputMode("complete")
    two = started("b", writer, seen)
    one.restart()
    assert seen.pop() == {
        "sink": (first,),
        "topic": "a",
        "name": "a",
        "trigger": {"processingTime": "0 seconds"},
        "outputMode": ("append",),
        "checkpointLocation": "/a",
    }
    assert facts_of(writer).query_name == "b", "the program may start it again"
    assert writer.has["sink"] == (second,)
    two.restart()
    assert seen.pop() == {
        "sink": (second,),
        "topic": "b",
        "name": "b",
        "trigger": {"once": True},
        "outputMode": ("complete",),
        "checkpointLocation": "/b",
    }


@pytest.mark.parametrize("change", ["format", "partitionBy", "option"])
def test_a_query_is_not_started_again_with_a_setting_of_another_that_stays(change: str) -> None:
    writer, seen = Writer(), list[dict[str, Any]]()
    writer.queryName("a")
    query = started("a", writer, seen)
    writer.option("topic", "b") if change == "option" else getattr(writer, change)("kafka")
    with pytest.raises(WrongState, match="topic" if change == "option" else change):
        query.restart()
    assert seen == []


def test_a_query_that_flinkish_cannot_start_says_so_whatever_its_writer_has() -> None:
    query = started("flow", Writer(), [])
    query.facts.options["topic"] = "a"
    query.adopted = True

    def refuse() -> None:
        raise WrongState("it is a flow of a pipeline")

    query.begin = refuse
    with pytest.raises(WrongState, match="it is a flow"):
        query.restart()
