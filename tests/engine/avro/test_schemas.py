"""Avro schemas of state schemas, held against the Avro specification and fastavro."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fastavro import parse_schema
from hypothesis import given
from hypothesis import strategies as st

from flinkish.engine.avro.schemas import avro_schema, spark_struct, unique_names
from flinkish.engine.rows.types import (
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
    parse_struct,
    parse_type,
    struct_json,
)
from flinkish.engine.rows.unsafe_rows import UnknownType
from tests.engine.rows.test_row_codec import LEAVES
from tests.support.examples import examples

NAMES = st.sampled_from(["sum", "sum_2", "count(1)", "", "1st", "a.b", "größe", "Sum", "key"])
DECIMALS = st.builds(Decimal, st.integers(1, 38), st.integers(-3, 38))


def struct_of(types: st.SearchStrategy[DataType], least: int) -> st.SearchStrategy[Struct]:
    fields = st.lists(st.builds(Field, NAMES, types, st.booleans()), min_size=least, max_size=5)
    return st.builds(Struct, fields.map(tuple))


TYPES: st.SearchStrategy[DataType] = st.recursive(
    st.sampled_from([parse_type(name) for name in LEAVES]) | DECIMALS,
    lambda inner: (
        st.builds(Array, inner) | st.builds(Map, inner, inner) | struct_of(inner, least=1)
    ),
    max_leaves=8,
)
STRUCTS = struct_of(TYPES, least=0)


@examples(60, 200, STRUCTS)
def test_schemas_come_back_exactly(struct: Struct) -> None:
    schema = avro_schema(struct, "flinkish.row.value")
    parse_schema(schema)  # names are valid and do not repeat, defaults fit, decimals are allowed
    written = json.loads(json.dumps(schema))
    assert spark_struct(written) == struct
    assert parse_struct(json.loads(json.dumps(struct_json(struct)))) == struct


@given(st.lists(st.sampled_from(["a", "a_2", "a_2_2", "a b", "a-b", "a_b"]), max_size=8))
def test_names_do_not_repeat(names: list[str]) -> None:
    for found in (unique_names(names), unique_names(names, lambda n: re.sub("[^a-z0-9_]", "_", n))):
        assert len(set(found)) == len(names)
    found = unique_names(names)
    # A name that is there keeps to the first field that has it.
    assert all(found[names.index(name)] == name for name in names)


def parsed(*fields: tuple[str, Any, bool]) -> Struct:
    made = [{"name": n, "type": t, "nullable": nullable} for n, t, nullable in fields]
    return parse_struct({"type": "struct", "fields": made})


def test_the_forms() -> None:
    """As the specification writes unions, defaults and logical types."""
    struct = parsed(
        ("sum", "long", True),
        ("sum", "decimal(10,2)", False),
        ("count(1)", "short", False),
        ("at", "timestamp", True),
        ("local", "timestamp_ntz", False),
        ("day", "date", False),
        ("nothing", "void", True),
        ("m", {"type": "map", "keyType": "long", "valueType": "string"}, False),
    )
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    entry = {
        "type": "record",
        "name": "state.m.entry",
        "fields": [
            {"name": "key", "type": "long"},
            {"name": "value", "type": ["null", "string"]},
        ],
    }
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    assert avro_schema(struct, "state")["fields"] == [
        {"name": "sum", "type": ["null", "long"], "default": None, "spark.name": "sum"},
        {"name": "sum_2", "type": decimal, "spark.name": "sum"},
        {
            "name": "count_1_",
            "type": {"type": "int", "spark.type": "short"},
            "spark.name": "count(1)",
        },
        {"name": "at", "type": ["null", micros], "default": None, "spark.name": "at"},
        {
            "name": "local",
            "type": {"type": "long", "logicalType": "local-timestamp-micros"},
            "spark.name": "local",
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "spark.name": "day"},
        {"name": "nothing", "type": "null", "default": None, "spark.name": "nothing"},
        {
            "name": "m",
            "type": {"type": "array", "items": entry, "spark.type": "map"},
            "spark.name": "m",
        },
    ]


def test_a_schema_that_lost_its_properties() -> None:
    """Avro tools may drop what they do not know."""
    struct = parsed(("sum(x)", "byte", True), ("d", "decimal(9,3)", False))
    text = json.dumps(avro_schema(struct, "state"))
    bare = json.loads(
        text.replace('"spark.type": "byte"', '"doc": ""').replace('"spark.name"', '"doc"')
    )
    assert spark_struct(bare) == parsed(("sum_x_", "integer", True), ("d", "decimal(9,3)", False))


@pytest.mark.parametrize(
    "schema",
    [
        "long",
        {"type": "record", "name": "a", "fields": [{"name": "x", "type": ["long", "null"]}]},
        {"type": "record", "name": "a", "fields": [{"name": "x", "type": "a"}]},
        {"type": "record", "name": "a", "fields": [{"name": "x", "type": {"type": "map"}}]},
        {"type": "record", "name": "a"},
        {"type": "record", "fields": 3},
        None,
        ["null", "long", "string"],
    ],
)
def test_foreign_schemas_are_refused(schema: Any) -> None:
    with pytest.raises(UnknownType, match="not a state schema"):
        spark_struct(schema)
