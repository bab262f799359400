"""The log of a file sink, ``_spark_metadata``: its newest batch, and the entries that it lacks.

A file sink names the files of each batch in ``_spark_metadata/<batch>`` below its path. Each
``interval``-th entry (``spark.sql.streaming.fileSink.log.compactInterval``, by default batches 9,
19, 29 ...) is ``<batch>.compact`` and also names the files of all batches before it. To write a
compact entry, and to list the files for a reader, Spark (``CompactibleFileStreamLog``, the same
from 3.5 to 4.3) reads all entries since the previous compact entry, or from batch 0. It fails
permanently if one of them is missing. Entries are missing:

* if a query continues after batch N and writes to a place without a log;
* if the log at that place ends before N, because its batches are those of an older run;
* if the log begins after batch 0 and has no compact entry.

The missing entries are then written before the query runs its next batch. They name no files,
except that a compact entry for a batch after the log's newest batch names all files of the log.
If a log has two compact entries, their distance is its interval. If it has one, Spark derives the
interval from the setting, and may get another number (``deriveCompactInterval``). So two compact
entries are written where a complete log would have two.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from flinkish.checkpoint.format.logs import COMPACT_SUFFIX
from flinkish.connectors.registry import sink_connector
from flinkish.errors import StorageError
from flinkish.restore.plan.sinks import SinkStatus
from flinkish.storage import is_local, locate

FILE_LOG = "_spark_metadata"
#: Spark's own sinks that keep no batch numbers.
NO_LOG = frozenset({"console", "foreach", "foreachbatch", "memory", "noop"})
#: Bytes of an entry that are read to see whether it names a file.
_HEAD = 256


class Storage(Protocol):
    """Read access to a file system, as :mod:`flinkish.storage` has it."""

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory without hidden ones; none when it does not exist."""

    def read_head(self, location: str, count: int) -> bytes:
        """Return the first bytes of a file."""


def keeps_log(format: str | None) -> bool:
    """Return whether a sink of a format may be a file sink, which keeps a log of its batches.

    ``format`` is the program's, as passed to ``DataStreamWriter.format``; None is a file format
    (``spark.sql.sources.default``).
    """
    return (format or "parquet").lower() not in NO_LOG and sink_connector(format).keeps_log


def file_sink_status(format: str | None, path: str | None, storage: Storage) -> SinkStatus | None:
    """Return the status of a file sink by its log; None for a sink without a log or a path.

    ``path`` is the location to which the sink writes, a path or a URL.
    """
    kind = (format or "parquet").lower()
    if path is None or not keeps_log(format):
        return None
    try:
        log = os.path.join(locate(path), FILE_LOG)  # StorageError for a place that only Spark knows
        names = storage.list_names(log)
        batches = {n: name for name in names if (n := batch_of(name)) is not None}
        newest = max(batches, default=None)
        written = None if newest is None else _written(os.path.join(log, batches[newest]))
        empty = newest is not None and not _has_files(log, batches, storage)
    except FileNotFoundError:  # an entry was compacted away meanwhile
        empty, written = False, None
    except StorageError as error:
        return SinkStatus(kind, path, unreadable=error.message)
    return SinkStatus(kind, path, newest, has_files=not empty, written=written)


def _written(entry: str) -> float | None:
    """Return when an entry of a local log was written; None if unknown."""
    if not is_local(entry):
        return None
    try:
        return os.stat(entry).st_mtime
    except OSError:  # whoever reads the entry learns why
        return None


def _has_files(log: str, batches: Mapping[int, str], storage: Storage) -> bool:
    """Return whether a log names any file, in its newest compact entry or in entries after that."""
    for batch in sorted(batches, reverse=True):
        # The first line has the version of the log, and each further line names one file.
        head = storage.read_head(os.path.join(log, batches[batch]), _HEAD).strip()
        if not head.startswith(b"v") or b"\n" in head:
            return True
        if batches[batch].endswith(COMPACT_SUFFIX):
            return False
    return False


@dataclass(frozen=True)
class MissingEntries:
    """The batches whose entries are missing.

    Attributes
    ----------
    before
        The batches before the oldest entry, in the order in which they are to be written.
    after
        The batches after the newest entry, likewise.
    compact
        The batches among these whose entries are compact.
    """

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    compact: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


def missing_entries(names: Iterable[str], next_batch: int, interval: int) -> MissingEntries:
    """Return the entries that a log needs before ``next_batch`` is written.

    ``names`` are the names in the log's directory, ``interval`` is the log's compaction interval.
    """
    names = list(names)
    batches = sorted(batch for name in names if (batch := batch_of(name)) is not None)
    if not batches:
        after = _needed(-1, next_batch, interval)
        return MissingEntries(after=after, compact=_compact(after, interval))
    # If Spark itself has deleted old entries of a log, the log has a compact entry.
    whole = batches[0] == 0 or any(name.endswith(COMPACT_SUFFIX) for name in names)
    before = () if whole else _needed(-1, batches[0], interval)
    after = _needed(batches[-1], next_batch, interval)
    return MissingEntries(before, after, _compact((*before, *after), interval))


def batch_of(name: str) -> int | None:
    """Return the batch of an entry's name; None for another file."""
    number = name.removesuffix(COMPACT_SUFFIX)
    return int(number) if number.isascii() and number.isdigit() else None


def _needed(newest: int, next_batch: int, interval: int) -> tuple[int, ...]:
    """Return the batches after ``newest`` whose entries Spark reads from ``next_batch`` on."""
    compact = next_batch // interval * interval - 1
    pair = tuple(each for each in (compact - interval, compact) if each > newest)
    return (*pair, *range(max(compact, newest) + 1, next_batch))


def _compact(batches: Iterable[int], interval: int) -> frozenset[int]:
    return frozenset(batch for batch in batches if (batch + 1) % interval == 0)
