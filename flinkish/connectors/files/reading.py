"""The files that a file source has read, and those that it finds now. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from flinkish.connectors.source_plan import FileMove
from flinkish.connectors.sources import SourceAnswer


@dataclass(frozen=True)
class FileAges:
    """The files of a source that are ignored or read again because of their age.

    Attributes
    ----------
    lost
        How many waiting files are never read, though no age limit excluded them before the restore.
    forgotten
        How many files that were read are read again.
    days
        A ``maxFileAge`` in days that prevents both.
    limit
        The ``maxFileAge`` of the program, in milliseconds.
    """

    lost: int = 0
    forgotten: int = 0
    days: int = 0
    limit: int = 0


#: No file is left out, or read again.
NO_AGES = FileAges()


@dataclass(frozen=True)
class Cleaned:
    """The files after the position that another run has read, and then archived or deleted.

    Attributes
    ----------
    mode
        ``archive`` or ``delete``.
    archived
        How many such files the archive has.
    place
        The archive.
    unlisted
        The archive that the savepoint names and the program does not, so that it is not listed.
    gone_on
        The newest batch of another run, if one has gone on since the savepoint. Under another query
        id it may be lower than the savepoint's batch.
    """

    mode: str
    archived: int = 0
    place: str = ""
    unlisted: str = ""
    gone_on: int | None = None


@dataclass(frozen=True)
class FileReading(SourceAnswer):
    """Where the files are that a file source has read, and what its path covers.

    Attributes
    ----------
    path
        The path that the program reads.
    files
        How many files the source's log has.
    outside
        How many of them do not lie below the path.
    planned_outside
        How many files of ``outside`` belong to the planned batch.
    moved, planned_moved
        How many files of ``outside`` and ``planned_outside`` lie at the same place below the path.
    pattern
        Whether the path has a pattern.
    by_name
        Whether files are identified by their names alone.
    known
        Whether every place to which files may have been moved could be looked at.
    move
        From where to where the files of ``outside`` would have been moved; None if unknown.
    too_deep
        Whether files that were read lie below the path, but only in directories that Spark skips.
    asked_outside
        How many files of ``outside`` the newest committed batch has, if no batch is planned.
    only_batch
        Whether only batch 0 is committed and none is planned, so that Spark asks for its files.
    ages
        The files that are ignored or read again because of their age.
    cleaned
        The files that another run has cleaned since, or may have; None if there is no sign of any.
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
