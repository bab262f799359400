"""A finished savepoint, as the command line shows it and as a registry keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SavedQuery:
    """One query of a finished savepoint."""

    name: str
    batch_id: int
    query_id: str


@dataclass(frozen=True, kw_only=True)
class SavepointResult:
    """A finished savepoint with the fields that the command line's contract names.

    Attributes
    ----------
    bytes, files
        What it holds; ``shared_files`` of them are held by an earlier savepoint.
    moved_bytes
        What was copied.
    duration
        Seconds it took.
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
    """One savepoint the registry knows of; the savepoint's directory is the truth about it.

    Attributes
    ----------
    created, disposed
        Seconds since the epoch.
    format
        ``native`` or ``canonical``.
    queries
        ``{"name", "batch_id", "query_id"}`` each.
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
