"""Check that the values of a union determine their type.

Values are plain: 5, not "the long 5". fastavro writes a value as the first type of the union that
accepts it, and floats accept whole numbers, dates accept days, arrays accept bytes: with ``[float,
long]`` a long would silently lose digits. So a union is tested when it is declared.
"""

from __future__ import annotations

import io
import uuid
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any, Final

import fastavro

from flinkish.errors import UsageError
from flinkish.state.avro.schemas import (
    Array,
    AvroSchema,
    Enum,
    Fixed,
    Map,
    Record,
    Scalar,
    Union,
    walk,
)

_UTC: Final = datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=timezone.utc)
#: Values that a wrong type would change.
_SAMPLES: Final[dict[str, tuple[Any, ...]]] = {
    "null": (None,),
    "boolean": (True,),
    "int": (0, (1 << 31) - 1),
    "long": (0, (1 << 53) + 1),
    "float": (1.0,),
    "double": (1.0, 0.1),
    "bytes": (b"", b"x"),
    "string": ("x",),
    "date": (_UTC.date(), date(1970, 1, 1)),
    "time-millis": (time(1, 2, 3, 4000),),
    "time-micros": (time(1, 2, 3, 4000),),
    "timestamp-millis": (_UTC,),
    "timestamp-micros": (_UTC,),
    "local-timestamp-millis": (_UTC.replace(tzinfo=None),),
    "local-timestamp-micros": (_UTC.replace(tzinfo=None),),
    "uuid": (uuid.UUID(int=1),),
}


def check_tellable(schema: AvroSchema) -> None:
    """Check that a value determines which type of a union it belongs to.

    Raises UsageError if a union has two records with fields of the same names, a record and a map,
    or a type whose values would be written as another.
    """
    for node in walk(schema.root):
        if isinstance(node, Union):
            _check_dicts(node)
            _check_values(node)


def _check_dicts(union: Union) -> None:
    seen: dict[frozenset[str], Record] = {}
    records = [each for each in union.branches if isinstance(each, Record)]
    if records and any(isinstance(each, Map) for each in union.branches):
        raise UsageError(
            f"the union {union} has a map and a record: a dict does not say which it is",
            hint="put the map into a record of its own",
        )
    for each in records:
        names = frozenset(field.name for field in each.fields)
        other = seen.setdefault(names, each)
        if other is not each:
            raise UsageError(
                f"{other} and {each} of one union have the same fields: a dict does not say "
                "which of them it is",
                hint="give one of them a field that the other does not have",
            )


def _check_values(union: Union) -> None:
    tried = [each for each in union.branches if isinstance(each, (Scalar, Fixed, Enum, Array))]
    if len(tried) < 2:
        return
    field = {"name": "x", "type": [_simple(each) for each in tried]}
    parsed = fastavro.parse_schema({"type": "record", "name": "Tried", "fields": [field]})
    for each in tried:
        for sample in _samples(each):
            if not _comes_back(parsed, sample):
                raise UsageError(
                    f"in the union {union} the {each} {sample!r} would be written as another "
                    "type that comes before it",
                    hint=f"put {each} before it",
                )


def _comes_back(schema: Any, sample: Any) -> bool:
    out = io.BytesIO()
    try:
        fastavro.schemaless_writer(out, schema, {"x": sample})
        out.seek(0)
        record: Any = fastavro.schemaless_reader(out, schema, None)
    except ValueError:  # a string that a date or a UUID accepts without being one
        return False
    return type(record["x"]) is type(sample) and bool(record["x"] == sample)


def _simple(node: Scalar | Fixed | Enum | Array) -> Any:
    """Return a simple schema that accepts the values that a type accepts instead of others."""
    if isinstance(node, Array):
        return {"type": "array", "items": "int"}
    if isinstance(node, Enum):
        return {"type": "enum", "name": f"X{id(node)}", "symbols": list(node.symbols)}
    if isinstance(node, Fixed):
        return {**node.scalar.schema, "type": "fixed", "name": f"X{id(node)}", "size": node.size}
    return dict(node.schema) if node.logical else node.kind


def _samples(node: Scalar | Fixed | Enum | Array) -> tuple[Any, ...]:
    if isinstance(node, Array):
        return ([], [1])
    if isinstance(node, Enum):
        return node.symbols
    scalar = node.scalar if isinstance(node, Fixed) else node
    if scalar.decimal:
        return (Decimal(1).scaleb(-scalar.decimal[1]),)
    if isinstance(node, Fixed):
        return (bytes(node.size),)
    return _SAMPLES.get(node.logical or node.kind, ())
