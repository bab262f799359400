"""What a request asks of a job's driver, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkish.spec.codec import OMIT_DEFAULT, formerly
from flinkish.spec.savepoints import SavepointResult


@dataclass(frozen=True)
class SavepointArguments:
    """What a savepoint and a stop ask for.

    Attributes
    ----------
    target
        URL of the directory in which the savepoint gets a directory of its own.
    format
        ``native`` or ``canonical``.
    timeout
        Seconds it may wait for a query's first committed batch; None: the driver's own.
    offline
        A client takes it of what a dead job has left: nobody was asked.
    full
        It shares no files with an earlier savepoint.
    """

    target: str
    format: str = "native"
    timeout: float | None = field(default=None, metadata=OMIT_DEFAULT)
    offline: bool = field(default=False, metadata=OMIT_DEFAULT)
    full: bool = False


@dataclass(frozen=True)
class CancelArguments:
    """What a cancel asks for: as :class:`SavepointArguments`; no ``target``, no savepoint."""

    target: str | None = None
    format: str = "native"
    timeout: float | None = field(default=None, metadata=OMIT_DEFAULT)
    full: bool = False

    @property
    def savepoint(self) -> SavepointArguments | None:
        """The savepoint to be taken first, None for a plain cancel."""
        if self.target is None:
            return None
        return SavepointArguments(
            self.target, format=self.format, timeout=self.timeout, full=self.full
        )


Arguments = SavepointArguments | CancelArguments


@dataclass(frozen=True)
class LeftOut:
    """A query that is not in the savepoint, and why."""

    query: str
    reason: str


@dataclass(frozen=True)
class RequestResult:
    """What came of a request.

    Attributes
    ----------
    savepoint
        None after a plain cancel.
    stop_method
        What ended the queries: ``quiesce``, ``stop`` or ``kill``; None where they go on.
    left_out
        Queries that are not in the savepoint.
    """

    VERSION = 2

    savepoint: SavepointResult | None = None
    stop_method: str | None = field(default=None, metadata=formerly("rung"))
    left_out: tuple[LeftOut, ...] = field(default=(), metadata=OMIT_DEFAULT)
