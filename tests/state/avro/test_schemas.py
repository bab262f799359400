"""What is a schema, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.errors import UsageError
from flinkish.state.avro.resolution import resolve
from flinkish.state.avro.schemas import MAX_DEPTH, Fixed, Record, Scalar, parse_schema, walk
from flinkish.state.serializers import Verdict
from tests.state.avro.test_resolution import TREE, enum, field, fixed, logical, record


def test_names_have_their_namespaces() -> None:
    schema = record(
        field("a", enum("A")), field("b", "E"), name="Stats", namespace="x.y", aliases=["Old"]
    )
    root = parse_schema(schema).root
    assert isinstance(root, Record)
    assert (root.name, root.short, root.aliases) == ("x.y.Stats", "Stats", ("Old",))
    assert root.fields[0].type is root.fields[1].type
    assert parse_schema(schema).name == "Stats"


def test_a_schema_that_contains_itself_is_walked_once() -> None:
    root = parse_schema(TREE).root
    assert isinstance(root, Record)
    assert [each.kind for each in walk(root)].count("record") == 1


@pytest.mark.parametrize(
    ("schema", "logical_type"),
    [
        (logical("int", "date"), "date"),
        (logical("string", "date"), ""),
        (logical("int", "unheard-of"), ""),
        (logical("bytes", "decimal", precision=4, scale=2), "decimal"),
    ],
)
def test_logical_types_count_on_their_own_types_only(schema: Any, logical_type: str) -> None:
    root = parse_schema(schema).root
    assert isinstance(root, Scalar)
    assert root.logical == logical_type


def test_how_messages_call_types() -> None:
    def shown(schema: Any) -> str:
        return str(parse_schema(schema).root)

    assert shown(["null", "int"]) == "[null, int]"
    assert shown(logical("long", "timestamp-millis")) == "long (timestamp-millis)"
    assert shown(logical("bytes", "decimal", precision=4, scale=2)) == "decimal(4, 2)"
    assert shown({"type": "map", "values": "int"}) == "map"
    decimal = fixed(4, **logical("fixed", "decimal", precision=4))
    assert shown(decimal) == "fixed F (4 bytes, decimal(4, 0))"
    assert isinstance(parse_schema(decimal).root, Fixed)


def test_types_within_each_other_are_counted() -> None:
    schema: Any = "int"
    for _ in range(MAX_DEPTH - 1):
        schema = {"type": "array", "items": schema}
    assert resolve(schema, schema).verdict is Verdict.AS_IS
    with pytest.raises(UsageError, match="more than 64 nested types"):
        parse_schema({"type": "array", "items": schema})


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "JSONDecodeError"),
        ("unknown", "JSONDecodeError"),
        ('"unknown"', "UnknownType"),
        ({"type": "record", "fields": []}, "name"),
        (
            {"type": "error", "name": "A", "fields": []},
            "'error' is not a type that state can contain",
        ),
        (record(field("a", "int"), field("a", "int")), "has the field a twice"),
        (record(field("a", "Unknown")), "UnknownType"),
        (["int", "int"], "has int twice"),
        (["int", ["null"]], "contains a union"),
        ([], "a union has no types"),
        (logical("bytes", "decimal"), "the precision None"),
        (enum("A", default="B"), "efault"),
        (fixed(-1), "the size -1"),
        (record(field("a", "int", aliases="b")), "aliases"),
        ({"a": float("nan")}, "ValueError"),
        (object(), "TypeError"),
    ],
)
def test_what_is_no_schema(schema: Any, reason: str) -> None:
    with pytest.raises(UsageError, match="it is not a valid Avro schema") as caught:
        parse_schema(schema)
    assert reason in caught.value.message
