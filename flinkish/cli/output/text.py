"""Plain text for terminals: times, widths, folded lines, schemas; and JSON documents.

This module imports very little, see entry.py.
"""

from __future__ import annotations

import os
import time

from flinkish.units import visible, width_of

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TextIO

#: Version in every JSON document that the command prints.
SCHEMA_VERSION = 1


def json_document(fields: Mapping[str, Any]) -> str:
    """Return a result as the one JSON document of a command."""
    import json

    return json.dumps({"schema_version": SCHEMA_VERSION, **fields}, indent=2, default=str)


def iso_time(seconds: float) -> str:
    """Return seconds since the epoch as UTC ISO-8601 with milliseconds."""
    whole, millis = divmod(round(seconds * 1000), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{millis:03d}Z"


def known_time(seconds: float | None) -> str | None:
    """Return a moment as :func:`iso_time` does; None if it is not known."""
    return None if seconds is None else iso_time(seconds)


def local_time(seconds: float | None) -> str:
    """Return seconds since the epoch in the user's time zone, for tables; ``-`` when unknown."""
    if seconds is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def utc_time(seconds: float | None) -> str:
    """Return seconds since the epoch as :func:`local_time` does, but in UTC."""
    if seconds is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def without_commands(text: str) -> str:
    """Return lines for stderr changed so that GitHub's runner, which reads them, finds no command.

    A command is ``::name::`` at a line's beginning, even after blanks, or ``##[name]`` anywhere.
    """
    if "::" not in text and "##[" not in text:
        return text
    import re  # rarely needed: ``list`` loads this module

    lines = re.sub(r"((?:\A|[\r\n])[^\S\r\n]*):(?=:)", r"\1\\x3a", text)
    return lines.replace("##[", "##\\x5b")


#: Terminals with fewer columns get times without year and seconds.
_WIDE = 100


def table_time(seconds: float | None, width: int | None) -> str:
    """Return a time as :func:`local_time`; on a narrow terminal without the year and seconds."""
    return fitting_time(local_time(seconds), width)


def fitting_time(text: str, width: int | None) -> str:
    """Return a time of a table; on a narrow terminal without the year and seconds."""
    return text if width is None or width >= _WIDE else text[5:16] or text


def terminal_width(stream: TextIO) -> int | None:
    """Return the columns of the terminal that ``stream`` writes to; None if they are unknown.

    As in other programs, ``COLUMNS`` comes first. A stream that is no terminal has no width.
    """
    return _terminal_size(stream, "COLUMNS", 0)


def terminal_height(stream: TextIO) -> int | None:
    """Return the lines of the terminal that ``stream`` writes to; None if they are unknown."""
    return _terminal_size(stream, "LINES", 1)


def _terminal_size(stream: TextIO, variable: str, index: int) -> int | None:
    if not stream.isatty():
        return None
    named = os.environ.get(variable, "")
    if named.isascii() and named.isdigit() and int(named):
        return int(named)
    try:
        return os.get_terminal_size(stream.fileno())[index] or None
    except (OSError, ValueError):
        return None


def folded(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return a sentence as lines of at most ``width`` columns, all but the first with ``indent``.

    Unprintable characters are escaped. Words that are longer than a line stay whole. On a very
    narrow terminal a line has up to 20 columns besides ``indent``.
    """
    whole = visible(text)
    if width is None or width_of(whole) <= width:
        return [whole]
    most = max(width, len(indent) + 20)
    first, *words = whole.lstrip(" ").split(" ")
    lines, line = [], whole[: len(whole) - len(whole.lstrip(" "))] + first
    for word in words:  # not by textwrap, which counts characters
        if word and width_of(line) + 1 + width_of(word) > most:
            lines.append(line.rstrip(" "))
            line = indent + word
        else:
            line += f" {word}"
    return [*lines, line.rstrip(" ")]


def columns_text(schema: Mapping[str, Any] | None) -> str:
    """Return the columns of a schema in Spark's JSON as ``k int, ts timestamp``."""
    fields = (schema or {}).get("fields", ())
    return ", ".join(f"{field['name']} {_type_text(field['type'])}" for field in fields)


def _type_text(type_: Any) -> str:
    if not isinstance(type_, dict):
        return str(type_)
    kind = type_.get("type")
    if kind == "struct":
        return f"struct<{columns_text(type_)}>"
    if kind == "array":
        return f"array<{_type_text(type_['elementType'])}>"
    if kind == "map":
        return f"map<{_type_text(type_['keyType'])}, {_type_text(type_['valueType'])}>"
    return str(kind)
