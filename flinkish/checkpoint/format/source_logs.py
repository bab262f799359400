"""Names and positions in the log of a file source: ``sources/<i>/<n>`` and ``<n>.compact``.

Spark's ``FileStreamSourceLog`` and ``CompactibleFileStreamLog``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from flinkish.checkpoint.format.names import parse_number
from flinkish.checkpoint.format.text import parse_json

COMPACT_SUFFIX: Final = ".compact"


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


def compacted(name: str) -> int | None:
    """Return the number of a compacted entry, ``<n>.compact``; None for other files."""
    number = name.removesuffix(COMPACT_SUFFIX)
    return parse_number(number) if number != name else None


def source_log_entries(names: Iterable[str], limit: int) -> tuple[list[str], list[str]]:
    """Return the entries of a file source's log that make up position ``limit``.

    They start at the newest ``<n>.compact`` not above ``limit``. Later entries are left out,
    because a file named there counts as read.

    Returns
    -------
    tuple of list
        The entries that exist, and those that are missing.
    """
    known = set(names)
    compacts = [number for name in known if (number := compacted(name)) is not None]
    start = max((n for n in compacts if n <= limit), default=-1)
    present = [f"{start}{COMPACT_SUFFIX}"] if start >= 0 else []
    missing: list[str] = []
    for n in range(start + 1, limit + 1):
        (present if str(n) in known else missing).append(str(n))
        if len(missing) > len(known):  # a position that no log has: the rest is missing too
            break
    return present, missing
