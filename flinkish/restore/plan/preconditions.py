"""The preconditions of a restore besides those of operators, sources and a sink's batches. Pure.

They follow Spark's, and a precondition for a migration in Flink's "Upgrading Applications and Flink
Versions": the state must not be in a mode that cannot be migrated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish.checkpoint.format.logs import MAX_WATERMARK_MS
from flinkish.checkpoint.format.pins import PIN_WATERMARK_POLICY
from flinkish.connectors.source_plan import SourcePlan
from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.restore.materialize.new_logs import combined_watermark
from flinkish.restore.origin.restore_inputs import NewOperator, NewQuery, SavedQueryFacts
from flinkish.restore.plan.deduplications import utc_text

#: Spark's switch for its own comparison of state schemas.
SETTING_SCHEMA_CHECK = "spark.sql.streaming.stateStore.stateSchemaCheck"
_DRAINED = "drained"
_AGGREGATIONS = frozenset({"stateStoreSave", "sessionWindowStateStoreSaveExec"})


def preconditions(
    new: NewQuery,
    saved: SavedQueryFacts | None,
    others: Iterable[tuple[SavedQueryFacts, Sequence[NewOperator]]] = (),
) -> Iterator[Check]:
    """Yield the checks that found something for one query.

    ``saved`` is the saved query that it continues, None if it starts empty. ``others`` are other
    saved queries that give it state or positions, with the operators that take the state.
    """
    if saved is not None:
        yield from _saved_preconditions(new, saved)
    for other, operators in others:
        yield from _saved_preconditions(replace(new, operators=tuple(operators)), other)
    if new.sink.problem is not None:
        text, advice = new.sink.problem
        memory = _is_memory(new.sink.format) and saved is not None
        yield Check(
            "query-mode",
            RestoreOutcome.REFUSED if memory else RestoreOutcome.WARNING,
            f"query '{new.name}': {text}"
            + ("" if memory else "; no savepoint can be taken of it afterwards"),
            advice,
        )
    if new.settings.get(SETTING_SCHEMA_CHECK, "true").lower() == "false":
        yield Check(
            "state-schema-check",
            RestoreOutcome.WARNING,
            f"{SETTING_SCHEMA_CHECK} is false: Spark does not compare the state's types "
            "with the program's, and misreads bytes where they differ",
            "leave it at true",
        )


def with_watermark(
    checks: Sequence[Check],
    new: NewQuery,
    base: SavedQueryFacts,
    rows: Sequence[SourcePlan],
    watermarks: Sequence[int],
) -> tuple[Check, ...]:
    """Return the checks, with a warning for each source that is read again under a watermark.

    ``watermarks`` (ms) are those of the queries from which the new query's watermark is made.
    Checks that a saved query was drained are left out if the new query's watermark is not at the
    maximum.
    """
    policy = base.pins.get(PIN_WATERMARK_POLICY)
    watermark = combined_watermark([each for each in watermarks if each > 0], policy)
    drained = watermark >= MAX_WATERMARK_MS
    kept = [check for check in checks if drained or check.id != _DRAINED]
    if not 0 < watermark < MAX_WATERMARK_MS or new.operators == ():
        return tuple(kept)
    for row in rows:
        if row.new is not None and (row.verdict == "reset" or row.goes_back):
            begins = "starts from scratch" if row.verdict == "reset" else "goes back"
            text = (
                f"{row.new.describe()} {begins}, but the watermark stays at {utc_text(watermark)}: "
                "operators with a watermark drop its rows from before that time as late"
            )
            advice = "to process these rows too, start without the savepoint"
            kept.append(Check("late-rows", RestoreOutcome.WARNING, text, advice))
    return tuple(kept)


def _saved_preconditions(new: NewQuery, saved: SavedQueryFacts) -> Iterator[Check]:
    mode = _saved_mode(saved.sink)
    if mode is not None:
        yield Check(
            "state-mode",
            RestoreOutcome.REFUSED,
            f"{saved.describe()} was saved while {mode}: its state and offsets do not "
            "belong to one batch",
            "switch that off, let the job run a batch, and take another savepoint",
        )
    if _is_memory(saved.sink.get("format")) and _output_mode_of(saved) != "complete":
        yield Check(
            "state-mode",
            RestoreOutcome.REFUSED,
            f"{saved.describe()} wrote to the memory sink, which Spark restarts from a "
            "checkpoint only in complete mode",
            "use another sink, let the job run a batch, and take another savepoint",
        )
    yield from _output_mode(new, saved)
    if (saved.watermark_ms or 0) >= MAX_WATERMARK_MS:
        yield Check(
            _DRAINED,
            RestoreOutcome.WARNING,
            f"{saved.describe()} was drained: its watermark is at the maximum, so "
            "every row with an event time is late",
            "to process more data, start without this savepoint",
        )


def _saved_mode(sink: Mapping[str, Any]) -> str | None:
    """Return the mode in which a query was saved, if no query can continue from it; else None."""
    trigger = sink.get("trigger") or {}
    if "continuous" in trigger:
        return "it ran with a continuous trigger"
    if "realTime" in trigger:
        return "it ran in real-time mode"
    if sink.get("async_progress"):
        return "it tracked its progress asynchronously"
    return None


def _is_memory(format: object) -> bool:
    return str(format).lower() == "memory"


def _output_mode_of(saved: SavedQueryFacts) -> str:
    """Return the output mode of a saved query, which is recorded as the program wrote it."""
    return str(saved.sink.get("output_mode") or "append").lower()


def _output_mode(new: NewQuery, saved: SavedQueryFacts) -> Iterator[Check]:
    before = _output_mode_of(saved)
    now = str(new.sink.output_mode or "append").lower()
    aggregates = any(op.node.kind in _AGGREGATIONS for op in new.operators or ())
    if before == now or not aggregates or not saved.sink:
        return
    if now == "complete" and saved.watermark_ms:
        yield Check(
            "output-mode",
            RestoreOutcome.REFUSED,
            f"the output mode was {before} and is now complete: groups that the watermark "
            "has closed are no longer in the state, and would be missing from the "
            "complete result",
            f"keep {before} mode, or start without the savepoint",
        )
    else:
        yield Check(
            "output-mode",
            RestoreOutcome.NOTE,
            f"the output mode was {before} and is now {now}",
        )
