"""The settings of a session on which the results of expressions depend, read from Spark's plans.

Facts used (Spark 3.5 to 4.3):

* The offset log pins none of these settings (``OffsetSeqMetadata.relevantSQLConfs`` has those of
  state stores and of the planner only): a restart takes the session's.
* The analyzer writes the time zone into the expressions that need one
  (``ResolveTimeZone``, ``TimeZoneAwareExpression.timeZoneId``), and whether they are ANSI's
  (``evalMode``, ``failOnError``). The value is that of the moment when the program made the
  DataFrame, not that of the query's start.
* ``window`` and ``session_window`` count from 1970 in UTC: they need no zone.
* Formatters and the readers of files look their settings up when the query runs, and so do
  Python functions, but for those that get rows (they show times in the zone of their process).
* An attribute keeps its ``exprId`` through a plan, so its definitions lead down to the sources.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.driver.log import log
from flinkish.driver.plan.looked_up_settings import (
    DECIDING,
    LookedUp,
    looked_up,
    parsing,
    writing,
)
from flinkish.driver.plan.plan_classes import class_name, find_class, items, scala_object
from flinkish.operators.state_semantics import (
    ANSI,
    CASE_SENSITIVE,
    TIME_PARSER,
    TIME_ZONE,
    Dependence,
)

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
#: Formats of files whose times are text, and those whose columns are found by their names.
_TEXT = frozenset({"csv", "json", "xml"})
_BY_NAME = frozenset({"avro", "orc", "parquet", "xml"})
#: Pattern letters that stand for a zone.
_ZONE_LETTERS = re.compile("[VzOXxZ]")
#: What an interval has that is not as long everywhere.
_CALENDAR = re.compile("year|month|day")
#: A moment in the text of a type; followed by a colon it is the name of a field.
_MOMENT = re.compile(r"\b(?:date|timestamp)\b(?!:)")
_QUOTED = re.compile(r"'[^']*'")
#: Expressions with a zone that never use it: zones are offsets of whole minutes.
_WITHOUT_ZONE = frozenset({"Second", "SecondWithFraction"})
#: Those that show a field of a time.
_FIELDS = frozenset({"Hour", "Minute"})
_BELOW_MINUTES = frozenset({"MICROSECOND", "MILLISECOND", "SECOND"})
_BELOW_DAYS = _BELOW_MINUTES | {"MINUTE", "HOUR"}
_DAY_US = 86_400_000_000
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double", "decimal")
#: What a text may not be convertible to.
_OF_TEXT = frozenset({*_NUMBERS, "boolean", "date", "timestamp", "timestamp_ntz"})
#: Arithmetic whose result may not fit its type.
_OVERFLOWS = frozenset({"Add", "Subtract", "Multiply", "UnaryMinus", "Abs"})
#: Arithmetic that fails on a zero in ANSI mode.
_DIVIDES = frozenset({"Divide", "IntegralDivide", "Pmod", "Remainder"})
#: Others that fail in ANSI mode where they are null otherwise.
_FAILS = frozenset(
    {
        *("Elt", "ElementAt", "GetArrayItem", "GetTimestamp", "MakeDate", "MakeTimestamp"),
        *("NextDay", "ToUnixTimestamp", "UnixTimestamp"),
    }
)
#: Expressions that read and write text, by its format.
_PARSERS = {"CsvToStructs": "csv", "JsonToStructs": "json", "XmlToStructs": "xml"}
_WRITERS = {"StructsToCsv": "csv", "StructsToJson": "json", "StructsToXml": "xml"}
#: What the optimizer's calls invoke in place of an expression that writes text.
_EVALUATORS = {f"{name}Evaluator": format for name, format in _WRITERS.items()}
#: Which moments of a value reach a result: none, dates alone, times too.
_NOTHING, _DATES, _ALL = range(3)
#: Python functions that get times as the session's zone shows them are all but those of rows.
_OF_ROWS = 100
#: Expressions that turn errors into nulls in any mode.
_TRIES = frozenset({"TryEval"})


@dataclass(frozen=True)
class ReadColumn:
    """A column of a file source.

    ``format`` is that of the files; ``options`` are those of its reader, by their names in lower
    case.
    """

    format: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class _Need:
    """A setting that one expression needs; ``certain`` as in Dependence."""

    setting: str
    value: str
    expression: str
    certain: bool


class DependenceReader:
    """Determines on which settings the expressions of one query depend.

    ``defined`` has the expressions that define an attribute, by its number, of every plan of the
    query; ``columns`` those of file sources, by the number of their attribute. ``setting`` returns
    the session's value of a setting, or None if this Spark does not know it; ``text`` an expression
    as the program wrote it.
    """

    def __init__(
        self,
        jvm: Any,
        defined: Mapping[int, Sequence[Any]],
        columns: Mapping[int, ReadColumn],
        setting: Callable[[str], str | None],
        text: Callable[[Any], str],
    ) -> None:
        self._defined = defined
        self._columns = columns
        self._setting = functools.cache(setting)  # each look-up is a call to the JVM
        self._text = text
        self._zoned = find_class(jvm, f"{_EXPRESSIONS}.TimeZoneAwareExpression")
        self._replaceable = find_class(jvm, f"{_EXPRESSIONS}.RuntimeReplaceable")
        self._formatting = find_class(jvm, f"{_EXPRESSIONS}.TimestampFormatterHelper")
        self._cast: Any = scala_object(find_class(jvm, f"{_EXPRESSIONS}.Cast$"))
        self._known: dict[tuple[int, int], tuple[_Need, ...]] = {}

    def of(self, part: str, expression: Any, *, finds: bool) -> Iterator[Dependence]:
        """Yield what an expression depends on, down to the columns of the sources.

        ``part`` names the part of the state that it gives, for messages. With ``finds`` state is
        looked up or dropped by it: it is a key, or the event time.
        """
        from py4j.protocol import Py4JError

        seen = set()
        try:
            needs = self._needs(expression, times=_ALL)
        except Py4JError as error:
            log(f"{part}: the settings that it depends on are not known: {error}")
            self._known.clear()  # what was being read then looks as if it needed nothing
            needs = tuple(self._every())
        for need in needs:
            if need.setting == CASE_SENSITIVE and not finds:
                continue
            certain = need.certain and (finds or need.setting != ANSI)
            if (need.setting, need.value, certain) not in seen:
                seen.add((need.setting, need.value, certain))
                yield Dependence(need.setting, need.value, part, need.expression, certain)

    def _every(self) -> Iterator[_Need]:
        """Yield every setting on which an unreadable part may depend."""
        for setting in DECIDING:
            value = self._setting(setting)
            if value is not None:
                yield _Need(setting, value.lower() if setting != TIME_ZONE else value, "", True)

    def always(self) -> Iterator[Dependence]:
        """Yield the settings by which the analyzer resolves names: the plan shows their effect."""
        value = self._setting(CASE_SENSITIVE)
        if value is not None:
            yield Dependence(CASE_SENSITIVE, value.lower(), certain=False)

    def _needs(self, expression: Any, *, times: int) -> tuple[_Need, ...]:
        """Return what an expression needs; ``times``: which moments in it reach the result."""
        name = class_name(expression)
        if name == "AttributeReference":
            return self._attribute(expression, times=times)
        if name == "GetStructField":
            return self._field(expression, times=times)
        if name in _TRIES:
            inner = self._all(items(expression.children()), times=times)
            return tuple(need for need in inner if need.setting != ANSI)
        replaced = self._replaceable is not None and self._replaceable.isInstance(expression)
        if replaced and name not in _WRITERS:  # what replaces these shows nothing of them
            own = self._looked_up(name, expression)
            inner = self._needs(expression.replacement(), times=times)
            return tuple(dict.fromkeys([*own, *inner]))
        children = items(expression.children())
        if name == "PreciseTimestampConversion" and _is_time(expression):
            # The arithmetic of a window is Spark's; its time is the program's.
            return self._all(_times_in(children), times=_ALL)
        if _shows_fields(name, expression) and _is_local(children[0]):
            # Made a time in the zone and shown in it again: the zone has no effect.
            inner = self._all([*items(children[0].children()), *children[1:]], times=_ALL)
            parser = [n for n in self._own(name, expression, times=times) if n.setting != TIME_ZONE]
            return tuple(dict.fromkeys([*parser, *inner]))
        below = self._all(children, times=_ALL)
        return tuple(dict.fromkeys([*self._own(name, expression, times=times), *below]))

    def _all(self, expressions: Iterable[Any], *, times: int) -> tuple[_Need, ...]:
        needs = [need for each in expressions for need in self._needs(each, times=times)]
        return tuple(dict.fromkeys(needs))

    def _attribute(self, attribute: Any, *, times: int) -> tuple[_Need, ...]:
        number = int(attribute.exprId().id())
        key = number, times
        if key not in self._known:
            self._known[key] = ()  # in case its definition contains it
            needs = self._all(self._defined.get(number, ()), times=times)
            column = self._columns.get(number)
            if column is not None and number not in self._defined:
                needs = tuple(self._read(column, attribute, times=times))
            self._known[key] = needs
        return self._known[key]

    def _field(self, expression: Any, *, times: int) -> tuple[_Need, ...]:
        """Return what a field of a struct depends on, without the other fields."""
        child, ordinal = expression.child(), int(expression.ordinal())
        times = min(times, _moments(expression))
        made = [child]
        if class_name(child) == "AttributeReference":
            made = list(self._defined.get(int(child.exprId().id()), ())) or [child]
        found: list[_Need] = []
        for each in made:
            if class_name(each) == "CreateNamedStruct":
                found += self._needs(each.valExprs().apply(ordinal), times=times)
            else:
                found += self._needs(each, times=times)
        return tuple(dict.fromkeys(found))

    def _read(self, column: ReadColumn, attribute: Any, *, times: int) -> Iterator[_Need]:
        shown = f"the column {attribute.name()} of {column.format} files"
        moments = min(times, _moments(attribute))
        if column.format in _TEXT and moments == _ALL:
            certain = _certain_of(column.options)
            zone = self._setting(TIME_ZONE)
            if certain is not None and zone is not None:
                yield _Need(TIME_ZONE, zone, shown, certain)
        if column.format in _TEXT:
            found = parsing(
                column.format, column.options, self._setting, moments=moments != _NOTHING
            )
            yield from _shown(found, shown)
        case = self._setting(CASE_SENSITIVE)
        if column.format in _BY_NAME and case is not None:
            yield _Need(CASE_SENSITIVE, case.lower(), shown, certain=False)

    def _own(self, name: str, expression: Any, *, times: int) -> Iterator[_Need]:
        """Yield what an expression needs besides its children."""
        if name == "CurrentTimeZone":
            yield from self._session(TIME_ZONE, expression)
        elif self._zoned is not None and self._zoned.isInstance(expression):
            certain = self._needs_zone(name, expression, times=times)
            zone = expression.timeZoneId()
            if certain is not None and zone.isDefined():
                yield _Need(TIME_ZONE, str(zone.get()), self._text(expression), certain)
        formats = self._formatting is not None and self._formatting.isInstance(expression)
        if formats and _parses(name, expression):
            yield from self._session(TIME_PARSER, expression)
        mode = _ansi(name, expression)
        if mode is not None:
            yield _Need(ANSI, mode, self._text(expression), certain=True)
        yield from self._looked_up(name, expression)
        if name in _PARSERS:
            moments = min(times, _moments(expression)) != _NOTHING
            settings = parsing(_PARSERS[name], _options(expression), self._setting, moments=moments)
            yield from _shown(settings, self._text(expression))
        elif name in _WRITERS:
            written = expression.child().dataType()
            yield from self._written(_WRITERS[name], expression, expression, written)
        elif name == "Invoke":
            yield from self._called(expression)
        elif name == "PythonUDF" and int(expression.evalType()) != _OF_ROWS:
            times_passed = map(_has_times, [expression, *items(expression.children())])
            yield from self._session(TIME_ZONE, expression) if any(times_passed) else ()

    def _called(self, call: Any) -> Iterator[_Need]:
        """Yield the dependences of a call that the optimizer substituted for ``to_json`` ..."""
        evaluator = _evaluator(call)
        if evaluator is None:
            return
        format = _EVALUATORS[str(evaluator.getClass().getSimpleName())]
        written = evaluator.inputSchema()
        yield from self._written(format, call, evaluator, written)
        zone = evaluator.timeZoneId()
        if _shows_zone(written, evaluator) and zone.isDefined():
            yield _Need(TIME_ZONE, str(zone.get()), self._text(call), certain=True)

    def _written(self, format: str, expression: Any, holder: Any, written: Any) -> Iterator[_Need]:
        """Yield what an expression needs that writes text, with the options of ``holder``."""
        settings = writing(
            format,
            _options(holder),
            self._setting,
            nulls='"nullable":true' in str(written.json()),
            moments=bool(_moments_of(written)),
            binary=re.search(r"\bbinary\b(?!:)", str(written.catalogString())) is not None,
        )
        yield from _shown(settings, self._text(expression))

    def _looked_up(self, name: str, expression: Any) -> Iterator[_Need]:
        settings = list(looked_up(name, expression, self._setting))
        if settings:
            yield from _shown(settings, self._text(expression))

    def _session(self, setting: str, expression: Any) -> Iterator[_Need]:
        value = self._setting(setting)
        if value is not None:
            yield _Need(setting, value, self._text(expression), certain=True)

    def _needs_zone(self, name: str, expression: Any, *, times: int) -> bool | None:
        """Return whether the result depends on the zone: for certain, perhaps, or not (None)."""
        if name == "Cast":
            before, after = expression.child().dataType(), expression.dataType()
            if "date" in (before.simpleString(), after.simpleString()) and _is_text(before, after):
                return None  # dates name no time of day
            return True if self._cast.needsTimeZone(before, after) else None
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
            read = times == _ALL and _has_times(expression)
            return _certain_of(_options(expression)) if read else None
        if name in _WRITERS:
            return True if _shows_zone(expression.child().dataType(), expression) else None
        if name == "ToPrettyString":
            return True if _has_times(expression.child()) else None
        if name in ("Sequence", "CurrentBatchTimestamp"):
            whole = str(expression.dataType().simpleString())
            return True if whole in ("date", "array<timestamp>") else None
        return True


def read_columns(node: Any, name: str) -> ReadColumn | None:
    """Return how a leaf of a plan reads its columns; None if it is not a file source."""
    if name != "StreamingRelation":
        return None
    source = node.dataSource()
    return ReadColumn(str(source.className()).lower(), _options(source))


def _options(holder: Any) -> dict[str, str]:
    """Return the options of a reader, by their names in lower case."""
    options: dict[str, str] = {}
    iterator = holder.options().iterator()
    while iterator.hasNext():
        pair = iterator.next()
        options[str(pair._1()).lower()] = str(pair._2())
    return options


def _certain_of(options: Mapping[str, str]) -> bool | None:
    """Return whether times in text depend on the session's zone, by a reader's options. Pure."""
    if "timezone" in options:
        return None
    pattern = options.get("timestampformat")
    if pattern is None:
        return False  # only the texts tell whether they name their zone
    return None if names_zone(pattern) else True


def names_zone(pattern: str) -> bool:
    """Return whether a pattern of a time has a zone. Pure."""
    return _ZONE_LETTERS.search(_QUOTED.sub("", pattern)) is not None


def _parsing(expression: Any, pattern: Any) -> bool | None:
    """Return whether a time that is read from text depends on the zone."""
    kind = str(expression.children().apply(0).dataType().simpleString())
    if kind.startswith("timestamp"):
        return None if kind == "timestamp" else True
    if kind == "string":
        text = _constant(pattern)
        return None if text is not None and names_zone(text) else True
    return True


def _parses(name: str, expression: Any) -> bool:
    """Return whether an expression uses its formatter, which only text needs."""
    if name not in ("ToUnixTimestamp", "UnixTimestamp"):
        return True
    return str(expression.children().apply(0).dataType().simpleString()) == "string"


def _adding(interval: Any) -> bool | None:
    """Return whether a time and a constant interval need the zone: days do, for summer time."""
    value = interval.eval(None) if bool(interval.foldable()) else None
    if value is None:
        return None
    if isinstance(value, int):
        return None if abs(value) < _DAY_US else True
    return True if _CALENDAR.search(str(value.toString())) else None


def _ansi(name: str, expression: Any) -> str | None:
    """Return ``true`` or ``false`` if the result depends on the ANSI mode, else None."""
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
        return None if safe else _mode(expression)
    return _flag(expression) if name in _FAILS and _parses(name, expression) else None


def _mode(expression: Any) -> str | None:
    word = str(expression.evalMode().toString())
    return {"ANSI": "true", "LEGACY": "false"}.get(word)


def _flag(expression: Any) -> str:
    return str(bool(expression.failOnError())).lower()


def may_fail(before: str, after: str) -> bool:
    """Return whether a cast between types (Spark's names) may fail in ANSI mode. Pure."""
    if before == after or after in ("string", "binary"):
        return False
    if before == "string":
        return after.partition("(")[0] in _OF_TEXT
    if before == "timestamp":
        return after in _WHOLE and after != "bigint"
    if before.partition("(")[0] not in _NUMBERS:
        return False
    if after.startswith("decimal"):
        return True
    if after not in _WHOLE:
        return False
    return before not in _WHOLE or _WHOLE.index(before) > _WHOLE.index(after)


def _is_time(expression: Any) -> bool:
    return str(expression.dataType().simpleString()).startswith("timestamp")


def _times_in(expressions: Iterable[Any]) -> Iterator[Any]:
    """Yield the times in Spark's arithmetic of windows, which has each of them several times."""
    seen: set[str] = set()
    stack = list(expressions)[::-1]
    while stack:
        each = stack.pop()
        text = str(each.toString())
        if text in seen:
            continue
        seen.add(text)
        children = items(each.children())
        if class_name(each) == "PreciseTimestampConversion" and not _is_time(each):
            yield from children
        else:
            stack += reversed(children)


def _shows_fields(name: str, expression: Any) -> bool:
    """Return whether an expression's result depends on a time's fields in the time zone."""
    if name == "Cast":
        return str(expression.dataType().simpleString()) in ("string", "date")
    return name in _FIELDS or name == "DateFormatClass"


def _is_local(expression: Any) -> bool:
    """Return whether an expression makes a time of a date or of a time without a zone."""
    made = class_name(expression) == "Cast" and _is_local_type(expression.child())
    return made and str(expression.dataType().simpleString()) == "timestamp"


def _is_local_type(expression: Any) -> bool:
    return str(expression.dataType().simpleString()) in ("date", "timestamp_ntz")


def _has_times(expression: Any) -> bool:
    return "timestamp" in _moments_of(expression.dataType())


def _moments(expression: Any) -> int:
    """Return which moments a value has that the session's settings show or read."""
    found = _moments_of(expression.dataType())
    return _ALL if "timestamp" in found else _DATES if found else _NOTHING


def _moments_of(type_: Any) -> frozenset[str]:
    """Return which of ``date`` and ``timestamp`` a type contains."""
    return moments_in(str(type_.catalogString()))


def moments_in(type_: str) -> frozenset[str]:
    """Return which of ``date`` and ``timestamp`` a type has, by its text. Pure."""
    return frozenset(_MOMENT.findall(type_))


def _shows_zone(written: Any, holder: Any) -> bool:
    """Return whether text that is written has times in the session's zone."""
    return "timestamp" in _moments_of(written) and "timezone" not in _options(holder)


def _evaluator(call: Any) -> Any | None:
    """Return the writer of text that an optimized call invokes; None for another call."""
    target = call.targetObject()
    value = target.value() if target.getClass().getSimpleName() == "Literal" else None
    if value is None or not hasattr(value, "getClass"):
        return None
    return value if value.getClass().getSimpleName() in _EVALUATORS else None


def _shown(found: Iterable[LookedUp], text: str) -> Iterator[_Need]:
    for each in found:
        yield _Need(each.setting, each.value, text, each.certain)


def _is_text(*types: Any) -> bool:
    return any(str(each.simpleString()) == "string" for each in types)


def _constant(expression: Any) -> str | None:
    """Return the value of a constant text, else None."""
    if not bool(expression.foldable()):
        return None
    value = expression.eval(None)
    return None if value is None else str(value)
