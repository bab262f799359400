"""Names and positions in the log of a file source: ``sources/<i>/<n>`` and ``<n>.compact``.

Spark's ``FileStreamSourceLog`` and ``CompactibleFileStreamLog``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from flinkish.checkpoint.format.names import parse_number
from flinkish.checkpoint.format.text import parse_json

COMPACT_SUFFIX: Final = ".compact"
_DEFAULT_INTERVAL: Final = 10


def log_offset(offset: str) -> int | None:
    """Return a file source's log position (``{"logOffset":n}``); None for other sources."""
    try:
        parsed = parse_json(offset)
    except ValueError:
        return None
    value = parsed.get("logOffset") if isinstance(parsed, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_file_source_log(data: bytes) -> bool:
    """Return whether an entry of ``sources/<i>/`` is a file source's (JSON lines with a path)."""
    lines = data.split(b"\n", 2)
    return len(lines) > 1 and lines[0].startswith(b"v") and b'"path"' in lines[1]


def compacted_number(name: str) -> int | None:
    """Return the number of a compacted entry, ``<n>.compact``; None for other files."""
    number = name.removesuffix(COMPACT_SUFFIX)
    return parse_number(number) if number != name else None


def source_log_entries(names: Iterable[str], limit: int) -> tuple[list[str], list[str]]:
    """Return the entries of a file source's log that make up position ``limit``.

    Returns the entries that exist, and those that are missing. They start at the newest
    ``<n>.compact`` not above ``limit``. Later entries are left out, because a file named there
    counts as read. If there is a compacted entry before the newest, it comes first: Spark does not
    read its content, but derives the log's compaction interval from the distance of the two.
    """
    existing = set(names)
    compacts = _compacts(existing, limit)
    start = compacts[-1] if compacts else -1
    present = [f"{n}{COMPACT_SUFFIX}" for n in compacts]
    missing: list[str] = []
    for n in range(start + 1, limit + 1):
        (present if str(n) in existing else missing).append(str(n))
        if len(missing) > len(existing):  # a position that no log has: the rest is missing too
            break
    return present, missing


def is_readable(entries: Iterable[str], limit: int) -> bool:
    """Return whether Spark can read the entries of a position as they are.

    ``entries`` are those of :func:`source_log_entries`, none missing. Spark derives a log's
    compaction interval from its compacted entries: it is the distance of the last two, or, for a
    single one, a divisor of its number of entries (``CompactibleFileStreamLog.compactInterval``;
    its default is ``spark.sql.streaming.fileSource.log.compactInterval``). From the interval it
    concludes which compacted entries must exist, and fails if one does not: "``<n>.compact``
    doesn't exist". That happens if the log was compacted with another setting and only one of its
    compacted entries is kept.
    """
    compacts = _compacts(set(entries), limit)
    count = compacts[-1] + 1 if compacts else 0
    since = limit + 1 - count
    if len(compacts) > 1:
        interval = compacts[-1] - compacts[-2]
        return count % interval == 0 and since < interval
    if not compacts:
        return since < _DEFAULT_INTERVAL
    # Spark's deriveCompactInterval: the first divisor not below the default, or the whole number.
    half = count // 2 if count // 2 > _DEFAULT_INTERVAL else 0
    divisors = range(_DEFAULT_INTERVAL, min(since, half) + 1)
    return since < count and not any(count % n == 0 for n in divisors)


def _compacts(names: set[str], limit: int) -> list[int]:
    """Return the numbers of the last two compacted entries until ``limit``, or as many as exist."""
    numbers = (number for name in names if (number := compacted_number(name)) is not None)
    return sorted(n for n in numbers if n <= limit)[-2:]
