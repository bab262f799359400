"""Which files of ``sources/<i>`` belong to a position that a query goes on from. Pure.

A file source's log names every file it has read. An entry later than the position makes Spark skip
those files: data would be lost without a word. A cut holds the entries of a planned batch too, so
whoever takes the position of the committed batch must leave them out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flinkish.checkpoint import layout


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


def read_files(data: bytes) -> list[ReadFile]:
    """The files of one log entry, compacted or not; LogFormatError if it is none."""
    return [ReadFile(path, batch) for path, batch, _ in _parsed(data)[1]]


def _parsed(data: bytes) -> tuple[bytes, list[tuple[str, int, bytes]]]:
    """The first line, and of every other one its path, batch and the line itself."""
    head, _, body = data.partition(b"\n")
    try:
        if not head.startswith(b"v"):
            raise layout.LogFormatError(f"the first line is {head[:20]!r}, not a version")
        lines = [(json.loads(line), line) for line in body.split(b"\n") if line]
        return head, [(str(e["path"]), int(e["batchId"]), line) for e, line in lines]
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise layout.LogFormatError(f"not an entry of a file source's log: {error}") from error


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
    LogFormatError: a compacted log is none.
    """
    limit = layout.log_offset(offset)
    if limit is None and offset == layout.NO_OFFSET and names:
        limit = -1 if layout.is_file_source_log(read(min(names))) else None
    if limit is None:
        return SourceFiles(tuple(names))  # another source's own notes: all or nothing
    present, absent = layout.source_log_entries(names, limit)
    if not absent:
        return SourceFiles(tuple(present))
    later = [number for name in names if (number := _compacted(name)) is not None]
    after = min((number for number in later if number > limit), default=None)
    if after is None:
        raise FileNotFoundError(2, "not listed", absent[0])
    # The planned batch's entry was a compaction, and the cut holds nothing older.
    shortened = compacted_until(read(f"{after}{layout.COMPACT_SUFFIX}"), limit)
    return SourceFiles((), {f"{limit}{layout.COMPACT_SUFFIX}": shortened})


def _compacted(name: str) -> int | None:
    number = name.removesuffix(layout.COMPACT_SUFFIX)
    return int(number) if number != name and number.isascii() and number.isdigit() else None


def compacted_until(data: bytes, limit: int) -> bytes:
    """A compacted file source log without the entries of log batches after ``limit``.

    It can stand as ``<limit>.compact`` alone: Spark's ``CompactibleFileStreamLog`` derives its
    interval from the only compacted file (some divisor of ``limit`` + 1), whatever the setting.
    """
    head, entries = _parsed(data)
    return b"\n".join([head, *(line for _, batch, line in entries if batch <= limit)])
