"""Which files of ``sources/<i>`` belong to a position that a query goes on from. Pure.

A file source's log names every file it has read. An entry later than the position makes Spark skip
those files: data would be lost without a word. A cut holds the entries of a planned batch too, so
whoever takes the position of the committed batch must leave them out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.logs import NO_OFFSET
from flinkish.checkpoint.format.source_logs import (
    COMPACT_SUFFIX,
    compacted,
    is_file_source_log,
    log_offset,
    source_log_entries,
)


@dataclass(frozen=True)
class SourceFiles:
    """Files of one source at a position: those taken as they are, and new ones by name."""

    kept: tuple[str, ...] = ()
    written: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadFile:
    """One input file in a file source's log: Spark's ``FileStreamSource.FileEntry``.

    ``path`` is a URL with percent escapes, ``batch`` the number of the *log's* batch, which counts
    apart from the query's.
    """

    path: str
    batch: int


def read_files(data: bytes, name: str) -> list[ReadFile]:
    """The files of one log entry, compacted or not; CheckpointFormatError if it is none."""
    return [ReadFile(path, batch) for path, batch, _ in _parsed(data, name)[1]]


def _parsed(data: bytes, name: str) -> tuple[bytes, list[tuple[str, int, bytes]]]:
    """The first line, and of every other one its path, batch and the line itself."""
    head, _, body = data.partition(b"\n")
    try:
        if not head.startswith(b"v"):
            reason = f"the first line is {head[:20]!r}, not a version"
            raise CheckpointFormatError(name, 0, reason)
        lines = [(json.loads(line), line) for line in body.split(b"\n") if line]
        return head, [(str(e["path"]), int(e["batchId"]), line) for e, line in lines]
    except CheckpointFormatError:
        raise
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        reason = f"not an entry of a file source's log: {error}"
        raise CheckpointFormatError(name, None, reason) from error


def files_at(names: Sequence[str], offset: str, read: Callable[[str], bytes]) -> SourceFiles:
    """The files among ``names`` that make up the position ``offset``.

    Parameters
    ----------
    names: the files of the source, relative to its directory.
    offset: its line in the offset log, ``-`` when it had no position.
    read: gives a file's content.

    Raises
    ------
    FileNotFoundError: an entry of a file source's log that the position needs is not there.
    CheckpointFormatError: a compacted log is none.
    """
    limit = log_offset(offset)
    if limit is None and offset == NO_OFFSET and names:
        limit = -1 if is_file_source_log(read(min(names))) else None
    if limit is None:
        return SourceFiles(tuple(names))  # another source's own notes: all or nothing
    present, absent = source_log_entries(names, limit)
    if not absent:
        return SourceFiles(tuple(present))
    later = [number for name in names if (number := compacted(name)) is not None]
    after = min((number for number in later if number > limit), default=None)
    if after is None:
        raise FileNotFoundError(2, "not listed", absent[0])
    # The planned batch's entry was a compaction, and the cut holds nothing older.
    name = f"{after}{COMPACT_SUFFIX}"
    shortened = compacted_until(read(name), name, limit)
    return SourceFiles((), {f"{limit}{COMPACT_SUFFIX}": shortened})


def compacted_until(data: bytes, name: str, limit: int) -> bytes:
    """A compacted file source log without the entries of log batches after ``limit``.

    It can stand as ``<limit>.compact`` alone: Spark's ``CompactibleFileStreamLog`` derives its
    interval from the only compacted file (some divisor of ``limit`` + 1), whatever the setting.
    """
    head, entries = _parsed(data, name)
    return b"\n".join([head, *(line for _, batch, line in entries if batch <= limit)])
