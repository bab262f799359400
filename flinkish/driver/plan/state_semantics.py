"""The meaning of the columns of a stateful operator's state, read from Spark's plans.

Facts used (Spark 3.5 to 4.3):

* The state has the buffers of an aggregation in the order of the physical operator's
  ``aggregateExpressions``, each with its ``aggBufferAttributes`` (``AggUtils``,
  ``planStreamingAggregation``). Only the partial aggregation keeps filters.
* The state of a join holds the rows of its inputs, ``left.output`` and ``right.output``, by
  ``leftKeys`` and ``rightKeys`` (``SymmetricHashJoinStateManager``).
* ``transformWithState`` writes its modes and variables to its metadata while it is planned
  (``TransformWithStateOperatorProperties``), and compares them at a restart.
* An attribute keeps its ``exprId`` from the analyzed plan to the physical one, so the aliases of
  both plans show what the attribute is computed from.
* Of a Python function the plan has only the name, so two lambdas on one column look the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish.checkpoint.format.operator_files import parse_operator_metadata
from flinkish.driver.plan.initial_buffers import initial_buffers
from flinkish.driver.plan.plan_classes import ReadNode, class_name, items
from flinkish.driver.plan.setting_dependences import DependenceReader, ReadColumn, read_columns
from flinkish.errors import Incompatible
from flinkish.operators.state_semantics import (
    JOIN_TYPE,
    ONLY,
    OUTPUT_MODE,
    TIME_MODE,
    WATERMARK_DELAY,
    Column,
    Dependence,
    StateSemantics,
    variable_ttl,
    variable_type,
    without_zones,
)

#: Nodes that call Python functions.
_PYTHON = frozenset({"ArrowEvalPython", "BatchEvalPython"})
#: How Spark names a grouping expression that has no name (``PullOutGroupingExpressions``).
_GROUPING = "_groupingexpression"
#: Words as in ``first(v) ignore nulls``, which the SQL text of an aggregate lacks.
_NULLS = re.compile(r"\b(ignore|respect) nulls\b", re.IGNORECASE)
#: Prefixes of the kinds of operators that call the program's functions on groups.
_GROUPED = ("applyInPandasWithState", "flatMapGroupsWithState", "transformWithState")
#: Maximum characters of a description; longer ones are cut and distinguished by their digest.
_LONG = 400
#: The analyzer's definition of a window (``TimeWindowing``, ``SessionWindowing``).
_WINDOW = re.compile(r"named_struct\('start'")
#: Nodes between the saved aggregation and the partial one below it.
_BETWEEN = re.compile(
    r"Aggregate|StateStoreRestore|Exchange|Sessions|Sort|WholeStageCodegen|InputAdapter"
)


class MeaningReader:
    """Reads the meaning of the stateful operators of one query.

    ``plans`` are the query's analyzed and optimized plan, which define its attributes. ``setting``
    returns the session's value of a setting, or None if this Spark does not know the setting.
    """

    def __init__(
        self,
        jvm: Any,
        plans: Iterable[Iterable[ReadNode]],
        setting: Callable[[str], str | None],
    ) -> None:
        self._jvm = jvm
        #: The expressions that define an attribute: one, or one for each of its sliding windows.
        self._definitions: dict[int, list[Any]] = {}
        #: All expressions that define an attribute in any of the plans.
        self._every: dict[int, list[Any]] = {}
        self._read: dict[int, ReadColumn] = {}
        #: Attributes whose names Spark generated.
        self._nameless: set[int] = set()
        self._origins: dict[int, str] = {}
        sources: dict[str, list[int]] = {}
        for plan in plans:
            before = dict(self._definitions)
            for read in plan:
                node = read.node
                if read.name == "Expand":
                    self._expanded(node)
                elif read.name in _PYTHON:
                    self._called(node)
                for expression in _aliases(node):
                    number = _number(expression)
                    self._definitions[number] = [expression.child()]
                    if str(expression.name()).startswith(_GROUPING):
                        self._nameless.add(number)
                if not read.children:
                    numbered = [(_number(each), each) for each in items(node.output())]
                    for number, attribute in numbered:
                        of_name = sources.setdefault(str(attribute.name()), [])
                        if number not in of_name:
                            of_name.append(number)
                    columns = read_columns(node, read.name)
                    if columns is not None:
                        self._read |= {number: columns for number, _ in numbered}
            for number, listed in self._definitions.items():
                if before.get(number) is not listed:
                    self._every.setdefault(number, []).extend(listed)
        for column, numbers in sources.items():
            # A name that occurs in several sources gets a number: name, name#2 ...
            self._origins |= {n: column + f"#{i}" * (i > 1) for i, n in enumerate(numbers, 1)}
        self._dependences = DependenceReader(
            jvm, self._every, self._read, setting, lambda each: self._text(each, follow=False)
        )

    def _called(self, node: Any) -> None:
        """Record the results of Python functions, which the optimizer extracts from expressions."""
        for attribute, call in zip(items(node.resultAttrs()), items(node.udfs()), strict=True):
            self._definitions[_number(attribute)] = [call]
            self._nameless.add(_number(attribute))

    def _expanded(self, node: Any) -> None:
        projections = items(node.projections())
        for place, attribute in enumerate(items(node.output())):
            column = [projection.apply(place) for projection in projections]
            if any(not c.semanticEquals(attribute) for c in column):
                self._definitions.setdefault(_number(attribute), column)

    def read(self, kind: str, node: Any) -> StateSemantics:
        """Return the meaning of a physical operator's state.

        The meaning is empty for a kind of operator whose schemas say enough.
        """
        if kind == "stateStoreSave":
            return self._keyed(node.keyExpressions(), node.child())
        if kind == "sessionWindowStateStoreSaveExec":
            keys = [*items(node.keyWithoutSessionExpressions()), node.sessionExpression()]
            return self._keyed(keys, node.child())
        if kind == "dedupe":
            return self._timed(node.keyExpressions(), node)
        if kind == "dedupeWithinWatermark":
            meaning = self._timed(node.keyExpressions(), node)
            return replace(meaning, delay_ms=_delay_ms(node.child()))
        if kind == "symmetricHashJoin":
            return self._join(node)
        if kind.startswith(_GROUPED):
            return self._timed(node.groupingAttributes(), node)
        return StateSemantics()

    def _timed(self, keys: Any, node: Any) -> StateSemantics:
        """Return the meaning of state that Spark finds by keys and drops by the event time."""
        meaning = self._keyed(keys)
        return self._depending(meaning, self._event_times(items(node.children())))

    def _depending(self, meaning: StateSemantics, *more: Iterable[Dependence]) -> StateSemantics:
        """Return the meaning with further settings on which it depends."""
        listed = [*meaning.settings, *(each for part in more for each in part)]
        return replace(meaning, settings=tuple(dict.fromkeys(listed)))

    def _event_times(self, nodes: Iterable[Any]) -> Iterator[Dependence]:
        for node in nodes:
            for attribute in items(node.output()):
                if attribute.metadata().contains(WATERMARK_DELAY):
                    part = f"event time `{self._name(attribute)}`"
                    yield from self._dependences.of(part, attribute, finds=True)

    def _keys(self, keys: Iterable[Any], side: str = "") -> Iterator[Dependence]:
        for key in keys:
            part = f"{side} key `{self._text(key, follow=False)}`".strip()
            yield from self._dependences.of(part, key, finds=True)

    def _values(self, values: Iterable[Any]) -> Iterator[Dependence]:
        for value in values:
            part = f"`{self._text(value, follow=False)}`"
            yield from self._dependences.of(part, value, finds=False)

    def _keyed(self, keys: Any, aggregation: Any = None) -> StateSemantics:
        listed = keys if isinstance(keys, list) else items(keys)
        columns = {ONLY: self._columns(listed)}
        settings = (*self._dependences.always(), *self._keys(listed))
        if aggregation is None:
            return StateSemantics(columns, settings=settings)
        partial = _partial(aggregation)
        values = self._buffers(partial)
        if not values:
            return StateSemantics(columns, settings=settings)
        settings = (*settings, *self._values(items(partial.aggregateExpressions())))
        initial = tuple(
            begin
            for expression in items(partial.aggregateExpressions())
            for begin in initial_buffers(self._jvm, expression.aggregateFunction())
        )
        return StateSemantics(columns, {ONLY: values}, initial={ONLY: initial}, settings=settings)

    def _join(self, node: Any) -> StateSemantics:
        meaning = StateSemantics(
            keys={
                "left": self._columns(items(node.leftKeys())),
                "right": self._columns(items(node.rightKeys())),
            },
            values={
                "left": self._columns(items(node.left().output())),
                "right": self._columns(items(node.right().output())),
            },
            traits={JOIN_TYPE: str(node.joinType().sql()).lower()},
        )
        return self._depending(
            meaning,
            self._dependences.always(),
            self._keys(items(node.leftKeys()), "left"),
            self._keys(items(node.rightKeys()), "right"),
            self._event_times((node.left(), node.right())),
            self._values([*items(node.left().output()), *items(node.right().output())]),
        )

    def _buffers(self, partial: Any) -> tuple[Column, ...]:
        """Return one column for each buffer attribute of the aggregates."""
        columns: list[Column] = []
        for expression in items(partial.aggregateExpressions()):
            function = expression.aggregateFunction()
            attributes = items(function.aggBufferAttributes())
            opaque = any(str(a.dataType().simpleString()) == "binary" for a in attributes)
            inputs = [str(child.dataType().simpleString()) for child in items(function.children())]
            nulls = _NULLS.search(str(function.toString()))
            suffix = f" {nulls.group().lower()}" if nulls else ""
            column = Column(
                self._text(expression, follow=False) + suffix,
                self._text(expression, follow=True) + suffix,
                ", ".join(inputs) if opaque else "",
            )
            columns += [column] * len(attributes)
        return _told_apart(columns)

    def _columns(self, expressions: Sequence[Any]) -> tuple[Column, ...]:
        return _told_apart(
            Column(
                self._text(each, follow=False),
                self._text(each, follow=True),
                self._window(each),
                bool(each.nullable()),
            )
            for each in expressions
        )

    def _window(self, expression: Any) -> str:
        """Return how the windows of a window column are defined; ``""`` for another expression."""
        # The name of the column does not include this definition.
        if class_name(expression) != "AttributeReference":
            return ""
        defined = self._definitions.get(_number(expression), ())
        texts = [self._text(each, follow=False) for each in defined]
        return _short(" | ".join(texts)) if texts and all(map(_WINDOW.match, texts)) else ""

    def _text(self, expression: Any, *, follow: bool) -> str:
        """Return the expression as SQL with the program's column names, or origins (``follow``)."""
        named: dict[str, str] = {}
        for attribute in items(expression.references().toSeq()):
            old = str(attribute.sql())
            if named.get(old, old) == old:  # two inputs may have columns of the same name
                named[old] = self._origin(attribute) if follow else self._name(attribute)
        return _short(without_zones(_renamed(str(expression.sql()), named)))

    def _name(self, attribute: Any) -> str:
        """Return the program's name for an attribute, or its definition if it has no name."""
        number = _number(attribute)
        if number not in self._nameless:
            return str(attribute.name())
        self._nameless.discard(number)  # in case the definition contains the attribute
        text = self._text(self._definitions[number][0], follow=False)
        self._nameless.add(number)
        return "window" if _WINDOW.match(text) else text  # _window() describes its definition

    def _origin(self, attribute: Any) -> str:
        number = _number(attribute)
        if number not in self._origins:
            self._origins[number] = str(attribute.name())  # in case the definition contains it
            defined = self._definitions.get(number)
            if defined is not None:
                texts = [self._text(each, follow=True) for each in defined]
                self._origins[number] = _short(" | ".join(texts))
        return self._origins[number]


def _told_apart(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns, with the origin added to names that occur with different origins. Pure.

    Such names occur in ``sum(x.v), sum(y.v)`` of two joined inputs.
    """
    listed = tuple(columns)
    origins: dict[str, set[str]] = {}
    for column in listed:
        origins.setdefault(column.name.casefold(), set()).add(column.origin)
    return tuple(
        replace(c, name=f"{c.name} [{c.origin}]") if len(origins[c.name.casefold()]) > 1 else c
        for c in listed
    )


def with_properties(meaning: StateSemantics, files: Mapping[str, bytes]) -> StateSemantics:
    """Add the properties that ``transformWithState`` writes when planned. Pure.

    ``files`` are those below ``state/<ordinal>``, by relative path; operators of other kinds write
    no properties. Raises Incompatible if the properties have an unknown form (a newer Spark).
    """
    newest = max(
        (path for path in files if re.fullmatch(r"_metadata/v2/\d+", path)),
        key=lambda path: int(path.rpartition("/")[2]),
        default=None,
    )
    if newest is None:
        return meaning
    try:
        metadata = parse_operator_metadata(files[newest], newest)
        properties = json.loads(metadata.properties or "{}")
        traits = {
            trait: str(properties[key])
            for key, trait in (("timeMode", TIME_MODE), ("outputMode", OUTPUT_MODE))
            if key in properties
        }
        for variable in properties.get("stateVariables", ()):
            name = str(variable["stateName"])
            if name.startswith("$"):
                continue  # Spark's own variables, such as those of timers
            traits[variable_type(name)] = str(variable["stateVariableType"])
            traits[variable_ttl(name)] = "on" if variable["ttlEnabled"] else "off"
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Incompatible(
            f"this Spark writes the properties of transformWithState in an unknown form: {error}",
            hint="see which versions of Spark flinkish supports: flinkish compat",
        ) from error
    return replace(meaning, traits={**meaning.traits, **traits})


def _aliases(node: Any) -> list[Any]:
    """Return the aliases among a node's expressions."""
    expressions = node.expressions()
    if " AS " not in str(expressions.mkString(", ")):  # a lazy sequence's toString lacks aliases
        return []
    return [each for each in items(expressions) if class_name(each) == "Alias"]


def _number(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _delay_ms(node: Any) -> int | None:
    """Return the delay of the watermark on a node's output (``EventTimeWatermark.delayKey``)."""
    for attribute in items(node.output()):
        if attribute.metadata().contains(WATERMARK_DELAY):
            return int(attribute.metadata().getLong(WATERMARK_DELAY))
    return None


def _partial(aggregation: Any) -> Any:
    """Return the partial aggregation below the aggregation whose state is saved."""
    above = lowest = node = aggregation
    while node.children().size() == 1:
        node = node.children().apply(0)
        name = str(node.getClass().getSimpleName())
        if "StateStoreSave" in name:
            return above  # the lowest is the final aggregation of the operator below
        if not _BETWEEN.search(name):
            break
        if "Aggregate" in name:
            above, lowest = lowest, node
    return lowest


def _renamed(text: str, named: Mapping[str, str]) -> str:
    """Return SQL with names or definitions in place of its columns, in a single pass. Pure."""
    if not named:
        return text
    columns = "|".join(re.escape(each) for each in sorted(named, key=len, reverse=True))
    pattern = rf"(?<![\w.`])(?:{columns})(?![\w`])"
    return re.sub(pattern, lambda column: named[column.group()], text)


def _short(text: str) -> str:
    if len(text) <= _LONG:
        return text
    return f"{text[:200]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"
