"""What the columns of an operator's state mean in the program, which no schema records.

Spark's state schemas name the columns of aggregation buffers ``sum, sum, count``, and the keys of a
join ``field0``. Only the plan says which expressions are summed or joined, so savepoints record the
expressions, and a restore compares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: A time zone among the arguments of an expression, as Scala shows it.
_ZONE = re.compile(r", Some\([\w/+:-]+\)(?=\))")
#: Role of the stores of an operator that has one input.
ONLY = ""
#: Traits: facts about the operator as a whole that define the meaning of its state.
JOIN_TYPE = "join type"
TIME_MODE = "time mode"
OUTPUT_MODE = "output mode"
#: The key, in a column's metadata, of its watermark delay (``EventTimeWatermark.delayKey``).
WATERMARK_DELAY = "spark.watermarkDelayMs"
#: Settings that decide what expressions mean and that Spark does not pin.
TIME_ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"
CASE_SENSITIVE = "spark.sql.caseSensitive"
TIME_PARSER = "spark.sql.legacy.timeParserPolicy"
COMPLEX_TO_STRING = "spark.sql.legacy.castComplexTypesToString.enabled"
SIZE_OF_NULL = "spark.sql.legacy.sizeOfNull"
MAP_DEDUP = "spark.sql.mapKeyDedupPolicy"
PRECISION_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"
IGNORE_NULL_FIELDS = "spark.sql.jsonGenerator.ignoreNullFields"
TIMESTAMP_TYPE = "spark.sql.timestampType"


def variable_type(name: str) -> str:
    """Return the trait that holds a state variable's type: a value, a list, a map."""
    return f"type of variable {name}"


def variable_ttl(name: str) -> str:
    """Return the trait that says whether the rows of a state variable expire."""
    return f"time to live of variable {name}"


@dataclass(frozen=True)
class Column:
    """One column of a key or value.

    Attributes
    ----------
    name
        Its name in the program: a column (``user``), an aggregate (``sum(amount)``).
    origin
        The expression that computes the column, down to the columns of the sources.
    detail
        Facts that neither name nor type show: the definition of windows, the input types of an
        opaque aggregate.
    nullable
        False where the program never lets the column be null. Schemas of Spark 4.3 call all columns
        nullable (``statefulOperator.alwaysNullableOutput``), but Spark's code that reads the state
        relies on the program's nullability.
    """

    name: str
    origin: str
    detail: str = ""
    nullable: bool = True


@dataclass(frozen=True)
class Initial:
    """The value with which a buffer begins, in Python's types: None, 0, b"..."."""

    value: Any


@dataclass(frozen=True)
class Dependence:
    """A setting on which a part of the state depends.

    Attributes
    ----------
    setting, value
        The setting, and its value in the expression.
    part
        The part of the state: ``key `hour```, ``event time `ts```, ``sum(amount)``; empty if the
        names in the whole plan depend on the setting.
    expression
        The expression that depends on it.
    certain
        Whether another value of the setting always changes keys or values of the state. If not, the
        data decides: texts that may name their zone, values that do not fit.
    """

    setting: str
    value: str
    part: str = ""
    expression: str = ""
    certain: bool = True


@dataclass(frozen=True)
class StateSemantics:
    """The meaning of the columns of an operator's state.

    Attributes
    ----------
    keys, values
        Columns by role: :data:`ONLY`, or ``left`` and ``right`` of a join. Values are the buffers
        of an aggregation or the input columns of a join; empty where the schema says everything.
    traits
        Facts about the operator as a whole, by trait.
    initial
        The values with which the buffers of an aggregation begin, by role, in the order of
        ``values``; None for an unknown value. Set only for a program that is starting, because
        savepoints do not record them.
    delay_ms
        The delay of the watermark in milliseconds, for a state whose rows expire by the watermark.
        Set only for a program that is starting.
    serializers
        Base64 snapshots of the serializers that wrote typed state (:mod:`flinkish.state`), by the
        name of the column of bytes: one per generation, oldest first.
    settings
        The settings on which the state depends.
    """

    keys: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    values: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    traits: Mapping[str, str] = field(default_factory=dict)
    initial: Mapping[str, tuple[Initial | None, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    delay_ms: int | None = field(default=None, compare=False, repr=False)
    serializers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: tuple[Dependence, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a savepoint; serializers and settings are left out if empty."""
        record = asdict(self)
        del record["initial"], record["delay_ms"]
        for name in ("serializers", "settings"):
            if not record[name]:
                del record[name]
        return record

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> StateSemantics:
        """Restore the data of :meth:`to_json`."""

        def columns(by_role: Mapping[str, Any]) -> dict[str, tuple[Column, ...]]:
            return {role: tuple(Column(**each) for each in by_role[role]) for role in by_role}

        return StateSemantics(
            columns(data["keys"]),
            columns(data["values"]),
            dict(data["traits"]),
            serializers={k: tuple(texts) for k, texts in data.get("serializers", {}).items()},
            settings=tuple(Dependence(**each) for each in data.get("settings", ())),
        )


def without_zones(text: str) -> str:
    """Return an expression without the zones that Spark shows in arguments of Python functions.

    The zones are not part of a column's name, because :class:`Dependence` records them.
    """
    return _ZONE.sub("", text) if isinstance(text, str) else text
