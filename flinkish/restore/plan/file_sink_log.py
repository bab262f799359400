"""The entries that the log of a file sink lacks for the batches that a query continues with. Pure.

A file sink keeps the files of each batch in ``_spark_metadata/<batch>`` below its path. Each
``interval``-th entry (``spark.sql.streaming.fileSink.log.compactInterval``, by default batches 9,
19, 29 ...) is ``<batch>.compact`` and has the files of all batches before it. To write one, and to
list the files for a reader, Spark (``CompactibleFileStreamLog``, the same from 3.5 to 4.3) reads
all entries since the one before, or from batch 0. It fails for good when one of them is not there:

* where a query continues after batch N and writes to a place without a log;
* where the log ends before N: the place has batches of an older run.

What is missing then is written before the query runs its next batch: entries without files, and,
where the newest compact entry would be missing, that one with all files that the log has. Spark
takes the interval of a log with two compact entries from their distance, and derives that of a log
with one from the setting, not always as the setting says (``deriveCompactInterval``). So two are
written, where there would be two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flinkish.checkpoint.format.logs import COMPACT_SUFFIX


@dataclass(frozen=True)
class MissingEntries:
    """The batches whose entries are missing.

    Attributes
    ----------
    before
        Those before the oldest entry, in the order in which they are to be written.
    after
        Those after the newest entry, likewise.
    compact
        Those of them whose entries are compact.
    """

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    compact: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


def missing_entries(names: Iterable[str], next_batch: int, interval: int) -> MissingEntries:
    """Return the entries that a log needs before ``next_batch`` is written.

    ``names`` are those in the log's directory, ``interval`` is the compaction interval of this log.
    """
    names = list(names)
    batches = sorted(batch for name in names if (batch := batch_of(name)) is not None)
    if not batches:
        after = _needed(-1, next_batch, interval)
        return MissingEntries(after=after, compact=_compact(after, interval))
    # A log whose entries were deleted, as Spark does it, has a compact one.
    whole = batches[0] == 0 or any(name.endswith(COMPACT_SUFFIX) for name in names)
    before = () if whole else _needed(-1, batches[0], interval)
    after = _needed(batches[-1], next_batch, interval)
    return MissingEntries(before, after, _compact((*before, *after), interval))


def batch_of(name: str) -> int | None:
    """Return the batch of an entry's name; None for another file."""
    number = name.removesuffix(COMPACT_SUFFIX)
    return int(number) if number.isascii() and number.isdigit() else None


def _needed(newest: int, next_batch: int, interval: int) -> tuple[int, ...]:
    """Return the entries between two batches that are read after them."""
    compact = next_batch // interval * interval - 1
    pair = tuple(each for each in (compact - interval, compact) if each > newest)
    return (*pair, *range(max(compact, newest) + 1, next_batch))


def _compact(batches: Iterable[int], interval: int) -> frozenset[int]:
    return frozenset(batch for batch in batches if (batch + 1) % interval == 0)
