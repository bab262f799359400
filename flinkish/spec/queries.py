"""What a driver tells the registry of its streaming queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
class QueryStatus:
    """One streaming query of a job, refreshed with each heartbeat.

    Attributes
    ----------
    batch_id
        The newest committed batch.
    watermark
        ISO 8601, as Spark's progress gives it.
    notes
        What the user is to hear of its start: uids that are missing, state that starts empty ...
    plan
        How it was restored: its part of the restore plan (``flinkish.restore.plan.document``).
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
    plan: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class QueryFacts:
    """What only the driver knows of a query and every savepoint of it holds.

    It stays in the registry when the driver is gone, so that a savepoint of what it left is as good
    as one that it would have taken.

    Attributes
    ----------
    sources, sink
        Descriptions as in a savepoint.
    operators
        ``OperatorFacts.to_json()`` of ``flinkish.savepoint.format.contents`` each.
    problem
        ``FlinkishError.to_record()`` of the error that says why there can be no savepoint of it.
    """

    run_id: str
    sources: tuple[Mapping[str, Any], ...] = ()
    sink: Mapping[str, Any] = field(default_factory=dict)
    operators: tuple[Mapping[str, Any], ...] = ()
    python_version: str | None = None
    problem: Mapping[str, Any] | None = None
