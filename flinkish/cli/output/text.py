"""Plain text for terminals: times, sizes, aligned tables. It imports very little, see entry.py."""

from __future__ import annotations

import time

# The commands import these names from here.
from flinkish.units import counted as counted
from flinkish.units import size_text as size_text
from flinkish.units import table as table
from flinkish.units import visible as visible
from flinkish.units import visible_lines as visible_lines

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Version in every JSON document that the command prints.
SCHEMA_VERSION = 1


def json_document(fields: Mapping[str, Any]) -> str:
    """Return a result as the one JSON document of a command."""
    import json

    return json.dumps({"schema_version": SCHEMA_VERSION, **fields}, indent=2, default=str)


def iso_time(seconds: float | None) -> str | None:
    """Return seconds since the epoch as UTC ISO-8601 with milliseconds."""
    if seconds is None:
        return None
    whole = int(seconds // 1)
    millis = int((seconds - whole) * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{millis:03d}Z"


def local_time(seconds: float | None) -> str:
    """Return seconds since the epoch in the user's time zone, for tables; ``-`` when unknown."""
    if seconds is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
