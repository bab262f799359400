"""A finished savepoint, as its writer, a request's result and the registry tell of it."""

from __future__ import annotations

from dataclasses import dataclass

#: The trigger of a savepoint that was taken of checkpoints without a driver.
TRIGGER_OFFLINE = "offline"


@dataclass(frozen=True)
class SavedQuery:
    """One query of a finished savepoint."""

    name: str
    batch_id: int
    query_id: str


@dataclass(frozen=True)
class SavepointSummary:
    """A finished savepoint; its directory is authoritative.

    Attributes
    ----------
    created, disposed
        Seconds since the epoch.
    format
        ``native`` or ``canonical``.
    bytes, files
        The bytes and the number of its data files: ``_metadata`` is not counted.
    duration
        Seconds that the savepoint took.
    trigger
        ``savepoint``, ``stop``, ``cancel``, ``offline`` or ``migrate``.
    request_id
        The request that caused it.
    shared_files
        How many of ``files`` an earlier savepoint holds; None if unknown, as in the
        registry.
    moved_bytes
        The number of bytes copied; None as for ``shared_files``.
    """

    path: str
    job_id: str
    created: float
    format: str
    bytes: int
    files: int
    duration: float
    queries: tuple[SavedQuery, ...] = ()
    trigger: str = "savepoint"
    request_id: str | None = None
    disposed: float | None = None
    shared_files: int | None = None
    moved_bytes: int | None = None
