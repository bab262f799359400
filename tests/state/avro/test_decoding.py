"""Avro's binary encoding by the specification's examples, and damage."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.errors import Corrupt
from flinkish.state.avro import decoding
from flinkish.state.avro.decoding import PRIMITIVE_DECODERS, Decode, read_value
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
    (decoding.decode_boolean, b"\2", "2 is no boolean"),
    (decoding.decode_long, b"\x80", "ends within a number"),
    (decoding.decode_long, b"\xff" * 11, "too long"),
    (decoding.decode_long, b"\xff" * 9 + b"\x7f", "more than 64 bits"),
    (decoding.decode_double, b"\0" * 7, "8 bytes cannot follow"),
    (decoding.decode_bytes, b"\x05", "-3 bytes cannot follow"),
    (decoding.decode_string, b"\x02\xff", "not UTF-8"),
    (decoding.choice(["A"]), b"\x02", "no number of the enum's symbols"),
    (decoding.choice(["A"]), b"\x01", "no number of the enum's symbols"),
    (decoding.union([decoding.decode_null]), b"\x02", "no number of the union's types"),
    (decoding.array(decoding.decode_null), b"\xfe\xff\xff\xff\x0f\0", "elements cannot follow"),
    (decoding.fixed(3), b"ab", "3 bytes cannot follow"),
    (decoding.decode_null, b"x", "1 bytes too many"),
]


@pytest.mark.parametrize(("decode", "data", "reason"), DAMAGED)
def test_damage(decode: Decode, data: bytes, reason: str) -> None:
    with pytest.raises(Corrupt) as caught:
        read_value(decode, data)
    assert reason in caught.value.message


def test_floats() -> None:
    assert read_value(PRIMITIVE_DECODERS["float"], struct.pack("<f", 1.5)) == 1.5
    assert decoding.as_float(16_777_217) == 16_777_216.0
