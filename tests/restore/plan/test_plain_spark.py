"""Checkpoints for queries that go on without flinkish: what becomes of id, batch and sink."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.errors import ConsentNeeded, Incompatible
from flinkish.registry.jobs import JobState
from flinkish.restore.origin.restore_origin import RestorableQuery
from flinkish.restore.plan.plain_spark import PlainContinuation, plan_unchanged
from flinkish.restore.plan.query_id import OtherRun
from flinkish.restore.plan.sinks import SinkStatus
from flinkish.restore.recipe import OriginCheckpoint
from tests.support.restore.query_builders import old, saved_query

WENT_ON = OtherRun("j", JobState.CANCELED, 9)


def offer(*, stateful: bool = True, **more: Any) -> RestorableQuery:
    query = saved_query(*([old("dedup")] if stateful else []), batch=7)
    origin = OriginCheckpoint("/sp/0-q", ("metadata", "offsets/7", "commits/7"), 7)
    return RestorableQuery(query, origin, "id", **more)


def sink(newest: int | None) -> SinkStatus:
    return SinkStatus("parquet", "/out", newest)


@pytest.mark.parametrize(
    ("position", "options", "runs", "keeps", "batch"),
    [
        (None, {}, [], True, 7),
        (None, {"fork": True}, [], False, 7),
        (None, {}, [WENT_ON], False, 7),
        (sink(7), {}, [], True, 7),
        (sink(9), {"mode": "rebase"}, [], True, 9),
        (sink(9), {"mode": "rebase"}, [WENT_ON], False, 9),
    ],
)
def test_the_id_and_the_batch(
    position: SinkStatus | None, options: Any, runs: list[OtherRun], keeps: bool, batch: int
) -> None:
    plan = plan_unchanged(offer(), runs, position, **options)
    assert plan.refusal is None
    assert (plan.identity.keep, plan.recipe.batch_id) == (keeps, batch)
    assert plan.recipe.states is None
    assert plan.recipe.sources is None


def test_a_sink_that_is_ahead_needs_consent() -> None:
    refusal = plan_unchanged(offer(), [], sink(9)).refusal
    assert isinstance(refusal, ConsentNeeded)
    assert "query 'q': the parquet sink /out has batch 9" in refusal.message
    assert plan_unchanged(offer(stateful=False), [], sink(9), mode="accept").refusal is None


def test_canonical_state_is_refused() -> None:
    refusal = plan_unchanged(offer(canonical=True), [], None).refusal
    assert isinstance(refusal, Incompatible)
    assert "migrate" in refusal.hint


@pytest.mark.parametrize(
    ("newest", "following", "fails_in"),
    [(None, 0, None), (3, 4, None), (None, 4, 9), (2, 4, 9), (2, 9, 9), (2, 10, 19), (12, 4, None)],
)
def test_the_log_of_a_file_sink(newest: int | None, following: int, fails_in: int | None) -> None:
    query = PlainContinuation("q", following, log_path="/out", newest_logged=newest)
    told = [text.partition("fails in batch ")[2].partition(",")[0] for text in query.warnings()]
    assert told == ([] if fails_in is None else [str(fails_in)])


def test_what_history_batch_returns() -> None:
    (warning,) = PlainContinuation("q", 4, counts_history=True).warnings()
    assert "history_batch returns Spark's batch ids" in warning
