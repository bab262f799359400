"""The settings that the analyzer writes into expressions: time zone and ANSI mode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flinkish.driver.plan.plan_classes import class_name, items

#: Pattern letters that stand for a zone.
_ZONE_LETTERS = re.compile("[VzOXxZ]")
#: Units of an interval whose length varies.
_CALENDAR = re.compile("year|month|day")
#: A date or timestamp in the text of a type. Before a colon, the word is the name of a field.
_MOMENT = re.compile(r"\b(?:date|timestamp)\b(?!:)")
_QUOTED = re.compile(r"'[^']*'")
#: Expressions whose zone has an effect only if its offset has seconds (in no region after 1972).
_WITHOUT_ZONE = frozenset({"Second", "SecondWithFraction"})
#: Expressions that return a field of a timestamp.
_FIELDS = frozenset({"Hour", "Minute"})
_BELOW_MINUTES = frozenset({"MICROSECOND", "MILLISECOND", "SECOND"})
_BELOW_DAYS = _BELOW_MINUTES | {"MINUTE", "HOUR"}
_DAY_US = 86_400_000_000
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double", "decimal")
#: Types to which a cast from a string may fail.
_OF_TEXT = frozenset({*_NUMBERS, "boolean", "date", "time", "timestamp", "timestamp_ntz"})
#: The name of a field in the text of a type, and the text between two types.
_FIELD = re.compile("[^<>,:]+:")
_BETWEEN_TYPES = re.compile(r"[<>]+|,(?!\d+\))")
#: Arithmetic that may overflow its type.
_OVERFLOWS = frozenset({"Add", "Subtract", "Multiply", "UnaryMinus", "Abs"})
#: Arithmetic that fails on a zero in ANSI mode.
_DIVIDES = frozenset({"Divide", "IntegralDivide", "Pmod", "Remainder"})
#: Other expressions that fail in ANSI mode where they return null otherwise.
_FAILS = frozenset(
    {
        *("Elt", "ElementAt", "GetArrayItem", "GetTimestamp", "MakeDate", "MakeTimestamp"),
        *("NextDay", "ToUnixTimestamp", "UnixTimestamp"),
    }
)
WRITERS = {"StructsToCsv": "csv", "StructsToJson": "json", "StructsToXml": "xml"}
#: Which dates and timestamps of a value reach a result: none, dates alone, timestamps too.
NOTHING, DATES, ALL = range(3)


def needs_zone(name: str, expression: Any, cast: Any, *, times: int) -> bool | None:
    """Return True if the result depends on the zone, False if it may, None if it does not.

    ``cast`` is Spark's object ``Cast``. ``times`` (``NOTHING``, ``DATES`` or ``ALL``) says which
    dates and timestamps of a value reach the result.
    """
    if name == "Cast":
        before, after = expression.child().dataType(), expression.dataType()
        if "date" in (before.simpleString(), after.simpleString()) and _is_text(before, after):
            return None  # dates name no time of day
        return True if cast.needsTimeZone(before, after) else None
    if name in _WITHOUT_ZONE or (name in _FIELDS and _is_local_type(expression.child())):
        return None
    if name == "TruncTimestamp":
        unit = _constant(expression.format())
        return None if unit is not None and unit.upper() in _BELOW_MINUTES else True
    if name in ("ToUnixTimestamp", "UnixTimestamp"):
        return _parsing(expression, expression.children().apply(1))
    if name == "GetTimestamp":
        return _parsing(expression, expression.right())
    if name in ("TimeAdd", "TimestampAddInterval"):
        return _adding(expression.children().apply(1))
    if name == "TimestampAdd":
        return None if str(expression.unit()).upper() in _BELOW_DAYS else True
    if name == "MakeTimestamp":
        return None if expression.timezone().isDefined() else True
    if name in ("JsonToStructs", "CsvToStructs", "XmlToStructs"):
        read = times == ALL and has_times(expression)
        return certain_of(options_of(expression)) if read else None
    if name in WRITERS:
        return True if shows_zone(expression.child().dataType(), expression) else None
    if name == "ToPrettyString":
        return True if has_times(expression.child()) else None
    if name in ("Sequence", "CurrentBatchTimestamp"):
        whole = str(expression.dataType().simpleString())
        return True if whole in ("date", "array<timestamp>") else None
    return True


def options_of(holder: Any) -> dict[str, str]:
    """Return the options of a reader or writer of text, by their names in lower case."""
    options: dict[str, str] = {}
    iterator = holder.options().iterator()
    while iterator.hasNext():
        pair = iterator.next()
        options[str(pair._1()).lower()] = str(pair._2())
    return options


def certain_of(options: Mapping[str, str]) -> bool | None:
    """Return the result of :func:`needs_zone` for timestamps in text, by reader options. Pure."""
    if "timezone" in options:
        return None
    pattern = options.get("timestampformat")
    if pattern is None:
        return False  # it depends on whether the texts name their zone
    return None if names_zone(pattern) else True


def names_zone(pattern: str) -> bool:
    """Return whether the pattern of a timestamp includes a zone. Pure."""
    return _ZONE_LETTERS.search(_QUOTED.sub("", pattern)) is not None


def _parsing(expression: Any, pattern: Any) -> bool | None:
    """Return the result of :func:`needs_zone` for an expression that parses a timestamp."""
    kind = str(expression.children().apply(0).dataType().simpleString())
    if kind.startswith("timestamp"):
        return None if kind == "timestamp" else True
    if is_string(kind):
        text = _constant(pattern)
        return None if text is not None and names_zone(text) else True
    return True


def parses(name: str, expression: Any) -> bool:
    """Return False if a ToUnixTimestamp or UnixTimestamp has no text for its formatter to parse."""
    if name not in ("ToUnixTimestamp", "UnixTimestamp"):
        return True
    return _is_text(expression.children().apply(0).dataType())


def _adding(interval: Any) -> bool | None:
    """Return the result of :func:`needs_zone` for the addition of an interval to a timestamp."""
    # Days and longer units depend on the zone, because of summer time.
    if not bool(interval.foldable()):
        return False
    value = interval.eval(None)
    if value is None:
        return None
    if isinstance(value, int):
        return None if abs(value) < _DAY_US else True
    return True if _CALENDAR.search(str(value.toString())) else None


def ansi_mode(name: str, expression: Any) -> str | None:
    """Return the ANSI mode (``true``, ``false``) if the result depends on it, else None."""
    if name == "Cast":
        before = str(expression.child().dataType().simpleString())
        if not may_fail(before, str(expression.dataType().simpleString())):
            return None
        return _mode(expression)
    if name in _OVERFLOWS:
        kind = str(expression.dataType().simpleString())
        if not kind.startswith((*_WHOLE, "decimal", "interval")):
            return None
        return _mode(expression) if name not in ("UnaryMinus", "Abs") else _flag(expression)
    if name in _DIVIDES:
        divisor = expression.children().apply(1)
        value = divisor.eval(None) if bool(divisor.foldable()) else None
        safe = value is not None and str(value).strip("0.") not in ("", "-1", "-")
        if name == "Divide" and str(expression.dataType().simpleString()).startswith("decimal(38"):
            safe = False  # a type that needed more than 38 digits may overflow
        return None if safe else _mode(expression)
    return _flag(expression) if name in _FAILS and parses(name, expression) else None


def _mode(expression: Any) -> str | None:
    word = str(expression.evalMode().toString())
    return {"ANSI": "true", "LEGACY": "false"}.get(word)


def _flag(expression: Any) -> str:
    return str(bool(expression.failOnError())).lower()


def may_fail(before: str, after: str) -> bool:
    """Return whether a cast between types (Spark's names) may fail in ANSI mode. Pure."""
    if before == after or after == "binary" or is_string(after):
        return False
    if "<" in before:
        old, new = (_BETWEEN_TYPES.split(_FIELD.sub("", each)) for each in (before, after))
        return len(old) != len(new) or any(map(may_fail, old, new))
    if is_string(before):
        return after.partition("(")[0] in _OF_TEXT
    if before.partition("(")[0] not in (*_NUMBERS, "timestamp"):
        return False
    if after.startswith("decimal"):
        return True
    if before == "timestamp":
        return after in _WHOLE and after != "bigint"
    if after not in _WHOLE:
        return after == "timestamp" and before in ("float", "double")
    return before not in _WHOLE or _WHOLE.index(before) > _WHOLE.index(after)


def is_string(type_: str) -> bool:
    """Return whether a type is text, even with a collation: ``string collate UTF8_LCASE``. Pure."""
    return type_.split(" ")[0] == "string"


def is_time(expression: Any) -> bool:
    return str(expression.dataType().simpleString()).startswith("timestamp")


def times_in(expressions: Iterable[Any]) -> Iterator[Any]:
    """Yield once each timestamp in Spark's window arithmetic, which repeats its timestamps."""
    seen: set[str] = set()
    stack = list(expressions)[::-1]
    while stack:
        each = stack.pop()
        text = str(each.toString())
        if text in seen:
            continue
        seen.add(text)
        children = items(each.children())
        if class_name(each) == "PreciseTimestampConversion" and not is_time(each):
            yield from children
        else:
            stack += reversed(children)


def shows_fields(name: str, expression: Any) -> bool:
    """Return whether a result depends on the fields that a timestamp has in the time zone."""
    if name == "Cast":
        return str(expression.dataType().simpleString()) in ("string", "date")
    return name in _FIELDS or name == "DateFormatClass"


def is_local(expression: Any) -> bool:
    """Return whether an expression casts a date or a ``timestamp_ntz`` to a timestamp."""
    is_cast = class_name(expression) == "Cast" and _is_local_type(expression.child())
    return is_cast and str(expression.dataType().simpleString()) == "timestamp"


def _is_local_type(expression: Any) -> bool:
    return str(expression.dataType().simpleString()) in ("date", "timestamp_ntz")


def has_times(expression: Any) -> bool:
    return "timestamp" in moments_of(expression.dataType())


def moments(expression: Any) -> int:
    """Return ``ALL`` if a value contains timestamps, ``DATES`` if only dates, else ``NOTHING``."""
    kinds = moments_of(expression.dataType())
    return ALL if "timestamp" in kinds else DATES if kinds else NOTHING


def moments_of(type_: Any) -> frozenset[str]:
    """Return which of ``date`` and ``timestamp`` a type contains."""
    return moments_in(str(type_.catalogString()))


def moments_in(type_: str) -> frozenset[str]:
    """Return which of ``date`` and ``timestamp`` the text of a type contains. Pure."""
    return frozenset(_MOMENT.findall(type_))


def shows_zone(written: Any, holder: Any) -> bool:
    """Return whether the text of a written value has timestamps in the session's zone."""
    return "timestamp" in moments_of(written) and "timezone" not in options_of(holder)


def _is_text(*types: Any) -> bool:
    return any(is_string(str(each.simpleString())) for each in types)


def _constant(expression: Any) -> str | None:
    """Return the text of a constant; None for another expression or a null."""
    if not bool(expression.foldable()):
        return None
    value = expression.eval(None)
    return None if value is None else str(value)
