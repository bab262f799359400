"""Avro's binary encoding by the specification's examples, and damage."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.avro import decoding
from flinkish.avro.decoding import PRIMITIVE_DECODERS, Cursor, DamagedAvro, Decode, read_value
from flinkish.errors import Corrupt
from tests.state.avro.test_resolution import encode


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (2, "04"), (-64, "7f"), (64, "8001")],
)
def test_the_specifications_numbers(number: int, data: str) -> None:
    assert read_value(decoding.decode_long, bytes.fromhex(data)) == number


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_long(number: int) -> None:
    assert read_value(decoding.decode_long, encode("long", number)) == number


def test_a_string_and_an_array_of_the_specification() -> None:
    assert read_value(decoding.decode_string, b"\x06foo") == "foo"
    numbers = decoding.array(decoding.decode_long)
    assert read_value(numbers, bytes.fromhex("04063600")) == [3, 27]
    assert read_value(numbers, bytes.fromhex("0304063600")) == [3, 27], "with the block's size"
    assert read_value(numbers, bytes.fromhex("0206023600")) == [3, 27], "two blocks"
    assert read_value(decoding.mapping(decoding.decode_long), b"\x02\x02a\x02\0") == {"a": 1}


DAMAGED: list[tuple[Decode, bytes, str]] = [
    (decoding.decode_boolean, b"\2", "2 is not a boolean"),
    (decoding.decode_long, b"\x80", "ends within a number"),
    (decoding.decode_long, b"\xff" * 11, "too long"),
    (decoding.decode_long, b"\xff" * 9 + b"\x7f", "more than 64 bits"),
    (decoding.decode_double, b"\0" * 7, "8 bytes cannot follow"),
    (decoding.decode_bytes, b"\x05", "-3 bytes cannot follow"),
    (decoding.decode_string, b"\x02\xff", "not UTF-8"),
    (decoding.choice(["A"]), b"\x02", "not an index of the enum's symbols"),
    (decoding.choice(["A"]), b"\x01", "not an index of the enum's symbols"),
    (decoding.union([decoding.decode_null]), b"\x02", "not an index of the union's types"),
    (decoding.array(decoding.decode_null), b"\xfe\xff\xff\xff\x0f\0", "elements cannot follow"),
    (decoding.fixed(3), b"ab", "3 bytes cannot follow"),
    (decoding.decode_null, b"x", "1 extra bytes"),
]


@pytest.mark.parametrize(("decode", "data", "reason"), DAMAGED)
def test_damage(decode: Decode, data: bytes, reason: str) -> None:
    with pytest.raises(Corrupt) as caught:
        read_value(decode, data)
    assert reason in caught.value.message


def test_errors_cross_processes() -> None:
    with pytest.raises(DamagedAvro) as caught:
        read_value(decoding.decode_long, b"\x80")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.message, copy.offset, copy.code) == (caught.value.message, 0, 15)


NULLS: Any = {"type": "array", "items": "null"}
ROW: Any = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "nulls", "type": NULLS},
        {"name": "names", "type": {"type": "array", "items": "bytes"}},
        {"name": "some", "type": ["null", "double"]},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
    ],
}


def test_a_schemas_values_are_fastavros() -> None:
    row = {"nulls": [None] * 3, "names": [b"a", b""], "some": 1.5, "sizes": {"x": -70}}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, ROW, row)
    assert read_value(decoding.compile_schema(ROW), out.getvalue()) == row


@pytest.mark.parametrize(
    ("schema", "empty", "has_empty"),
    [
        ("null", True, False),
        ("long", False, False),
        (["null", "long"], False, False),
        (NULLS, False, True),
        ([{"type": "record", "name": "R", "fields": []}, NULLS], False, True),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "null"}]}, True, False),
        (ROW, False, True),
    ],
)
def test_elements_without_bytes(schema: Any, empty: bool, has_empty: bool) -> None:
    assert decoding.takes_no_bytes(schema) == empty
    assert decoding.has_empty_items(schema) == has_empty


def test_elements_are_counted_over_all_arrays() -> None:
    decode = decoding.compile_schema({"type": "array", "items": NULLS})
    data = b"\x04" + b"\x06\0" * 2 + b"\0"  # two arrays of three nulls
    assert read_value(decode, data, max_items=8) == [[None] * 3] * 2
    with pytest.raises(DamagedAvro, match="3 elements cannot follow"):
        read_value(decode, data, max_items=7)
    only_empty = decoding.compile_schema(
        {"type": "array", "items": NULLS}, counted=decoding.takes_no_bytes
    )
    assert read_value(only_empty, data, max_items=6) == [[None] * 3] * 2
    with pytest.raises(DamagedAvro, match="3 elements cannot follow"):
        read_value(only_empty, data, max_items=5)


def test_a_long_text() -> None:
    with pytest.raises(DamagedAvro, match="a text of 3 bytes"):
        decoding.decode_string(Cursor(b"\x06foo", max_text=2))


def test_floats() -> None:
    assert read_value(PRIMITIVE_DECODERS["float"], struct.pack("<f", 1.5)) == 1.5
    assert decoding.as_float(16_777_217) == 16_777_216.0
