"""The files of ``sources/<i>`` that belong to a position from which a query continues. Pure.

A file source's log names every file that was read. If an entry is later than the position, Spark
skips the files of that entry, which silently loses data. A cut also holds the entries of a planned
batch, so these must be left out for the position of the committed batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.logs import (
    COMPACT_SUFFIX,
    NO_OFFSET,
    compacted_number,
    is_file_source_log,
    is_readable,
    log_offset,
    source_log_entries,
)


@dataclass(frozen=True)
class SourceFiles:
    """Files of one source at a position: names of those that are kept, and new contents by name."""

    kept: tuple[str, ...] = ()
    written: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadFile:
    """One input file in a file source's log: Spark's ``FileStreamSource.FileEntry``.

    Attributes
    ----------
    path
        A URL with percent escapes.
    batch
        The number of the *log's* batch, which is independent of the query's.
    time
        When the file was last changed, in milliseconds since the epoch.
    """

    path: str
    batch: int
    time: int = 0


def read_files(data: bytes, name: str) -> list[ReadFile]:
    """Return the files of a log entry, compacted or not; CheckpointFormatError if it is damaged."""
    return [ReadFile(path, batch, time) for path, batch, time, _ in _parsed(data, name)[1]]


def _parsed(data: bytes, name: str) -> tuple[bytes, list[tuple[str, int, int, bytes]]]:
    """Return the first line, and the path, batch, time and text of every other line."""
    head, _, body = data.partition(b"\n")
    try:
        if not head.startswith(b"v"):
            reason = f"the first line is {head[:20]!r}, not a version"
            raise CheckpointFormatError(name, 0, reason)
        lines = [(json.loads(line), line) for line in body.split(b"\n") if line]
        return head, [
            (str(e["path"]), int(e["batchId"]), int(e.get("timestamp", 0)), line)
            for e, line in lines
        ]
    except CheckpointFormatError:
        raise
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        reason = f"not an entry of a file source's log: {error}"
        raise CheckpointFormatError(name, None, reason) from error


def files_at(names: Sequence[str], offset: str, read: Callable[[str], bytes]) -> SourceFiles:
    """Return the files among ``names`` that make up the position ``offset``.

    ``names`` are relative to the source's directory; ``offset`` is its line in the offset log,
    ``-`` without a position; ``read`` returns the content of a file. Raises FileNotFoundError if an
    entry that the position needs is missing, CheckpointFormatError if a rewritten one is damaged.
    """
    limit = log_offset(offset)
    if limit is None and offset == NO_OFFSET and names:
        limit = -1 if is_file_source_log(read(min(names))) else None
    if limit is None:
        return SourceFiles(tuple(names))  # another kind of source: all its files are taken
    present, absent = source_log_entries(names, limit)
    if not absent:
        if is_readable(present, limit):
            return SourceFiles(tuple(present))
        return SourceFiles((), {f"{limit}{COMPACT_SUFFIX}": _merged(present, read)})
    later = [number for name in names if (number := compacted_number(name)) is not None]
    after = min((number for number in later if number > limit), default=None)
    if after is None:
        raise FileNotFoundError(2, "not listed", absent[0])
    # The planned batch's entry is a compaction, and the cut holds nothing older.
    name = f"{after}{COMPACT_SUFFIX}"
    shortened = compacted_until(read(name), name, limit)
    return SourceFiles((), {f"{limit}{COMPACT_SUFFIX}": shortened})


def with_moved_files(data: bytes, name: str, move: tuple[str, str]) -> bytes:
    """Return an entry of a file source's log with the paths of files that were moved.

    ``move`` has the URLs of the old and the new directory.
    """
    old, new = move

    def moved(path: str) -> str | None:
        place = same_form(path)
        return new + place[len(old) :] if place.startswith(f"{old}/") else None

    return with_other_files(data, name, moved)


def with_other_files(data: bytes, name: str, other: Callable[[str], str | None]) -> bytes:
    """Return an entry of a log with other URLs of files; ``other`` returns None for one that stays.

    The log is that of a file source, or of a file sink (``_spark_metadata``), whose lines have a
    ``path`` too. Raises CheckpointFormatError if the entry is damaged.
    """
    head, _, body = data.partition(b"\n")
    lines = [head]
    try:
        for line in body.split(b"\n") if body else ():
            url = other(str(json.loads(line)["path"])) if line else None
            if url is not None:
                entry = json.loads(line) | {"path": url}
                line = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode()
            lines.append(line)
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        reason = f"not an entry of a log of files: {error}"
        raise CheckpointFormatError(name, None, reason) from error
    return b"\n".join(lines)


def same_form(url: str) -> str:
    """Return a URL unchanged, except that ``file:/a`` becomes the equivalent ``file:///a``."""
    if url.startswith("file:/") and not url.startswith("file://"):
        return "file://" + url.removeprefix("file:")
    return url


def read_by_spark(names: Sequence[str]) -> Sequence[str]:
    """Return the entries of a position without those before the newest compacted one."""
    newest = max(
        (i for i, name in enumerate(names) if compacted_number(name) is not None), default=0
    )
    return names[newest:]


def _merged(names: Sequence[str], read: Callable[[str], bytes]) -> bytes:
    """Return entries as one compacted entry."""
    parsed = [_parsed(read(name), name) for name in read_by_spark(names)]
    return b"\n".join([parsed[0][0], *(line for _, lines in parsed for _, _, _, line in lines)])


def compacted_until(data: bytes, name: str, limit: int) -> bytes:
    """Return a compacted file source log without the entries of log batches after ``limit``.

    The result can be the only file of a log, ``<limit>.compact``: ``CompactibleFileStreamLog``
    derives the interval from it (some divisor of ``limit`` + 1), whatever the setting.
    """
    head, entries = _parsed(data, name)
    return b"\n".join([head, *(line for _, batch, _, line in entries if batch <= limit)])
