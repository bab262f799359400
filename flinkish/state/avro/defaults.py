"""Values that fastavro writes wrongly: defaults in a schema's JSON, and values that it changes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from typing import Any, Final

from fastavro.read import LOGICAL_READERS

from flinkish.errors import UsageError
from flinkish.state.avro.schemas import (
    Array,
    AvroSchema,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Record,
    Scalar,
    Union,
    walk,
)

_INT_BITS: Final = {"int": 31, "long": 63}


class _Unfit(Exception):
    """The default is not a value of the type."""


def default_of(field: Field) -> Callable[[], Any]:
    """Return a factory of a field's default value; UsageError if it does not fit the type."""
    try:
        value = _value(field.type, field.default)
    except (_Unfit, ValueError, ArithmeticError, RecursionError) as error:
        raise UsageError(
            f"the default {field.default!r} of the field {field.name} is not of type {field.type}",
            hint="give a default as Avro writes it: bytes as a string, records as an object",
        ) from error
    if isinstance(value, (list, dict)):
        return lambda: copy.deepcopy(value)
    return lambda: value


def set_defaults(parsed: Any, schema: AvroSchema) -> None:
    """Replace the JSON defaults in a parsed schema by values; fastavro would write the JSON."""
    for record in walk(schema.root):
        if isinstance(record, Record):
            fields = parsed["__named_schemas"][record.name]["fields"]
            for each, field in zip(fields, record.fields, strict=True):
                if field.has_default:
                    each["default"] = default_of(field)()


def _value(node: Node, default: Any) -> Any:
    if isinstance(node, Union):
        return _first_fitting(node, default)
    if isinstance(node, Record):
        return _record(node, default)
    if isinstance(node, Array) and isinstance(default, list):
        return [_value(node.items, each) for each in default]
    if isinstance(node, Map) and isinstance(default, dict):
        return {key: _value(node.values, each) for key, each in default.items()}
    if isinstance(node, Enum) and default in node.symbols:
        return default
    if isinstance(node, Fixed):
        data = _bytes(default)
        if len(data) == node.size:
            return _logical(node.scalar, data)
    if isinstance(node, Scalar):
        return _logical(node, _primitive(node.kind, default))
    raise _Unfit


def _first_fitting(node: Union, default: Any) -> Any:
    # Avro 1.11 allows a default of the first type only; Avro 1.12 and fastavro allow any type.
    for branch in node.branches:
        try:
            return _value(branch, default)
        except (_Unfit, ValueError):
            continue
    raise _Unfit


def _record(node: Record, default: Any) -> dict[str, Any]:
    if not isinstance(default, dict) or default.keys() - {each.name for each in node.fields}:
        raise _Unfit
    record = {}
    for each in node.fields:
        if each.name not in default and not each.has_default:
            raise _Unfit
        record[each.name] = _value(each.type, default.get(each.name, each.default))
    return record


def _primitive(kind: str, default: Any) -> Any:
    if kind == "null" and default is None:
        return None
    if kind == "boolean" and isinstance(default, bool):
        return default
    if kind in _INT_BITS and type(default) is int and -1 <= default >> _INT_BITS[kind] <= 0:
        return default
    if kind in ("float", "double"):
        if isinstance(default, (int, float)) and not isinstance(default, bool):
            return float(default)
        if default in ("NaN", "Infinity", "-Infinity"):  # as Java writes them
            return float(default)
    if kind == "string" and isinstance(default, str):
        return default
    if kind == "bytes":
        return _bytes(default)
    raise _Unfit


def _bytes(default: Any) -> bytes:
    if not isinstance(default, str):
        raise _Unfit
    return default.encode("latin-1")


def logical_reader(node: Scalar) -> Callable[[Any], Any]:
    """Return a function that converts a value of the Avro type to one of its logical type."""
    read, schema = LOGICAL_READERS[f"{node.kind}-{node.logical}"], dict(node.schema)
    return lambda value: read(value, schema, schema)


def _logical(node: Scalar, value: Any) -> Any:
    return logical_reader(node)(value) if node.logical else value


def is_lossy(node: Node) -> bool:
    """Return whether fastavro may read back another value than it wrote, or cannot read it."""
    scalar = node.scalar if isinstance(node, Fixed) else node
    return isinstance(scalar, Scalar) and (scalar.kind == "float" or bool(scalar.logical))


def is_same(value: Any, read: Any) -> bool:
    """Return whether a value was read as it was written, except for digits of floats.

    Compares dates, times and infinite floats: the values that fastavro may silently change. Of a
    ``(name, record)`` pair, which names its type in a union, the record is compared.
    """
    if isinstance(read, dict) and isinstance(value, tuple):
        value = value[1]
    if isinstance(read, dict) and isinstance(value, Mapping):
        return all(is_same(value[name], each) for name, each in read.items() if name in value)
    if isinstance(read, list) and isinstance(value, Sequence):
        return all(map(is_same, value, read))
    if isinstance(value, (date, time)) and isinstance(read, (date, time)):
        return bool(value == read)
    if isinstance(read, float) and math.isinf(read):
        return bool(value == read)
    return True
