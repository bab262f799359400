"""What a restore writes again to a sink that keeps no batch numbers. Pure.

To such a sink (:attr:`~flinkish.connectors.base.Connector.repeats_batches`; Spark's ``KafkaWriter``
writes without transactions, 3.5 to 4.3), a batch that runs again is written again in full:
at-least-once. These batches run again:

* those that other jobs with the query's id committed after the savepoint;
* those of jobs that went back to an earlier batch of the query, and so got another query id;
* the batch that one of these jobs had begun when it was killed or cancelled, and of which it may
  have written some rows;
* the planned batch (in the offset log, not committed), which is replayed with the same input.

All of these follow the savepoint's batch, so the last of them gives their number. Their rows need
not be the same, because only a planned batch has a fixed range of input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinkish.connectors.registry import sink_connector, source_connector
from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.restore.origin.restore_inputs import NewQuery
from flinkish.restore.plan.query_id import OtherRun
from flinkish.restore.recipe import Recipe, TakenSource


def judge_repeats(
    query: str,
    format: str | None,
    saved_format: str | None,
    batch: int,
    runs: Sequence[OtherRun],
    *,
    planned: bool,
) -> Check | None:
    """Return what is written to an at-least-once sink again; None for another sink.

    ``batch`` is the savepoint's committed batch. ``runs`` are the jobs that ran the query id of the
    savepoint, or went back to a batch of it. ``planned`` says that the new checkpoint has a planned
    batch, which is replayed.
    """
    sink = sink_connector(format)
    if not sink.repeats_batches:
        return None
    reason = f"{sink.name}-sink"
    about = f"query '{query}': the {sink.label} sink is at-least-once"
    if saved_format is not None and sink_connector(saved_format) != sink:
        text = f"{about}; the saved query wrote to {saved_format}, so nothing is repeated"
        return Check(reason, RestoreOutcome.NOTE, text, batches=0)
    running = [run for run in runs if not run.state.is_final]
    if running:
        return Check(
            reason,
            RestoreOutcome.WARNING,
            f"{about}: all that job {running[0].job_id} ({running[0].state.value}) writes after "
            f"batch {batch} will be written again",
            "stop the job first, or let the program write to another topic",
            batches=None,
        )
    last = max((_last(run, batch) for run in runs), default=batch)
    last = max(last, batch + 1 if planned else batch)
    if last == batch:
        text = (
            f"{about}; no job that ran the query started a batch after {batch}, so none "
            "is repeated (forks do not count)"
        )
        return Check(reason, RestoreOutcome.NOTE, text, batches=0)
    return Check(
        reason,
        RestoreOutcome.WARNING,
        f"{about}: what it already has of {_batches(batch + 1, last)} is written again "
        f"({_why(runs, batch, planned=planned)})",
        "make the topic's readers ignore duplicates, or write to another topic",
        batches=last - batch,
    )


def may_repeat(saved_format: str | None) -> bool:
    """Return whether the sink of a saved query may be at-least-once; True if it is unknown."""
    return saved_format is None or sink_connector(saved_format).repeats_batches


def sink_format(sink: Mapping[str, Any]) -> str | None:
    """Return the format in a savepoint's description of a sink; None when it has none."""
    name = sink.get("format")
    return name if isinstance(name, str) else None


def _last(run: OtherRun, batch: int) -> int:
    """Return the last batch whose rows a job may have written."""
    begun = 0 if run.state.value == "FINISHED" else 1
    if run.last_batch is not None and run.since is not None:  # its batches may hold any rows
        return max(run.since, batch) + run.last_batch - run.since + begun
    if run.last_batch is None or run.last_batch < batch:
        return batch
    return run.last_batch + begun


def _batches(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"{last - first + 1} batches, {first} to {last},"


def _count(batches: int) -> str:
    return "one batch" if batches == 1 else f"{batches} batches"


def _why(runs: Sequence[OtherRun], batch: int, *, planned: bool) -> str:
    clauses = []
    for run in runs:
        last = _last(run, batch)
        if last > batch and run.since is not None:
            what = f"job {run.job_id} went back to batch {run.since} under another query id"
            clauses.append(f"{what} and may have started {_count(last - max(run.since, batch))}")
        elif last > batch:
            committed = run.last_batch if run.last_batch is not None else batch
            verb = "continued to" if committed > batch else "ended with"
            what = f"job {run.job_id} {verb} batch {committed}"
            if last > committed:
                what += f" and may have started batch {last}"
            clauses.append(what)
    if planned:
        clauses.append(f"batch {batch + 1} was planned and is replayed")
    return "; ".join(clauses)


def check_replay(new: NewQuery, recipe: Recipe, spark: str) -> Check | None:
    """Return the warning for a query that fails after its replayed batch, or None.

    ``spark`` is the version of the Spark that restores.
    """
    if not recipe.replays_planned:
        return None
    taken = recipe.sources
    for source in new.sources or ():
        part = None if taken is None else taken[source.entry]
        replayed = taken is None or (
            isinstance(part, TakenSource) and part.origin == recipe.base and part.offset is None
        )
        finding = source_connector(source.signature).replayed(spark) if replayed else None
        if finding is not None:
            text = f"query '{new.name}': {source.describe()} {finding.text}"
            return Check(finding.reason, finding.outcome, text, finding.advice)
    return None
