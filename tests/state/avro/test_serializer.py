"""Values of Avro schemas: bytes that every Avro tool reads, and what is refused."""

from __future__ import annotations

import io
import json
import pickle
from collections import UserList
from datetime import datetime, time, timezone
from decimal import Decimal
from time import monotonic
from types import MappingProxyType
from typing import Any

import fastavro
import pytest

from flinkish.errors import Corrupt, UsageError
from flinkish.state.avro.serializer import AvroSerializer, AvroSerializerSnapshot
from flinkish.state.builtin.primitives import LongSerializer
from flinkish.state.generations import restore_state
from flinkish.state.serializers import Verdict
from flinkish.state.snapshots import read_snapshot, write_snapshot
from tests.state.avro.test_resolution import DECIMAL, TREE, enum, field, fixed, logical, record

SCHEMA = record(
    field("n", "int"),
    field("at", logical("long", "timestamp-micros")),
    field("price", logical("bytes", "decimal", precision=9, scale=2)),
    field("kind", enum("A", "B")),
    field("raw", fixed(2)),
    field("maybe", ["null", "string"], default=None),
    field("by_name", {"type": "map", "values": {"type": "array", "items": "double"}}),
)
VALUE = {
    "n": 1,
    "at": datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=timezone.utc),
    "price": Decimal("12.50"),
    "kind": "B",
    "raw": b"xy",
    "maybe": "text",
    "by_name": {"a": [1.5], "b": []},
}
ARRAY = {"type": "array", "items": "int"}
DATE = logical("int", "date")


def test_the_bytes_are_avros() -> None:
    serializer = AvroSerializer(SCHEMA)
    data = serializer.serialize(VALUE)
    found = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(SCHEMA), None)
    assert found == VALUE == serializer.deserialize(data)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("long", 5),
        ('"long"', 5),
        ({"type": "array", "items": "int"}, [1, 2]),
        (["null", "string"], None),
        (json.dumps(SCHEMA), VALUE),
        (TREE, {"value": 1, "children": [{"value": 2, "children": []}]}),
        ({"type": "array", "items": "null"}, [None] * 5),
        ([record(field("a", "int"), name="x.A"), record(field("b", "x.A"), name="B")], {"a": 1}),
    ],
)
def test_schemas_of_every_kind(schema: Any, value: Any) -> None:
    serializer = AvroSerializer(schema)
    assert serializer.deserialize(serializer.serialize(value)) == value
    assert pickle.loads(pickle.dumps(serializer)) == serializer


def test_a_field_that_a_dict_lacks_gets_its_default() -> None:
    serializer = AvroSerializer(SCHEMA)
    without = {name: each for name, each in VALUE.items() if name != "maybe"}
    assert serializer.deserialize(serializer.serialize(without))["maybe"] is None


@pytest.mark.parametrize(
    "value",
    [
        {**VALUE, "n": "1"},
        {**VALUE, "kind": "C"},
        {**VALUE, "raw": b"xyz"},
        {},
        None,
        {**VALUE, "unknown": 1},
        {**VALUE, "price": Decimal("1.234")},
    ],
)
def test_values_of_another_schema_are_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="the value does not match the schema Stats"):
        AvroSerializer(SCHEMA).serialize(value)


@pytest.mark.parametrize(
    ("type_", "default", "value"),
    [
        ("bytes", "\u00ff", b"\xff"),
        (fixed(2), "a\u00ff", b"a\xff"),
        (logical("bytes", "decimal", precision=9, scale=2), "\u0001", Decimal("0.01")),
        ({"type": "array", "items": record(field("b", "bytes"))}, [{"b": "x"}], [{"b": b"x"}]),
    ],
)
def test_a_default_of_bytes_is_written_as_its_value(type_: Any, default: Any, value: Any) -> None:
    serializer = AvroSerializer(record(field("x", type_, default=default), name="Outer"))
    assert serializer.deserialize(serializer.serialize({})) == {"x": value}


NAIVE = datetime(2024, 2, 29, 1, 2, 3)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (logical("string", "uuid"), "not-a-uuid"),
        (DATE, 10**8),
        (DATE, NAIVE),
        (logical("long", "timestamp-micros"), NAIVE),
        (logical("long", "local-timestamp-micros"), NAIVE.replace(tzinfo=timezone.utc)),
        (logical("long", "timestamp-millis"), VALUE["at"]),
        (logical("int", "time-millis"), time(1, 2, 3, 456789)),
        (["null", {"type": "map", "values": logical("int", "date")}], {"x": 10**8}),
        ("long", 1.9),
        ("long", True),
        ("int", 2**40),
        ("boolean", "x"),
        ("double", "1.5"),
        ("float", 1e300),
        ({"type": "array", "items": "string"}, "abc"),
        ({"type": "array", "items": "int"}, {1: 2}),
    ],
)
def test_a_value_that_would_be_read_as_another_or_not_at_all_is_refused(
    schema: Any, value: Any
) -> None:
    with pytest.raises(UsageError, match="the value does not match the schema"):
        AvroSerializer(schema).serialize(value)


MOMENTS = [
    "null",
    record(field("at", logical("long", "timestamp-millis")), name="R"),
    {"type": "array", "items": logical("long", "timestamp-millis")},
]


@pytest.mark.parametrize("at", [NAIVE, VALUE["at"]])
def test_the_moments_in_any_form_of_a_record_or_an_array_are_compared(at: datetime) -> None:
    serializer = AvroSerializer(MOMENTS)
    for form in (
        lambda each: ("R", {"at": each}),
        lambda each: MappingProxyType({"at": each}),
        lambda each: UserList([each]),
    ):
        serializer.serialize(form(NAIVE.replace(microsecond=456000, tzinfo=timezone.utc)))
        with pytest.raises(UsageError, match="another value would be read from its bytes"):
            serializer.serialize(form(at))


@pytest.mark.parametrize("value", [0.1, float("inf"), 3, [0.1, 2.5]])
def test_digits_that_a_float_does_not_have_are_rounded(value: Any) -> None:
    AvroSerializer(["float", {"type": "array", "items": "float"}]).serialize(value)


def test_a_value_too_deep_to_be_read_is_not_written() -> None:
    serializer = AvroSerializer(TREE)
    tree: dict[str, Any] = {"value": 0, "children": []}
    for _ in range(100):
        tree = {"value": 0, "children": [tree]}
    assert serializer.deserialize(serializer.serialize(tree)) == tree
    for _ in range(300):
        tree = {"value": 0, "children": [tree]}
    with pytest.raises(UsageError, match="the value does not match the schema"):
        serializer.serialize(tree)


@pytest.mark.parametrize("schema", [SCHEMA, TREE, {"type": "array", "items": "null"}])
def test_damaged_bytes(schema: Any) -> None:
    serializer = AvroSerializer(schema)
    for data in (b"", b"\xff" * 30, b"\x02" * 3, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
        with pytest.raises(Corrupt):
            serializer.deserialize(data)


def test_a_few_bytes_do_not_become_a_million_values() -> None:
    data = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\0"  # an array of 2 ** 63 - 1 nulls
    start = monotonic()
    with pytest.raises(Corrupt, match="elements cannot follow"):
        AvroSerializer({"type": "array", "items": "null"}).deserialize(data)
    assert monotonic() - start < 60


def test_the_snapshot_is_the_schema() -> None:
    serializer = AvroSerializer(SCHEMA)
    snapshot = read_snapshot(write_snapshot(serializer.snapshot_configuration()), "the state x")
    assert isinstance(snapshot, AvroSerializerSnapshot)
    assert snapshot.schema == SCHEMA
    assert snapshot.restore_serializer() == serializer
    assert snapshot.type_name == serializer.type_name == "Avro record Stats"
    assert snapshot.resolve_schema_compatibility(serializer).verdict is Verdict.AS_IS
    (reason,) = snapshot.resolve_schema_compatibility(LongSerializer()).reasons
    assert "Avro record Stats -> int" in reason


def test_old_bytes_are_read_by_a_reader_that_is_compiled_once() -> None:
    old = AvroSerializer(record(field("n", "int"), field("gone", "string")))
    new = AvroSerializer(
        record(field("count", "double", aliases=["n"]), field("x", "int", default=7))
    )
    found = restore_state(old.snapshot_configuration(), new, "the state x")
    data = old.serialize({"n": 3, "gone": "x"})
    assert found.read(data) == {"count": 3.0, "x": 7}
    assert new.deserialize(found.migrate(data)) == {"count": 3.0, "x": 7}
    assert pickle.loads(pickle.dumps(found.reader)).deserialize(data) == found.read(data)
    assert found.reader.type_name == "Avro record Stats"


def test_a_default_that_is_none_of_its_type_is_found_where_it_is_declared() -> None:
    with pytest.raises(UsageError, match="the default 'xyz' of the field x is not of type fixed F"):
        AvroSerializer(record(field("x", fixed(2), default="xyz")))


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


SHORT = record(field("b", "int"), name="A")
LONG = record(field("b", "int"), field("c", "int", default=0), name="B")


def test_a_record_that_another_with_defaults_would_swallow() -> None:
    with pytest.raises(UsageError, match="a record A would be written as the record B") as caught:
        AvroSerializer([LONG, SHORT])
    assert caught.value.hint == "put record A before it"


@pytest.mark.parametrize(
    ("union", "values"),
    [
        ([SHORT, LONG], [{"b": 1}, {"b": 1, "c": 2}]),
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
