"""Unions whose values would be written as another type are refused where they are declared."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.errors import UsageError
from flinkish.state.avro.serializer import AvroSerializer
from tests.state.avro.test_resolution import DECIMAL, enum, field, fixed, logical, record

ARRAY = {"type": "array", "items": "int"}
DATE = logical("int", "date")


@pytest.mark.parametrize(
    ("union", "reason"),
    [
        (["float", "long"], "put long before it"),
        (["null", "double", "int", "long"], "put int before it"),
        ([DATE, "long"], "put long before it"),
        ([ARRAY, "bytes"], "put bytes before it"),
        ([DATE, "string"], "put string before it"),
        ([DATE, enum("A")], "put enum E before it"),
        ([logical("string", "uuid"), enum("A")], "put enum E before it"),
        ([ARRAY, fixed(2)], "put fixed F (2 bytes) before it"),
        ([logical("long", "timestamp-micros"), "int"], "put int before it"),
    ],
)
def test_a_type_that_another_would_swallow(union: Any, reason: str) -> None:
    with pytest.raises(UsageError, match="would be written as another type") as caught:
        AvroSerializer(record(field("x", union)))
    assert caught.value.hint == reason
    AvroSerializer(union[::-1] if len(union) == 2 else ["null", "int", "long", "double"])


@pytest.mark.parametrize(
    "union",
    [
        [record(field("a", "int"), name="A"), record(field("a", "long"), name="B")],
        [record(name="A"), record(name="B")],
        [{"type": "map", "values": "int"}, record(field("a", "int"))],
    ],
)
def test_dicts_that_do_not_say_what_they_are(union: Any) -> None:
    with pytest.raises(UsageError, match="a dict does not say which"):
        AvroSerializer({"type": "array", "items": union})


@pytest.mark.parametrize(
    ("union", "values"),
    [
        (
            ["null", "long", "double", "string", "bytes", "boolean"],
            [None, 2**60, 0.5, "x", b"", True],
        ),
        (["int", "long", "float", "double"], [1, 2**60, 0.1]),
        (["null", DECIMAL, "string"], [None, "x"]),
        (["string", enum("A")], ["A", "x"]),
        (["null", fixed(2), "bytes", ARRAY], [b"xx", b"x", [1]]),
        (
            [record(field("a", "int"), name="A"), record(field("b", "int", default=1), name="B")],
            [{"a": 1}, {"b": 1}],
        ),
    ],
)
def test_values_that_say_what_they_are(union: Any, values: list[Any]) -> None:
    serializer = AvroSerializer(union)
    for value in values:
        found = serializer.deserialize(serializer.serialize(value))
        assert found == value
        assert type(found) is type(value)
