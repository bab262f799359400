"""Unions whose values say of which type they are.

Values are plain: 5, not "the long 5". fastavro writes a value as the first type of the union that
accepts it, and floats accept whole numbers, dates accept days: with ``[float, long]`` a long would
lose its digits without a word. So a union is tried out where it is declared.
"""

from __future__ import annotations

import io
import uuid
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any, Final

import fastavro

from flinkish.errors import UsageError
from flinkish.state.avro.schemas import AvroSchema, Map, Record, Scalar, Union, walk

_UTC: Final = datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=timezone.utc)
#: Values that a wrong type would change.
_SAMPLES: Final[dict[str, tuple[Any, ...]]] = {
    "null": (None,),
    "boolean": (True,),
    "int": (0, (1 << 31) - 1),
    "long": (0, (1 << 53) + 1),
    "float": (1.0,),
    "double": (1.0, 0.1),
    "bytes": (b"x",),
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
    """Check that every value says which type of a union it is of.

    Raises
    ------
    UsageError
        A union has two records with fields of the same names, a record and a map, or a type whose
        values would be written as another.
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
    scalars = [each for each in union.branches if isinstance(each, Scalar)]
    if len(scalars) < 2:
        return
    types = [dict(each.schema) if each.logical else each.kind for each in scalars]
    field = {"name": "x", "type": types}
    parsed = fastavro.parse_schema({"type": "record", "name": "Tried", "fields": [field]})
    for each in scalars:
        for sample in _samples(each):
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, {"x": sample})
            out.seek(0)
            record: Any = fastavro.schemaless_reader(out, parsed, None)
            if type(record["x"]) is not type(sample) or record["x"] != sample:
                raise UsageError(
                    f"in the union {union} the {each} {sample!r} would be written as another type "
                    f"that accepts it, and read as {record['x']!r}",
                    hint=f"put {each} before it",
                )


def _samples(node: Scalar) -> tuple[Any, ...]:
    if node.decimal:
        return (Decimal(1).scaleb(-node.decimal[1]),)
    return _SAMPLES.get(node.logical or node.kind, ())
