"""Check that the input files that a restored query will read again still exist.

A file source's log names every file that it has read. Files of committed batches are not read
again, and may be gone. Files of a batch that is planned but not committed are read again: Spark
replays it from that log, and skips a missing file without an error (``InMemoryFileIndex`` treats a
missing root path as one that was "deleted very recently"). Its rows are then in no output and in no
state.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from flinkish import storage
from flinkish.checkpoint.format.logs import NO_OFFSET
from flinkish.checkpoint.format.names import SOURCES
from flinkish.checkpoint.format.source_logs import log_offset
from flinkish.errors import StorageError
from flinkish.restore.materialize import source_logs
from flinkish.restore.materialize.source_checkpoints import (
    damaged,
    missing_file,
    read_file,
    read_logs,
)
from flinkish.restore.recipe import SourceCheckpoint
from flinkish.restore.source.restore_inputs import SavedSource


@dataclass(frozen=True)
class SourceFileCheck:
    """The result for one file source.

    Attributes
    ----------
    entry
        The source's line in the offset log.
    planned_gone, planned
        The missing files of the planned batch (severe), and the number of files of that batch.
    read, read_gone
        The number of files that were read before, and of the missing ones among them (a note).
    elsewhere
        The number of files that are not on the local file system and were not checked.
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
        shown = ", ".join(self.planned_gone[:3])
        more = f" and {len(self.planned_gone) - 3} more" if len(self.planned_gone) > 3 else ""
        return [
            f"source {self.entry}: {len(self.planned_gone)} of {self.planned} files of the batch "
            f"that is replayed are gone, their rows will be missing: {shown}{more}"
        ]

    def notes(self) -> list[str]:
        """Return the notes about files that are not needed or were not checked."""
        found = []
        if self.read_gone:
            found.append(
                f"source {self.entry}: {self.read_gone} of {self.read} files read already are "
                "gone; they are not read again"
            )
        if self.elsewhere:
            found.append(
                f"source {self.entry}: {self.elsewhere} input files are not on the local file "
                "system, and were not looked for"
            )
        return found


def missing_files(
    origin: SourceCheckpoint, sources: Sequence[SavedSource] | None = None
) -> tuple[SourceFileCheck, ...]:
    """Look for the input files of every file source of a saved query.

    Each input directory is listed once, however many files of it are in the log.

    Parameters
    ----------
    origin
        The saved query's files.
    sources
        Its sources, if they are known, for their directories.

    Raises
    ------
    Corrupt
        A log is missing or damaged.
    """
    logs = read_logs(origin)
    after = (
        {}
        if logs.planned is None
        else dict(zip(logs.planned.sources, logs.planned.offsets, strict=True))
    )
    names = dict(zip(logs.offsets.sources, logs.offsets.offsets, strict=True))
    found: dict[str, SourceFileCheck] = {}
    present: dict[str, frozenset[str]] = {}
    for entry, name in enumerate(dict.fromkeys([*names, *after])):
        committed = names.get(name, NO_OFFSET)
        planned = after.get(name, NO_OFFSET)
        directory = name
        if sources is not None and logs.offsets.version == 1 and entry < len(sources):
            directory = sources[entry].directory
        position = committed if planned == NO_OFFSET else planned
        # A DataFrame that is used twice has two lines but one log.
        if log_offset(position) is None or directory in found:
            continue
        limit = log_offset(committed)
        files = list(_named_files(origin, directory, position))
        check = _check(entry, directory, files, -1 if limit is None else limit, present)
        found[directory] = check
    return tuple(found.values())


def _named_files(
    origin: SourceCheckpoint, directory: str, position: str
) -> Iterator[source_logs.ReadFile]:
    prefix = f"{SOURCES}/{directory}/"
    names = [path.removeprefix(prefix) for path in origin.files if path.startswith(prefix)]
    if not names:  # the second line of a DataFrame that is used twice, in a plain checkpoint
        return
    try:
        chosen = source_logs.files_at(
            names, position, lambda name: read_file(origin, prefix + name)
        )
        for name in chosen.kept:
            yield from source_logs.read_files(read_file(origin, prefix + name), name)
        for content in chosen.written.values():
            yield from source_logs.read_files(content, name)
    except FileNotFoundError as error:
        raise missing_file(origin.at(f"{prefix}{error.filename}")) from error
    except ValueError as error:
        raise damaged(origin, prefix, error) from error


def _check(
    entry: int,
    directory: str,
    files: Sequence[source_logs.ReadFile],
    committed: int,
    present: dict[str, frozenset[str]],
) -> SourceFileCheck:
    gone: list[str] = []
    planned = read = read_gone = elsewhere = 0
    for file in files:
        try:
            path = storage.locate(unquote(file.path))
        except StorageError:
            path = ""
        if not storage.is_local(path):  # one request for each remote directory is too much
            elsewhere += 1
            continue
        parent, name = os.path.split(path)
        if parent not in present:
            present[parent] = frozenset(storage.list_names(parent))
        lost = name not in present[parent]
        if file.batch > committed:
            planned += 1
            gone += [path] if lost else []
        else:
            read += 1
            read_gone += lost
    return SourceFileCheck(entry, directory, tuple(gone), planned, read, read_gone, elsewhere)
