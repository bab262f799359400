"""What the columns of a stateful operator's state are to the program, read from Spark's plans.

Facts used (Spark 3.5 to 4.3):

* The buffers of an aggregation stand in the state in the order of the physical operator's
  ``aggregateExpressions``, each with its ``aggBufferAttributes`` (``AggUtils``,
  ``planStreamingAggregation``); filters are kept by the partial aggregation only.
* The state of a join holds the rows of its inputs, ``left.output`` and ``right.output``, by
  ``leftKeys`` and ``rightKeys`` (``SymmetricHashJoinStateManager``).
* ``transformWithState`` writes its modes and variables to its metadata while it is planned
  (``TransformWithStateOperatorProperties``), and compares them at a restart.
* An attribute keeps its ``exprId`` from the analyzed plan to the physical one, so what it is
  computed from can be looked up in the aliases of both.
* Of a Python function the plan has the name: two lambdas of one column are the same to us.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish.checkpoint.format.operator_files import parse_operator_metadata
from flinkish.driver.plan.plan_classes import items, walk
from flinkish.errors import Incompatible
from flinkish.operators.meaning import (
    JOIN_TYPE,
    ONLY,
    OUTPUT_MODE,
    TIME_MODE,
    Column,
    StateSemantics,
    variable_ttl,
    variable_type,
)

#: Nodes that call Python functions.
_PYTHON = frozenset({"ArrowEvalPython", "BatchEvalPython"})
#: Spark's name for what a query groups by without a name (``PullOutGroupingExpressions``).
_GROUPING = "_groupingexpression"
#: As in ``first(v) ignore nulls``: said by no SQL text of an aggregate.
_NULLS = re.compile(r"\b(ignore|respect) nulls\b", re.IGNORECASE)
#: Beginnings of the kinds whose operators call functions of the program on groups.
_GROUPED = ("applyInPandasWithState", "flatMapGroupsWithState", "transformWithState")
#: Longer descriptions are cut, and told apart by their digest.
_LONG = 400
#: The analyzer's definition of a window (``TimeWindowing``, ``SessionWindowing``).
_WINDOW = re.compile(r"named_struct\('start'")
#: Between the aggregation that is saved and its partial one, on the way down.
_BETWEEN = re.compile(
    r"Aggregate|StateStoreRestore|Exchange|Sessions|Sort|WholeStageCodegen|InputAdapter"
)


class MeaningReader:
    """Reads the meaning of the stateful operators of one query.

    ``plans`` are its plans in which attributes are defined: the analyzed and the optimized one.
    """

    def __init__(self, plans: Iterable[Any]) -> None:
        #: What an attribute is defined by: one expression; of sliding windows one for each.
        self._definitions: dict[int, list[Any]] = {}
        #: Attributes whose names Spark has made up.
        self._nameless: set[int] = set()
        self._origins: dict[int, str] = {}
        sources: dict[str, list[int]] = {}
        for plan in plans:
            for node in walk(plan):
                name = str(node.getClass().getSimpleName())
                if name == "Expand":
                    self._expanded(node)
                elif name in _PYTHON:
                    self._called(node)
                for expression in items(node.expressions()):
                    if expression.getClass().getSimpleName() == "Alias":
                        self._definitions[_number(expression)] = [expression.child()]
                        if str(expression.name()).startswith(_GROUPING):
                            self._nameless.add(_number(expression))
                if node.children().isEmpty():
                    for attribute in items(node.output()):
                        of_name = sources.setdefault(str(attribute.name()), [])
                        if _number(attribute) not in of_name:
                            of_name.append(_number(attribute))
        for column, numbers in sources.items():
            # One name in several sources: the first, the second ...
            self._origins |= {n: column + f"#{i}" * (i > 1) for i, n in enumerate(numbers, 1)}

    def _called(self, node: Any) -> None:
        """Results of Python functions, which the optimizer takes out of expressions."""
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
        """The meaning of a physical operator; empty for a kind whose schemas say all."""
        if kind == "stateStoreSave":
            return self._keyed(node.keyExpressions(), self._buffers(node.child()))
        if kind == "sessionWindowStateStoreSaveExec":
            keys = [*items(node.keyWithoutSessionExpressions()), node.sessionExpression()]
            return self._keyed(keys, self._buffers(node.child()))
        if kind in ("dedupe", "dedupeWithinWatermark"):
            return self._keyed(node.keyExpressions())
        if kind == "symmetricHashJoin":
            return self._join(node)
        if kind.startswith(_GROUPED):
            return self._keyed(node.groupingAttributes())
        return StateSemantics()

    def _keyed(self, keys: Any, values: tuple[Column, ...] = ()) -> StateSemantics:
        listed = keys if isinstance(keys, list) else items(keys)
        return StateSemantics({ONLY: self._columns(listed)}, {ONLY: values} if values else {})

    def _join(self, node: Any) -> StateSemantics:
        return StateSemantics(
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

    def _buffers(self, aggregation: Any) -> tuple[Column, ...]:
        """One column for each buffer attribute of the aggregates."""
        found: list[Column] = []
        for expression in items(_partial(aggregation).aggregateExpressions()):
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
            found += [column] * len(attributes)
        return _told_apart(found)

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
        """How the windows are cut, for the column of a window: its name does not say it."""
        if expression.getClass().getSimpleName() != "AttributeReference":
            return ""
        defined = self._definitions.get(_number(expression), ())
        texts = [self._text(each, follow=False) for each in defined]
        return _short(" | ".join(texts)) if texts and all(map(_WINDOW.match, texts)) else ""

    def _text(self, expression: Any, *, follow: bool) -> str:
        """The expression as SQL, with the names of columns or, to ``follow``, their origins."""
        text = str(expression.sql())
        for attribute in items(expression.references().toSeq()):
            new = self._origin(attribute) if follow else self._name(attribute)
            old = rf"(?<![\w.`]){re.escape(str(attribute.sql()))}(?![\w`])"
            text = re.sub(old, new.replace("\\", r"\\"), text)
        return _short(text)

    def _name(self, attribute: Any) -> str:
        """What the program calls an attribute; for one without a name what it is."""
        number = _number(attribute)
        if number not in self._nameless:
            return str(attribute.name())
        self._nameless.discard(number)  # should it be defined by itself
        text = self._text(self._definitions[number][0], follow=False)
        self._nameless.add(number)
        return "window" if _WINDOW.match(text) else text  # how it is cut is told apart

    def _origin(self, attribute: Any) -> str:
        number = _number(attribute)
        if number not in self._origins:
            self._origins[number] = str(attribute.name())  # if it is defined by itself
            defined = self._definitions.get(number)
            if defined is not None:
                texts = [self._text(each, follow=True) for each in defined]
                self._origins[number] = _short(" | ".join(texts))
        return self._origins[number]


def _told_apart(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns; those of one name, but of different origins, get these into their names. Pure.

    As in ``sum(x.v), sum(y.v)`` of two joined inputs.
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
    """The meaning with what ``transformWithState`` wrote of itself while it was planned. Pure.

    Parameters
    ----------
    files: those below ``state/<ordinal>``, by their path there. Operators of other kinds write no
        properties.

    Raises
    ------
    Incompatible: the properties are of a form we do not know (a newer Spark).
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
                continue  # Spark's own, such as those of timers
            traits[variable_type(name)] = str(variable["stateVariableType"])
            traits[variable_ttl(name)] = "on" if variable["ttlEnabled"] else "off"
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Incompatible(
            f"this Spark writes the properties of transformWithState in an unknown form: {error}",
            hint="see which versions of Spark flinkish supports",
        ) from error
    return replace(meaning, traits={**meaning.traits, **traits})


def _number(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _partial(aggregation: Any) -> Any:
    """The partial aggregation below the one that is saved."""
    lowest = node = aggregation
    while node.children().size() == 1:
        node = node.children().apply(0)
        name = str(node.getClass().getSimpleName())
        if not _BETWEEN.search(name):
            break
        if "Aggregate" in name:
            lowest = node
    return lowest


def _short(text: str) -> str:
    if len(text) <= _LONG:
        return text
    return f"{text[:200]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"
