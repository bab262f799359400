"""The settings of a session on which the results of expressions depend, read from Spark's plans.

Facts used (Spark 3.5 to 4.3):

* The offset log pins none of these settings (``OffsetSeqMetadata.relevantSQLConfs`` has only those
  of state stores and of the planner), so a restart takes the session's values.
* Into the expressions that need them, the analyzer writes the time zone
  (``ResolveTimeZone``, ``TimeZoneAwareExpression.timeZoneId``) and the ANSI mode
  (``evalMode``, ``failOnError``). These are the values at the moment when the program made the
  DataFrame, not at the query's start.
* ``window`` and ``session_window`` count from 1970 in UTC, so they need no zone.
* Formatters and the readers of files look their settings up when the query runs. So do Python
  functions, except that functions on rows show timestamps in the zone of their process.
* An attribute keeps its ``exprId`` through a plan, so its definitions lead down to the sources.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.driver.log import log
from flinkish.driver.plan.analyzed_settings import (
    ALL,
    NOTHING,
    WRITERS,
    ansi_mode,
    certain_of,
    has_times,
    is_local,
    is_time,
    moments,
    moments_of,
    needs_zone,
    options_of,
    parses,
    shows_fields,
    shows_zone,
    times_in,
)
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
#: Formats of files with timestamps as text, and formats whose columns Spark finds by name.
_TEXT = frozenset({"csv", "json", "xml"})
_BY_NAME = frozenset({"avro", "orc", "parquet", "xml"})
#: Expressions that parse text, with the format of the text.
_PARSERS = {"CsvToStructs": "csv", "JsonToStructs": "json", "XmlToStructs": "xml"}
#: Classes that are called where the optimizer has replaced one of the ``WRITERS`` of text.
_EVALUATORS = {f"{name}Evaluator": format for name, format in WRITERS.items()}
#: ``evalType`` of Python functions on rows; all others get timestamps in the session's zone.
_OF_ROWS = 100
#: Expressions that turn errors into nulls in any mode.
_TRIES = frozenset({"TryEval"})


@dataclass(frozen=True)
class ReadColumn:
    """A column of a file source.

    ``format`` is that of the files. ``options`` are the reader's, by their names in lower case.
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

    ``defined`` has the expressions that define each attribute in any plan of the query, by the
    number of the attribute. ``columns`` has the columns of file sources, also by that number.
    ``setting`` returns the session's value of a setting, or None if this Spark does not know the
    setting. ``text`` returns an expression as the program wrote it.
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

        ``part`` names, for messages, the part of the state that the expression defines. ``finds``
        says that the part is a key or the event time, by which Spark looks up or drops state.
        """
        from py4j.protocol import Py4JError

        seen = set()
        try:
            needs = self._needs(expression, times=ALL)
        except Py4JError as error:
            log(f"{part}: the settings that it depends on are not known: {error}")
            self._known.clear()  # unfinished attributes look as if they needed nothing
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
        """Yield the setting by which the analyzer resolves names; the plan shows its effect."""
        value = self._setting(CASE_SENSITIVE)
        if value is not None:
            yield Dependence(CASE_SENSITIVE, value.lower(), certain=False)

    def _needs(self, expression: Any, *, times: int) -> tuple[_Need, ...]:
        """Return what an expression needs; for ``times`` see :func:`needs_zone`."""
        name = class_name(expression)
        if name == "AttributeReference":
            return self._attribute(expression, times=times)
        if name == "GetStructField":
            return self._field(expression, times=times)
        if name in _TRIES:
            inner = self._all(items(expression.children()), times=times)
            return tuple(need for need in inner if need.setting != ANSI)
        replaced = self._replaceable is not None and self._replaceable.isInstance(expression)
        if replaced and name not in WRITERS:  # a writer's replacement hides some needs
            own = self._looked_up(name, expression)
            inner = self._needs(expression.replacement(), times=times)
            return tuple(dict.fromkeys([*own, *inner]))
        children = items(expression.children())
        if name == "PreciseTimestampConversion" and is_time(expression):
            # Only the timestamp of a window is the program's; the arithmetic is Spark's.
            return self._all(times_in(children), times=ALL)
        if shows_fields(name, expression) and is_local(children[0]):
            # The value is converted to a timestamp in the zone and back, so the zone has no effect.
            inner = self._all([*items(children[0].children()), *children[1:]], times=ALL)
            parser = [n for n in self._own(name, expression, times=times) if n.setting != TIME_ZONE]
            return tuple(dict.fromkeys([*parser, *inner]))
        below = self._all(children, times=ALL)
        return tuple(dict.fromkeys([*self._own(name, expression, times=times), *below]))

    def _all(self, expressions: Iterable[Any], *, times: int) -> tuple[_Need, ...]:
        needs = [need for each in expressions for need in self._needs(each, times=times)]
        return tuple(dict.fromkeys(needs))

    def _attribute(self, attribute: Any, *, times: int) -> tuple[_Need, ...]:
        number = int(attribute.exprId().id())
        key = number, times
        if key not in self._known:
            self._known[key] = ()  # in case the attribute's definition contains the attribute
            needs = self._all(self._defined.get(number, ()), times=times)
            column = self._columns.get(number)
            if column is not None and number not in self._defined:
                needs = tuple(self._read(column, attribute, times=times))
            self._known[key] = needs
        return self._known[key]

    def _field(self, expression: Any, *, times: int) -> tuple[_Need, ...]:
        """Return what a field of a struct depends on, without the other fields."""
        child, ordinal = expression.child(), int(expression.ordinal())
        times = min(times, moments(expression))
        definitions = [child]
        if class_name(child) == "AttributeReference":
            definitions = list(self._defined.get(int(child.exprId().id()), ())) or [child]
        needs: list[_Need] = []
        for each in definitions:
            if class_name(each) == "CreateNamedStruct":
                needs += self._needs(each.valExprs().apply(ordinal), times=times)
            else:
                needs += self._needs(each, times=times)
        return tuple(dict.fromkeys(needs))

    def _read(self, column: ReadColumn, attribute: Any, *, times: int) -> Iterator[_Need]:
        column_name = f"the column {attribute.name()} of {column.format} files"
        reached = min(times, moments(attribute))
        if column.format in _TEXT and reached == ALL:
            certain = certain_of(column.options)
            zone = self._setting(TIME_ZONE)
            if certain is not None and zone is not None:
                yield _Need(TIME_ZONE, zone, column_name, certain)
        if column.format in _TEXT:
            settings = parsing(
                column.format, column.options, self._setting, moments=reached != NOTHING
            )
            yield from _shown(settings, column_name)
        case = self._setting(CASE_SENSITIVE)
        if column.format in _BY_NAME and case is not None:
            yield _Need(CASE_SENSITIVE, case.lower(), column_name, certain=False)

    def _own(self, name: str, expression: Any, *, times: int) -> Iterator[_Need]:
        """Yield what an expression needs besides its children."""
        if name == "CurrentTimeZone":
            yield from self._session(TIME_ZONE, expression)
        elif self._zoned is not None and self._zoned.isInstance(expression):
            certain = needs_zone(name, expression, self._cast, times=times)
            zone = expression.timeZoneId()
            if certain is not None and zone.isDefined():
                yield _Need(TIME_ZONE, str(zone.get()), self._text(expression), certain)
        formats = self._formatting is not None and self._formatting.isInstance(expression)
        if formats and parses(name, expression):
            yield from self._session(TIME_PARSER, expression)
        mode = ansi_mode(name, expression)
        if mode is not None:
            yield _Need(ANSI, mode, self._text(expression), certain=True)
        yield from self._looked_up(name, expression)
        if name in _PARSERS:
            reached = min(times, moments(expression)) != NOTHING
            settings = parsing(
                _PARSERS[name], options_of(expression), self._setting, moments=reached
            )
            yield from _shown(settings, self._text(expression))
        elif name in WRITERS:
            written = expression.child().dataType()
            yield from self._written(WRITERS[name], expression, expression, written)
        elif name == "Invoke":
            yield from self._called(expression)
        elif name == "PythonUDF" and int(expression.evalType()) != _OF_ROWS:
            times_passed = map(has_times, [expression, *items(expression.children())])
            yield from self._session(TIME_ZONE, expression) if any(times_passed) else ()

    def _called(self, call: Any) -> Iterator[_Need]:
        """Yield what a call needs that replaces ``to_json`` or the like in the optimized plan."""
        evaluator = _evaluator(call)
        if evaluator is None:
            return
        format = _EVALUATORS[str(evaluator.getClass().getSimpleName())]
        written = evaluator.inputSchema()
        yield from self._written(format, call, evaluator, written)
        zone = evaluator.timeZoneId()
        if shows_zone(written, evaluator) and zone.isDefined():
            yield _Need(TIME_ZONE, str(zone.get()), self._text(call), certain=True)

    def _written(self, format: str, expression: Any, holder: Any, written: Any) -> Iterator[_Need]:
        """Yield what a text-writing expression needs, with the options of ``holder``."""
        settings = writing(
            format,
            options_of(holder),
            self._setting,
            nulls='"nullable":true' in str(written.json()),
            moments=bool(moments_of(written)),
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


def read_columns(node: Any, name: str) -> ReadColumn | None:
    """Return how a leaf of a plan reads its columns; None if the leaf is not a file source."""
    if name != "StreamingRelation":
        return None
    source = node.dataSource()
    return ReadColumn(str(source.className()).lower(), options_of(source))


def _evaluator(call: Any) -> Any | None:
    """Return the object that writes text for an optimized call; None for another call."""
    target = call.targetObject()
    value = target.value() if target.getClass().getSimpleName() == "Literal" else None
    if value is None or not hasattr(value, "getClass"):
        return None
    return value if value.getClass().getSimpleName() in _EVALUATORS else None


def _shown(settings: Iterable[LookedUp], text: str) -> Iterator[_Need]:
    for each in settings:
        yield _Need(each.setting, each.value, text, each.certain)
