"""Conversion of values between state formats that differ in their columns.

Grouped functions (``flatMapGroupsWithState`` and ``applyInPandasWithState``,
``FlatMapGroupsWithStateExecHelper``): format 1 has the columns of the state, followed by the
timeout. Format 2 has the state as one struct ``groupState``, which is null if there is a timeout
but no state, followed by the timeout. Without timeouts neither format has the timeout column. The
timeout is a long in both formats. The schema of format 1 says integer, so Spark runs format 1 with
timeouts only if ``spark.sql.streaming.stateStore.formatValidation.enabled`` is off.

Joins (``SymmetricHashJoinStateManager``): from format 2 on, the last column is a flag that shows
whether the row was matched. Only joins other than inner joins read the flag. Since 3.0, Spark
refuses to run such joins in format 1 (SPARK-26154), so no join of format 1 needs the flag.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from flinkish.engine.errors import CannotMigrate, EngineError
from flinkish.engine.rows.types import LONG, Struct, arrow_type, parse_struct, parse_type

GROUP_STATE: Final = "groupState"
TIMEOUT: Final = "timeoutTimestamp"
MATCHED: Final = {"name": "matched", "type": "boolean", "nullable": True, "metadata": {}}
#: The columns of format 2, without timeouts and with them.
_FORMAT_2: Final = ([GROUP_STATE], [GROUP_STATE, TIMEOUT])
_INTEGER: Final = parse_type("integer")


class Reshape(enum.Enum):
    """A change of a value's columns between state formats."""

    #: Grouped functions, format 1 to 2: the state's columns become one struct.
    NEST = "nest"
    #: The same, followed by a timeout.
    NEST_WITH_TIMEOUT = "nest with timeout"
    #: Grouped functions, format 2 to 1, with or without a timeout.
    FLATTEN = "flatten"
    #: Joins, format 1 to 2: adds a flag that is false.
    ADD_MATCHED = "add matched"
    #: Joins, format 2 to 1: drops the flag.
    DROP_MATCHED = "drop matched"


def value_struct(schema: Any, encoder: Mapping[str, Any] | None = None) -> Struct:
    """Return the type of the values of a state schema.

    It follows the schema, except for timeouts: Spark writes timeouts of format 1 as longs into a
    column that the schema declares as integer (``StateManagerImplV1``). Spark 3.5 declares it not
    nullable, Spark 4 declares every column nullable.

    ``schema`` and ``encoder`` (of the keys) are JSON; states of grouped functions have no encoder.
    Raises UnknownType if the schema is not a struct, or a type is unknown.
    """
    struct = parse_struct(schema)
    *others, last = struct.fields or (None,)
    if encoder is not None or last is None or (last.name, last.type) != (TIMEOUT, _INTEGER):
        return struct
    return Struct((*struct.fields[: len(others)], replace(last, type=LONG)))


def group_format(
    schema: Mapping[str, Any], old: str, new: str, name: str
) -> tuple[Reshape, Mapping[str, Any]]:
    """Return the change of a grouped function's values between two formats, and their new schema.

    ``old`` and ``new`` are ``spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion``.
    Raises CannotMigrate unless one of the two is 1 and the other 2, or if ``old`` is 2 and the
    schema is not one of format 2. Whether a schema is one of format 1 is not checked.
    """
    fields = list(schema["fields"])
    if (old, new) == ("1", "2"):
        with_timeout = _ends_with_timeout(fields)
        nested = {**schema, "fields": fields[:-1] if with_timeout else fields}
        group = {"name": GROUP_STATE, "type": nested, "nullable": True, "metadata": {}}
        fields_of_value = [group, {**fields[-1], "type": "long"}] if with_timeout else [group]
        how = Reshape.NEST_WITH_TIMEOUT if with_timeout else Reshape.NEST
        return how, {**schema, "fields": fields_of_value}
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
    """Return whether the columns of values show that they are a grouped function's.

    In format 1 only a timeout column shows this, so other values may be a grouped function's too.
    """
    fields = schema["fields"]
    names = [field["name"] for field in fields]
    nested = names in _FORMAT_2 and isinstance(fields[0]["type"], Mapping)
    return nested or _ends_with_timeout(fields)


def _ends_with_timeout(fields: Sequence[Mapping[str, Any]]) -> bool:
    return bool(fields) and (fields[-1]["name"], fields[-1]["type"]) == (TIMEOUT, "integer")


def matched_flag(
    schema: Mapping[str, Any], old: str, new: str
) -> tuple[Reshape | None, Mapping[str, Any]]:
    """Return the change of a join's buffered rows between two formats, and their new schema.

    Format 1 does not have the flag ``matched``. The change is None if the columns stay the same.

    ``old`` and ``new`` are ``spark.sql.streaming.join.stateFormatVersion``.
    """
    fields = list(schema["fields"])
    if old == "1" != new:
        return Reshape.ADD_MATCHED, {**schema, "fields": [*fields, MATCHED]}
    if new == "1" != old:
        return Reshape.DROP_MATCHED, {**schema, "fields": fields[:-1]}
    return None, schema


def reshape(batch: Any, how: Reshape, name: str) -> Any:
    """Convert values to another format.

    The result is a ``pyarrow.RecordBatch`` whose columns are identified by position.

    ``name`` is the file or store of the values, for errors. Raises EngineError if a timeout has no
    state, which format 1 cannot keep.
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
                f"{name}: keys have a timeout but no state, which grouped functions of state "
                "format 1 cannot keep: let the timeouts fire first, or keep format 2"
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
