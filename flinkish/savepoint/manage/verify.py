"""Verifying a savepoint: is every file there, of its size, with its bytes, with readable rows?

Levels: ``quick`` compares listings with ``_metadata``; ``full`` reads every byte and compares
digests: a flipped bit, a truncation, a missing or a swapped file is found; ``deep`` decodes every
state row too, and counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinkish import storage
from flinkish.errors import Corrupt, UsageError
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.format.metadata import FILE_NAME
from flinkish.savepoint.format.reader import FULL, QUICK, BadFile, OpenSavepoint, find_bad_files
from flinkish.savepoint.reporter import SavepointReporter

DEEP = "deep"
LEVELS = (QUICK, FULL, DEEP)
#: Bad files that an error's message names.
_NAMED = 3


@dataclass(frozen=True)
class Verification:
    """What was found.

    Parameters
    ----------
    bad: files that are not as recorded: their paths inside the savepoint (whole locations where
        another savepoint holds them), and why.
    unexpected: paths inside the savepoint that its metadata does not list; they do no harm.
    rows: state rows decoded, None unless the level is ``deep``.
    unread: what ``deep`` could not read rows of, and why.
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
        """Whether the savepoint is whole."""
        return not self.bad

    def error(self) -> Corrupt:
        """The error for a savepoint that is not whole: the first bad files, and how many."""
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
    """Check an opened savepoint's files, wherever their bytes are.

    Memory is that of some ten thousand files, and 100 bytes for each further one. Rows are decoded
    only where all files are whole.

    Raises UsageError for an unknown level, UnsupportedFormat for a digest of a form that this
    version does not know, StorageError when the storage cannot be read.
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
    """Rows, bad files and what was not read; the engine's libraries are imported here only."""
    try:
        from flinkish.savepoint.manage.deep_check import deep_check
    except ImportError as error:
        raise UsageError(
            f"state rows cannot be decoded here: {error}",
            hint="install the library it names, or use --level full",
        ) from error
    found = deep_check(savepoint, reporter)
    return found.rows, found.bad, found.unread


def unexpected_files(savepoint: OpenSavepoint) -> tuple[str, ...]:
    """Files in the savepoint's directory that are not of it, relative to it, sorted.

    Hidden ones are left out, and what says which other savepoints use its files.
    """
    # Hashes instead of paths: there may be a million, and a collision would only hide a note.
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
