"""Check that the input files that a restored query will read again still exist.

A file source's log names every file that was read. Files of committed batches are not read
again, and may be gone. Files of a batch that is planned but not committed are read again. Spark
replays that batch from the log, and skips a missing file silently (``InMemoryFileIndex`` treats a
missing root path as one that was "deleted very recently"). The rows of that file are then in no
output and in no state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from flinkish import storage
from flinkish.checkpoint.format.logs import NO_OFFSET, log_offset
from flinkish.checkpoint.format.names import SOURCES
from flinkish.connectors.sources import SavedSource
from flinkish.errors import StorageError
from flinkish.restore.materialize import source_logs
from flinkish.restore.materialize.origin_checkpoints import (
    damaged,
    missing_file,
    read_file,
    read_logs,
)
from flinkish.restore.recipe import OriginCheckpoint
from flinkish.units import first_of

#: Maximum number of listings of remote directories for all sources of a query.
MAX_LISTINGS = 1000


@dataclass(frozen=True)
class SourceFileCheck:
    """The result for one file source.

    Attributes
    ----------
    entry
        The source's line in the offset log.
    planned_gone, planned
        The missing files of the planned batch (severe), and the number of that batch's files that
        were looked for.
    read, read_gone
        The number of files that were read before and were looked for, and the number of the
        missing ones among them (a note).
    elsewhere
        The number of files on remote storage that were not looked for, because that storage cannot
        be read from here, or because their directory was not listed (see :func:`missing_files`).
    """

    entry: int
    directory: str
    planned_gone: tuple[str, ...] = ()
    planned: int = 0
    read: int = 0
    read_gone: int = 0
    elsewhere: int = 0

    def warnings(self) -> list[str]:
        """Return the warnings about rows that would be lost."""
        if not self.planned_gone:
            return []
        names = first_of(self.planned_gone, limit=3)
        return [
            f"source {self.entry}: {len(self.planned_gone)} of {self.planned} files of the batch "
            f"that is replayed are gone, so their rows will be missing: {names}"
        ]

    def notes(self) -> list[str]:
        """Return the notes about files that are not needed or were not checked."""
        notes = []
        if self.read_gone:
            notes.append(
                f"source {self.entry}: {self.read_gone} of {self.read} files read already are "
                "gone; they are not read again"
            )
        if self.elsewhere:
            notes.append(
                f"source {self.entry}: {self.elsewhere} input files on remote storage were not "
                "looked for"
            )
        return notes


def missing_files(
    origin: OriginCheckpoint, sources: Sequence[SavedSource] | None = None
) -> tuple[SourceFileCheck, ...]:
    """Look for the input files of the file sources of a saved query.

    ``sources`` are those whose positions the query keeps; None for all in the offset log.

    Each input directory is listed once, however many files of it are in the log. On remote storage,
    only directories with files of the planned batch are listed, at most :data:`MAX_LISTINGS`.

    Raises Corrupt if a log is missing or damaged, UnsupportedFormat if its digest has an unknown
    form, and StorageError if a log or a local directory cannot be read.
    """
    logs = read_logs(origin)
    after = (
        {}
        if logs.planned is None
        else dict(zip(logs.planned.sources, logs.planned.offsets, strict=True))
    )
    names = dict(zip(logs.offsets.sources, logs.offsets.offsets, strict=True))
    checks: dict[str, SourceFileCheck] = {}
    by_entry = {source.entry: source.directory for source in sources or ()}
    present = Directories()
    for entry, name in enumerate(dict.fromkeys([*names, *after])):
        committed = names.get(name, NO_OFFSET)
        planned = after.get(name, NO_OFFSET)
        directory = name
        if sources is not None and logs.offsets.version == 1:
            directory = by_entry.get(entry, "")
        if sources is not None and directory not in by_entry.values():
            continue
        position = committed if planned == NO_OFFSET else planned
        # A DataFrame that is used twice has two lines but one log.
        if log_offset(position) is None or directory in checks:
            continue
        limit = log_offset(committed)
        files = list(named_files(origin, directory, position))
        check = _check(entry, directory, files, -1 if limit is None else limit, present)
        checks[directory] = check
    return tuple(checks.values())


def named_files(
    origin: OriginCheckpoint, directory: str, position: str
) -> Iterator[source_logs.ReadFile]:
    """Yield the files that the log of a file source has at a position.

    Raises Corrupt if the log is damaged or lacks an entry, and what ``read_file`` raises.
    """
    prefix = f"{SOURCES}/{directory}/"
    names = [path.removeprefix(prefix) for path in origin.files if path.startswith(prefix)]
    if not names:  # the second line of a DataFrame that is used twice, in a plain checkpoint
        return
    try:
        chosen = source_logs.files_at(
            names, position, lambda name: read_file(origin, prefix + name)
        )
        for name in source_logs.read_by_spark(chosen.kept):
            yield from source_logs.read_files(read_file(origin, prefix + name), name)
        for name, content in chosen.written.items():
            yield from source_logs.read_files(content, name)
    except FileNotFoundError as error:
        raise missing_file(origin, f"{prefix}{error.filename}") from error
    except ValueError as error:
        raise damaged(origin, prefix, error) from error


class Directories:
    """The names in the directories of input files; each directory is listed once."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str] | None] = {}
        self._remote = 0

    def lacks(self, path: str, *, needed: bool) -> bool | None:
        """Return whether a file is gone; None if unknown.

        ``needed`` says whether a remote directory is listed for the file, which takes a request.
        Raises StorageError if a local directory cannot be listed.
        """
        parent, name = storage.split(path)
        if parent not in self._names:
            if not storage.is_local(parent):
                if not needed or self._remote == MAX_LISTINGS:
                    return None
                self._remote += 1
            self._names[parent] = self._list(parent)
        names = self._names[parent]
        return None if names is None else name not in names

    def _list(self, parent: str) -> frozenset[str] | None:
        try:
            return frozenset(storage.list_names(parent))
        except StorageError:
            if storage.is_local(parent):
                raise
            return None  # this host may lack the access that the executors have


def _check(
    entry: int,
    directory: str,
    files: Sequence[source_logs.ReadFile],
    committed: int,
    present: Directories,
) -> SourceFileCheck:
    gone: list[str] = []
    planned = read = read_gone = elsewhere = 0
    # Files of the planned batch come first, as they decide which remote directories are listed.
    for file in sorted(files, key=lambda each: each.batch <= committed):
        is_planned = file.batch > committed
        try:
            path = storage.locate(unquote(file.path))
        except StorageError:
            elsewhere += 1
            continue
        lost = present.lacks(path, needed=is_planned)
        if lost is None:
            elsewhere += 1
        elif is_planned:
            planned += 1
            gone += [path] if lost else []
        else:
            read += 1
            read_gone += lost
    return SourceFileCheck(entry, directory, tuple(gone), planned, read, read_gone, elsewhere)
