"""The reports of a driver to the registry about its streaming queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.annotations import public_evolving
from flinkish.messages.codec import OMIT_DEFAULT
from flinkish.messages.plan import QueryRow, RestorePlan


@dataclass(frozen=True)
class OperatorStatus:
    """One stateful operator of a query, as the driver sees it.

    Attributes
    ----------
    kind
        Spark's name for the operator, such as ``stateStoreSave``.
    """

    ordinal: int
    kind: str
    uid: str | None = None
    operator_id: str | None = None
    rows: int | None = None


@dataclass(frozen=True)
class BatchRun:
    """A batch that a query has run: how long its whole trigger took, and the rows it read."""

    batch_id: int
    seconds: float
    rows: int


@public_evolving
@dataclass(frozen=True)
class QueryStatus:
    """One streaming query of a job, updated with each heartbeat.

    Attributes
    ----------
    batch_id
        The newest committed batch.
    watermark
        ISO 8601, as in Spark's progress.
    notes
        Messages for the user about its start: missing uids, state that starts empty ...
    plan
        Its part of the restore plan, or the plan of all queries.
    waits_for_input
        Whether it found no input when it last looked, and computes no batch; None if unknown.
    trigger_interval
        The seconds from one look for input to the next; 0 if it looks all the time; None if
        unknown (an irregular trigger).
    last_batch_end
        When the newest batch of this driver ended, ISO 8601; None if it has ended none.
    own_location
        The checkpoint location, as the program writes it; empty if it gives none.
        A restored query has its checkpoint elsewhere.
    waited_until
        When the driver last saw that the query waits for input, or is held for a savepoint, ISO
        8601; None if never.
    snapshot_version
        The state version of the newest snapshot, in the partition where it is oldest; None if
        Spark does not report it (before 4.0). A partition of which this driver has not uploaded a
        snapshot counts from the driver's first batch.
    snapshots_repaired
        The number of snapshots that Spark has repaired by itself while this driver ran, in the
        batches that a heartbeat saw; None if Spark does not report it (before 4.1).
    recent_batches
        The newest batches that heartbeats saw, oldest first. A query that runs several batches
        between two heartbeats has gaps between their numbers.
    """

    name: str
    query_id: str
    run_id: str
    checkpoint_dir: str
    active: bool = True
    batch_id: int | None = None
    watermark: str | None = None
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    state_rows: int | None = None
    operators: tuple[OperatorStatus, ...] = ()
    error: str | None = None
    notes: tuple[str, ...] = ()
    plan: RestorePlan | None = None
    waits_for_input: bool | None = field(default=None, metadata=OMIT_DEFAULT)
    trigger_interval: float | None = field(default=None, metadata=OMIT_DEFAULT)
    last_batch_end: str | None = field(default=None, metadata=OMIT_DEFAULT)
    own_location: str = ""
    waited_until: str | None = field(default=None, metadata=OMIT_DEFAULT)
    snapshot_version: int | None = field(default=None, metadata=OMIT_DEFAULT)
    snapshots_repaired: int | None = field(default=None, metadata=OMIT_DEFAULT)
    recent_batches: tuple[BatchRun, ...] = field(default=(), metadata=OMIT_DEFAULT)

    @property
    def restored_batch(self) -> int | None:
        """The batch that the query continued from, in its own numbering; None if not restored."""
        row = self.planned
        return None if row is None else row.batch_id

    @property
    def first_batch(self) -> int:
        """The first batch after the restore; 0 without a restore."""
        return 0 if self.restored_batch is None else self.restored_batch + 1

    @property
    def snapshot_lag(self) -> int | None:
        """The batches since the newest snapshot, in the partition where it is oldest."""
        if self.snapshot_version is None or self.batch_id is None:
            return None
        # Batch N commits version N + 1.
        return max(0, self.batch_id + 1 - self.snapshot_version)

    @property
    def planned(self) -> QueryRow | None:
        """Its row in the plan of the restore; None if nothing was restored."""
        return None if self.plan is None else self.plan.query(self.name)


@dataclass(frozen=True)
class QueryFacts:
    """Facts about a query that only the driver knows and every savepoint of the query contains.

    The registry keeps them after the driver has ended, so that a savepoint of the files that the
    driver left is as complete as one that the driver would have taken.

    Attributes
    ----------
    sources, sink
        Descriptions as in a savepoint.
    operators
        One ``OperatorFacts.to_json()`` (:mod:`flinkish.operators.identity`) for each operator.
    problem
        ``FlinkishError.to_record()`` of the error that explains why the query cannot be
        savepointed.
    """

    run_id: str
    sources: tuple[Mapping[str, Any], ...] = ()
    sink: Mapping[str, Any] = field(default_factory=dict)
    operators: tuple[Mapping[str, Any], ...] = ()
    python_version: str | None = None
    problem: Mapping[str, Any] | None = None
