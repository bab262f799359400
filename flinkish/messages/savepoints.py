"""A finished savepoint, as the command line shows it and as the registry keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: The trigger of a savepoint that was taken of checkpoints without a driver.
TRIGGER_OFFLINE = "offline"


@dataclass(frozen=True)
class SavedQuery:
    """One query of a finished savepoint."""

    name: str
    batch_id: int
    query_id: str


@dataclass(frozen=True, kw_only=True)
class SavepointResult:
    """A finished savepoint, with the field names of the command line's contract.

    Attributes
    ----------
    bytes, files
        The bytes and the number of its data files: ``_metadata`` is not counted.
    shared_files
        How many of ``files`` an earlier savepoint holds.
    moved_bytes
        The number of bytes copied.
    duration
        Seconds that the savepoint took.
    """

    path: str
    format: str
    bytes: int
    files: int
    shared_files: int = 0
    moved_bytes: int = 0
    duration: float
    queries: tuple[SavedQuery, ...]


@dataclass(frozen=True)
class SavepointRecord:
    """One savepoint in the registry; the savepoint's directory is authoritative.

    Attributes
    ----------
    created, disposed
        Seconds since the epoch.
    format
        ``native`` or ``canonical``.
    queries
        One ``{"name", "batch_id", "query_id"}`` for each query.
    trigger
        ``savepoint``, ``stop``, ``cancel``, ``offline`` or ``migrate``.
    """

    path: str
    job_id: str
    created: float
    format: str
    bytes: int
    files: int
    duration: float
    queries: tuple[Mapping[str, Any], ...] = ()
    trigger: str = "savepoint"
    request_id: str | None = None
    disposed: float | None = None
