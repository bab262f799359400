"""Verification of a savepoint: existence, size, bytes and rows of every file.

Levels: ``quick`` compares listings with ``_metadata``; ``full`` also reads every byte and compares
digests, which finds a flipped bit, a truncation, a missing or a swapped file; ``deep`` also decodes
and counts every state row.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkish import storage
from flinkish.annotations import public_evolving
from flinkish.errors import Corrupt, UsageError
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.format.metadata import FILE_NAME
from flinkish.savepoint.format.reader import FULL, QUICK, BadFile, OpenSavepoint, find_bad_files
from flinkish.savepoint.reporter import SavepointReporter

DEEP = "deep"
LEVELS = (QUICK, FULL, DEEP)
#: Number of bad files that an error message names.
_NAMED = 3


@public_evolving
@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    ``bad`` are files that are missing or differ from their records, and directories with wrong
    rows, each with its path inside the savepoint (of a file that another savepoint holds, the whole
    location) and the reason. ``unexpected`` are paths inside the savepoint that its metadata does
    not list; they are harmless. ``rows`` is the number of state rows decoded, or None if none
    were: only level ``deep`` decodes rows, and only if all files are whole. ``unread`` is what
    could not be decoded, with reasons.
    """

    path: str
    level: str
    files: int
    bytes: int
    bad: tuple[BadFile, ...]
    unexpected: tuple[str, ...]
    rows: int | None = None
    unread: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no file is bad."""
        return not self.bad

    def error(self) -> Corrupt:
        """Return the error for a damaged savepoint, with the first bad files and their number."""
        named = ", ".join(f"{bad.path} {bad.reason}" for bad in self.bad[:_NAMED])
        more = len(self.bad) - _NAMED
        others = f", and {more} more of {self.files} files are bad" if more > 0 else ""
        return Corrupt(
            f"the savepoint {self.path} is damaged: {named}{others}",
            hint="use another savepoint, or put the files back from a copy",
            path=self.path,
            bad_files=len(self.bad),
        )


def verify(savepoint: OpenSavepoint, level: str, reporter: SavepointReporter) -> Verification:
    """Check an opened savepoint's files at their locations.

    Memory: about ten thousand file records at a time, plus 100 bytes per further file. Rows are
    decoded only if all files are whole.

    Raises UsageError if the level is unknown, or a library that ``deep`` needs is not installed;
    UnsupportedFormat if a digest has an unknown form; StorageError; Corrupt if the metadata has
    been damaged since it was opened.
    """
    if level not in LEVELS:
        raise UsageError(f"unknown level {level!r}", hint=f"use {', '.join(LEVELS)}")
    reporter.phase("files")
    bad = tuple(find_bad_files(savepoint, QUICK if level == QUICK else FULL))
    rows: int | None = None
    unread: tuple[str, ...] = ()
    if level == DEEP and not bad:
        rows, bad, unread = _decode(savepoint, reporter)
    return Verification(
        path=savepoint.path,
        level=level,
        files=savepoint.files,
        bytes=savepoint.bytes,
        bad=bad,
        unexpected=unexpected_files(savepoint),
        rows=rows,
        unread=unread,
    )


def _decode(
    savepoint: OpenSavepoint, reporter: SavepointReporter
) -> tuple[int, tuple[BadFile, ...], tuple[str, ...]]:
    """Return rows, bad files and unread parts; only this imports the engine's libraries."""
    try:
        from flinkish.savepoint.manage.deep_check import deep_check
    except ImportError as error:
        raise UsageError(
            f"state rows cannot be decoded here: {error}",
            hint="install the library it names, or use --level full",
        ) from error
    check = deep_check(savepoint, reporter)
    return check.rows, check.bad, check.unread


def unexpected_files(savepoint: OpenSavepoint) -> tuple[str, ...]:
    """Return the sorted relative paths in the savepoint's directory that do not belong to it.

    Hidden files and the lists of other savepoints that use its files are left out.
    """
    # Hashes instead of paths: there may be a million, and a collision only hides a harmless file.
    own = {
        hash(f"{savepoint.queries[record.query].directory}/{record.path}")
        for record in savepoint.iter_files()
        if record.held is None
    }
    return tuple(
        path
        for path, _ in storage.walk_files(savepoint.path)
        if path != FILE_NAME
        and not path.startswith(f"{sharing.DIRECTORY}/")
        and hash(path) not in own
    )
