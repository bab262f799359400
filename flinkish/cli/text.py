"""Plain text for terminals: times, sizes, aligned tables. Imports next to nothing, see entry.py."""

from __future__ import annotations

import time

from flinkish.units import size_text as size_text  # the commands take it from here

TYPE_CHECKING = False  # of this name, so that type checkers know it; typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Of every JSON document the command prints.
SCHEMA_VERSION = 1


def json_document(fields: Mapping[str, Any]) -> str:
    """A result as the one JSON document of a command."""
    import json

    return json.dumps({"schema_version": SCHEMA_VERSION, **fields}, indent=2, default=str)


def iso_time(seconds: float | None) -> str | None:
    """Seconds since the epoch as UTC ISO-8601 with milliseconds."""
    if seconds is None:
        return None
    whole = int(seconds // 1)
    millis = int((seconds - whole) * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{millis:03d}Z"


def local_time(seconds: float | None) -> str:
    """Seconds since the epoch in the user's time zone, for tables; ``-`` when unknown."""
    if seconds is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> list[str]:
    """Aligned columns two blanks apart.

    Parameters
    ----------
    right: indexes of the columns aligned to the right, as digits, such as ``"45"``.
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if str(i) in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
