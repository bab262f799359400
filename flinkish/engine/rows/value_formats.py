"""State formats that differ in the columns of the values, row by row.

``flatMapGroupsWithState`` and ``applyInPandasWithState`` (``FlatMapGroupsWithStateExecHelper``):
format 1 has the state's columns and behind them the timeout, format 2 the state as one struct
``groupState``, which is null where there is a timeout but no state, and then the timeout. Without
timeouts neither has one. The timeout is a long in both; the schema of format 1 says integer, which
is why Spark runs format 1 with timeouts only where
``spark.sql.streaming.stateStore.formatValidation.enabled`` is off.

Joins (``SymmetricHashJoinStateManager``): from format 2 on the last column tells whether the row
was matched, which only joins other than inner ones look at. Those Spark refuses to run in format 1
since 3.0 (SPARK-26154), so whatever has format 1 does not need the flag.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from flinkish.engine.errors import CannotMigrate, EngineError
from flinkish.engine.rows.types import LONG, Struct, arrow_type, parse_struct, parse_type

GROUP_STATE: Final = "groupState"
TIMEOUT: Final = "timeoutTimestamp"
MATCHED: Final = {"name": "matched", "type": "boolean", "nullable": True, "metadata": {}}
#: The columns of format 2, without timeouts and with them.
_FORMAT_2: Final = ([GROUP_STATE], [GROUP_STATE, TIMEOUT])
_INTEGER: Final = parse_type("integer")


class Reshape(enum.Enum):
    """What becomes of the columns of a value in another state format."""

    #: Grouped functions, 1 to 2: the state's columns become one struct.
    NEST = "nest"
    #: The same with a timeout behind them.
    NEST_WITH_TIMEOUT = "nest with timeout"
    #: Grouped functions, 2 to 1, with a timeout or without.
    FLATTEN = "flatten"
    #: Joins, 1 to 2: a flag that is false.
    ADD_MATCHED = "add matched"
    #: Joins, 2 to 1.
    DROP_MATCHED = "drop matched"


def value_struct(schema: Any, encoder: Mapping[str, Any] | None = None) -> Struct:
    """The type of values that a state schema stands for; UnknownType where it is none.

    It is what the schema says, but for timeouts: Spark writes those of format 1 as longs into a
    column that the schema calls an integer (``StateManagerImplV1``). Spark 3.5 says that it is not
    nullable, 4 says nullable of every column.

    Args:
        schema: JSON of the values' ``StructType``.
        encoder: JSON of the keys' encoder, which states of grouped functions do not have.
    """
    struct = parse_struct(schema)
    *others, last = struct.fields or (None,)
    if encoder is not None or last is None or (last.name, last.type) != (TIMEOUT, _INTEGER):
        return struct
    return Struct((*struct.fields[: len(others)], replace(last, type=LONG)))


def group_format(
    schema: Mapping[str, Any], old: str, new: str, name: str
) -> tuple[Reshape, Mapping[str, Any]]:
    """How values of grouped functions get from one format to the other, and their new schema. Pure.

    Args:
        schema: JSON of the values' ``StructType``.
        old, new: ``spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion``.
        name: of the operator, for errors.

    Raises CannotMigrate when a format is not known, or the schema is not one of the old format.
    """
    fields = list(schema["fields"])
    if (old, new) == ("1", "2"):
        with_timeout = _ends_with_timeout(fields)
        nested = {**schema, "fields": fields[:-1] if with_timeout else fields}
        group = {"name": GROUP_STATE, "type": nested, "nullable": True, "metadata": {}}
        made = [group, {**fields[-1], "type": "long"}] if with_timeout else [group]
        how = Reshape.NEST_WITH_TIMEOUT if with_timeout else Reshape.NEST
        return how, {**schema, "fields": made}
    if (old, new) == ("2", "1"):
        names = [field["name"] for field in fields]
        state = fields[0]["type"] if fields else None
        if names not in _FORMAT_2 or not isinstance(state, Mapping):
            raise CannotMigrate(
                f"the state of {name} is not that of a grouped function of format 2"
            )
        timeout = [{**field, "type": "integer"} for field in fields[1:]]
        return Reshape.FLATTEN, {**state, "fields": [*state["fields"], *timeout]}
    raise CannotMigrate(f"grouped functions of state format {old} cannot become format {new}")


def is_group_state(schema: Mapping[str, Any]) -> bool:
    """Whether values are a grouped function's by their columns, which in format 1 only timeouts
    tell: a schema for which this is false may be one all the same."""
    fields = schema["fields"]
    names = [field["name"] for field in fields]
    nested = names in _FORMAT_2 and isinstance(fields[0]["type"], Mapping)
    return nested or _ends_with_timeout(fields)


def _ends_with_timeout(fields: Sequence[Mapping[str, Any]]) -> bool:
    return bool(fields) and (fields[-1]["name"], fields[-1]["type"]) == (TIMEOUT, "integer")


def matched_flag(
    schema: Mapping[str, Any], old: str, new: str
) -> tuple[Reshape | None, Mapping[str, Any]]:
    """How the buffered rows of a join get or lose the flag that format 1 does not have. Pure.

    Args:
        schema: JSON of the values' ``StructType``.
        old, new: ``spark.sql.streaming.join.stateFormatVersion``.
    """
    fields = list(schema["fields"])
    if old == "1" != new:
        return Reshape.ADD_MATCHED, {**schema, "fields": [*fields, MATCHED]}
    if new == "1" != old:
        return Reshape.DROP_MATCHED, {**schema, "fields": fields[:-1]}
    return None, schema


def reshape(batch: Any, how: Reshape, name: str) -> Any:
    """Values of another format, as a ``pyarrow.RecordBatch`` whose columns go by their places.

    Args:
        batch: the values, of the old format.
        how: what becomes of them.
        name: the file or store they are from, for errors.

    Raises EngineError where a timeout has no state, which format 1 cannot keep.
    """
    columns = list(batch.columns)
    if how is Reshape.ADD_MATCHED:
        columns.append(pa.repeat(pa.scalar(False), batch.num_rows))
    elif how is Reshape.DROP_MATCHED:
        columns.pop()
    elif how is Reshape.FLATTEN:
        state, *timeout = columns
        if state.null_count:
            raise EngineError(
                f"{name}: {state.null_count} keys have a timeout but no state, which grouped "
                "functions of state format 1 cannot keep: let the timeouts fire first, or keep "
                "format 2"
            )
        columns = [*state.flatten(), *timeout]
    else:
        timeout = [columns.pop()] if how is Reshape.NEST_WITH_TIMEOUT else []
        fields = [batch.schema.field(i) for i in range(len(columns))]
        columns = [_struct(columns, fields, batch.num_rows), *timeout]
    return pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])


def _struct(columns: list[Any], fields: list[Any], rows: int) -> Any:
    if columns:
        return pa.StructArray.from_arrays(columns, fields=fields)
    return pa.Array.from_buffers(arrow_type(Struct(())), rows, [None], children=[])
