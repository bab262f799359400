"""The row of a source in a restore plan, and what is known when it is judged. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from flinkish.connectors.base import SourceAnswer
from flinkish.connectors.kafka.reading import BrokerAnswer
from flinkish.connectors.offsets import Target
from flinkish.connectors.sources import NewSource, SavedSource
from flinkish.messages.plan import Check, Move
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions

SourceVerdict = Literal[
    "as-is",
    "moved",
    "new",
    "reset",
    "set",
    "dropped",
    "changed",
    "consent-needed",
    "incompatible",
]


@dataclass(frozen=True)
class FileMove:
    """Where the files of a file source were, and where they are: URLs of directories."""

    old: str
    new: str


@dataclass(frozen=True)
class FileAges:
    """What becomes of the files of a source by their age.

    Attributes
    ----------
    lost
        How many files that wait are never read, and were read without the restore.
    forgotten
        How many files that were read are read again.
    days
        The ``maxFileAge`` in days with which neither happens.
    limit
        The one of the program in milliseconds.
    """

    lost: int = 0
    forgotten: int = 0
    days: int = 0
    limit: int = 0


#: No file is left out, or read again.
NO_AGES = FileAges()


@dataclass(frozen=True)
class Cleaned:
    """What others have cleaned since the position: files that it has not read, and that are gone.

    Attributes
    ----------
    mode
        ``archive`` or ``delete``.
    archived
        How many such files the archive has.
    place
        The archive.
    gone_on
        The newest batch of another run of the query, if it is later than the savepoint's.
    """

    mode: str
    archived: int = 0
    place: str = ""
    gone_on: int | None = None


@dataclass(frozen=True)
class FileReading:
    """Where the files are that a file source has read, and what its path covers.

    Attributes
    ----------
    path
        The path that the program reads.
    files
        How many files its log has.
    outside
        How many of them do not lie below the path.
    planned_outside
        How many of those belong to the planned batch.
    moved, planned_moved
        How many files of ``outside`` and ``planned_outside`` lie at the same place below the path.
    pattern
        Whether the path has a pattern.
    by_name
        Whether files are known by their names alone.
    known
        Whether every place could be looked at.
    move
        Where the files of ``outside`` would have been moved.
    too_deep
        Whether the files lie below the path where Spark reads none.
    asked_outside
        How many files of ``outside`` the newest committed batch has, if none is planned.
    only_batch
        Whether the query has committed one batch alone, and planned none: Spark asks for its files.
    ages
        What becomes of files by their age.
    cleaned
        What others have cleaned since; None if nothing, as far as is known.
    """

    path: str
    files: int
    outside: int = 0
    planned_outside: int = 0
    moved: int = 0
    planned_moved: int = 0
    pattern: bool = False
    by_name: bool = False
    known: bool = True
    move: FileMove | None = None
    too_deep: bool = False
    only_batch: bool = False
    asked_outside: int = 0
    ages: FileAges = NO_AGES
    cleaned: Cleaned | None = None

    @property
    def refused(self) -> bool:
        """Whether Spark would refuse or skip files of the planned batch."""
        return self.planned_outside > 0 and (not self.pattern or self.planned_moved > 0)


@dataclass(frozen=True)
class SourcePlan:
    """The verdict for one source of the program, or for a saved one that the program does not read.

    Attributes
    ----------
    new
        None for a saved source that the program does not read.
    verdict
        ``consent-needed`` must not be executed without consent, ``incompatible`` not at all;
        ``changed`` needs a warning; ``dropped`` is counted by ``non_restored_state``.
    reason
        An id for programs.
    text, advice
        A sentence, and what the user can do, if anything.
    lost_rows
        How many rows at most are never read, where that is the matter and known.
    checks
        What else there is to say of it.
    repeated_rows
        How many rows at most are read again, where that is the matter and known.
    set_to
        The position that replaces the saved one (``--set-offsets``).
    moves
        What becomes of the partitions of Kafka then.
    elsewhere
        Whether files that a file source has read lie elsewhere than it reads now, so that Spark
        must not ask for those of the newest batch.
    move
        How the paths in its log change.
    """

    new: NewSource | None
    saved: SavedSource | None
    verdict: SourceVerdict
    reason: str
    text: str
    advice: str = ""
    lost_rows: int | None = None
    checks: tuple[Check, ...] = ()
    repeated_rows: int | None = None
    set_to: str | None = None
    moves: tuple[Move, ...] = ()
    elsewhere: bool = False
    move: FileMove | None = None

    @property
    def blocks(self) -> bool:
        """Whether the restore must not continue, or not without the user's consent."""
        return self.verdict in ("consent-needed", "incompatible")


@dataclass(frozen=True)
class BrokerFacts:
    """What is known of Kafka brokers and of tables that are read, and agreed to.

    Attributes
    ----------
    answers
        Those of brokers, by the entry of the source.
    options
        What the user has agreed to.
    targets
        Where sources are moved to (``--set-offsets``), by their entry.
    tables
        The answers of tables, by the entry of the source.
    files
        Where the files of file sources are, by the entry of the source.
    """

    answers: Mapping[int, BrokerAnswer] = field(default_factory=dict)
    options: RestoreOptions = NO_OPTIONS
    targets: Mapping[int, Target] = field(default_factory=dict)
    tables: Mapping[int, SourceAnswer] = field(default_factory=dict)
    files: Mapping[int, FileReading] = field(default_factory=dict)


#: Nothing is known of any broker.
NO_FACTS = BrokerFacts()


def change_of(source: NewSource, saved: SavedSource) -> str:
    """Return what a source reads, and what its position was taken in."""
    return f"{source.describe()} now reads {source.signature} instead of {saved.signature}"
