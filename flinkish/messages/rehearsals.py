"""The rehearsal of a program on a copy of state: how far it goes, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from flinkish.messages.plan import RestorePlan


@dataclass(frozen=True)
class RehearsalLimits:
    """How far each query runs.

    Attributes
    ----------
    batches
        The number of batches.
    max_rows
        The number of input rows after which no further batch is waited for; None for no limit.
    patience
        The seconds that all batches of a query may take.
    """

    batches: int = 3
    max_rows: int | None = None
    patience: float = 300.0


@dataclass(frozen=True)
class RehearsedBatch:
    """One batch that was run.

    Attributes
    ----------
    input_rows, output_rows
        As Spark's progress reports them; None where the sink does not count its rows.
    seconds
        The duration of the batch.
    state_rows
        The rows in the state of all operators after it; None without state.
    """

    batch_id: int
    input_rows: int
    output_rows: int | None
    seconds: float
    state_rows: int | None


@dataclass(frozen=True)
class RehearsedQuery:
    """What became of one query.

    Attributes
    ----------
    restored_batch
        The batch that it continued from; None if it began empty.
    error
        Why it failed: the message of Spark's error, or that a batch was not finished in time.
    failed_batch
        The batch that failed, or was not finished in time.
    late
        Whether that batch was not finished in time.
    rows_per_second
        Input rows per second of the batches (:func:`rate_of`).
    job_rows_per_second
        The input rows per second that the job's query processed, as its driver last reported; None
        without a job, or if that is unknown.
    """

    name: str
    restored_batch: int | None
    batches: tuple[RehearsedBatch, ...] = ()
    error: str | None = None
    failed_batch: int | None = None
    late: bool = False
    rows_per_second: float | None = None
    job_rows_per_second: float | None = None

    @property
    def input_rows(self) -> int:
        """The input rows of all batches."""
        return sum(batch.input_rows for batch in self.batches)

    @property
    def output_rows(self) -> int | None:
        """The output rows of all batches; None where the sink does not count them."""
        counts = [batch.output_rows for batch in self.batches]
        return None if None in counts else sum(count or 0 for count in counts)


def rate_of(batches: Sequence[RehearsedBatch]) -> float | None:
    """Return the input rows per second of batches; None without input. Pure.

    The first batch, for which Spark compiles the query, counts only if there is no other.
    """
    counted = batches[1:] or batches
    seconds = sum(batch.seconds for batch in counted)
    rows = sum(batch.input_rows for batch in counted)
    return rows / seconds if seconds and rows else None


@dataclass(frozen=True)
class Rehearsed:
    """The answer to a :class:`~flinkish.messages.calls.RehearsalTask`.

    Attributes
    ----------
    queries
        In the order of their starts.
    plan
        The plan of the restore.
    """

    queries: tuple[RehearsedQuery, ...] = ()
    plan: RestorePlan = field(default_factory=RestorePlan)
