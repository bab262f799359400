"""Defaults: JSON in the schema, values in the state."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from flinkish.errors import UsageError
from flinkish.state.avro.defaults import default_of
from flinkish.state.avro.schemas import Record, parse_schema
from tests.state.avro.test_resolution import enum, field, fixed, logical, record

INNER = record(field("a", "int"), field("b", "bytes", default="\xff"), name="Inner")


def made(of: Any, default: Any) -> Any:
    root = parse_schema(record(field("x", of))).root
    assert isinstance(root, Record)
    given = root.fields[0]
    return default_of(type(given)(given.name, given.type, (), True, default))


@pytest.mark.parametrize(
    ("of", "default", "value"),
    [
        ("null", None, None),
        ("int", -5, -5),
        ("double", 1, 1.0),
        ("float", "Infinity", float("inf")),
        ("bytes", "\x00\xff", b"\x00\xff"),
        (fixed(2), "ab", b"ab"),
        (enum("A", "B"), "B", "B"),
        (logical("int", "date"), 1, date(1970, 1, 2)),
        (logical("bytes", "decimal", precision=4, scale=2), "\x7d", Decimal("1.25")),
        ({"type": "array", "items": "bytes"}, ["a"], [b"a"]),
        ({"type": "map", "values": "double"}, {"k": 1}, {"k": 1.0}),
        (["null", "int"], None, None),
        (["null", "int"], 3, 3),
        (["bytes", "string"], "\u0100", "\u0100"),
        (INNER, {"a": 1}, {"a": 1, "b": b"\xff"}),
    ],
)
def test_values(of: Any, default: Any, value: Any) -> None:
    found = made(of, default)()
    assert found == value
    assert type(found) is type(value)


def test_every_value_is_a_new_one() -> None:
    make = made({"type": "array", "items": "int"}, [])
    make().append(1)
    assert make() == []


@pytest.mark.parametrize(
    ("of", "default"),
    [
        ("null", 0),
        ("boolean", 1),
        ("int", 2**31),
        ("int", True),
        ("long", 2**63),
        ("int", 1.0),
        ("string", 5),
        ("double", "1.5"),
        ("bytes", "\u0100"),
        (fixed(2), "abc"),
        (enum("A"), "B"),
        ({"type": "array", "items": "int"}, ["a"]),
        ({"type": "map", "values": "int"}, []),
        (["null", "int"], "x"),
        (INNER, {}),
        (INNER, {"a": 1, "other": 2}),
        (logical("int", "date"), 2**31 - 1),
    ],
)
def test_what_does_not_fit(of: Any, default: Any) -> None:
    with pytest.raises(UsageError, match="of the field x is no"):
        made(of, default)
