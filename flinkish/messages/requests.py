"""A request to a job's driver: its arguments, its result, and the savepoint that was taken."""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkish.annotations import public_evolving
from flinkish.messages.codec import OMIT_DEFAULT

#: The trigger of a savepoint that was taken from checkpoints without a driver.
TRIGGER_OFFLINE = "offline"


@dataclass(frozen=True)
class SavedQuery:
    """One query of a finished savepoint."""

    name: str
    batch_id: int
    query_id: str


@public_evolving
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
        How many of ``files`` an earlier savepoint holds; None if unknown, as in the registry.
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


@dataclass(frozen=True)
class SavepointArguments:
    """The arguments of a savepoint and of a stop.

    Attributes
    ----------
    target
        URL of the directory in which the savepoint gets its own directory.
    format
        ``native`` or ``canonical``.
    timeout
        Seconds that the driver waits for what the savepoint needs (the queries that the program
        starts, their first committed batches) before the request fails; None for the job's
        ``execution.checkpointing.timeout``. It is not how long a client waits.
    offline
        Whether a client takes it from the files of a dead job, without a driver.
    full
        Whether it shares no files with an earlier savepoint.
    drain
        Whether a stop first emits what waits for the watermark.
    together
        The id of the ``stop --all`` that a stop is a part of.
    """

    target: str
    format: str = "native"
    timeout: float | None = field(default=None, metadata=OMIT_DEFAULT)
    offline: bool = field(default=False, metadata=OMIT_DEFAULT)
    full: bool = False
    drain: bool = field(default=False, metadata=OMIT_DEFAULT)
    together: str | None = field(default=None, metadata=OMIT_DEFAULT)


@dataclass(frozen=True)
class CancelArguments:
    """The arguments of a cancel, as in :class:`SavepointArguments`.

    Without a ``target`` no savepoint is taken.
    """

    target: str | None = None
    format: str = "native"
    timeout: float | None = field(default=None, metadata=OMIT_DEFAULT)
    full: bool = False

    @property
    def savepoint(self) -> SavepointArguments | None:
        """The savepoint to take first; None for a plain cancel."""
        if self.target is None:
            return None
        return SavepointArguments(
            self.target, format=self.format, timeout=self.timeout, full=self.full
        )


Arguments = SavepointArguments | CancelArguments


@dataclass(frozen=True)
class LeftOut:
    """A query that is not in the savepoint, and the reason.

    Attributes
    ----------
    pending
        Whether it was still to start or to commit a batch; otherwise it had ended without one.
    """

    query: str
    reason: str
    pending: bool = field(default=False, metadata=OMIT_DEFAULT)


@dataclass(frozen=True)
class RequestResult:
    """The result of a request.

    Attributes
    ----------
    savepoint
        None after a plain cancel.
    stop_method
        The method that ended the queries: ``quiesce``, ``stop`` or ``kill``; None if they
        continue.
    left_out
        The queries that are not in the savepoint.
    complete
        Whether the program had started all its queries when the savepoint was taken, as far as can
        be known.
    """

    savepoint: SavepointSummary | None = None
    stop_method: str | None = None
    left_out: tuple[LeftOut, ...] = field(default=(), metadata=OMIT_DEFAULT)
    complete: bool = field(default=True, metadata=OMIT_DEFAULT)
