"""Rows decoded column by column: what fastavro reads, and no other bytes."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from flinkish.avro.container import encode_long
from flinkish.avro.decoding import DamagedAvro
from flinkish.engine.avro.decoder import RowDecoder
from flinkish.engine.avro.state_avro import _Form
from flinkish.engine.rows.types import LONG, Array, Field, Map, Struct, parse_struct
from tests.engine.avro.test_state_avro import parsed, tight
from tests.engine.rows.test_row_codec import tables, texts
from tests.support.examples import examples

#: What is raised for bytes that are damaged.
DAMAGE = (ValueError, TypeError, EOFError, LookupError, ArithmeticError, DamagedAvro)


def outcome(form: _Form, count: int, data: bytes) -> Any:
    try:
        [keys, _] = form.decode(count, data)
    except DAMAGE as error:
        return error
    keys.validate()
    try:
        return texts(keys)
    except (UnicodeDecodeError, OverflowError) as error:
        return repr(error)  # Python has no such string or date, and Spark refuses none of them


@examples(60, 400, tables(), st.booleans(), st.data())
def test_it_is_what_fastavro_reads(table: Any, loose: bool, data: st.DataObject) -> None:
    made, batch = table
    struct = parse_struct(made)
    flat = [i for i, field in enumerate(struct.fields) if RowDecoder.of([field.type]) is not None]
    struct, batch = Struct(tuple(struct.fields[i] for i in flat)), batch.select(flat)
    struct = struct if loose else tight(struct, batch)
    form = _Form.of(struct, None, lists=False)
    reference = replace(form, rows=None)
    for count, block in form.encode(batch, None):
        assert outcome(form, count, block) == outcome(reference, count, block) == texts(batch)
        changed = bytearray(block)
        for _ in range(3 if block else 0):
            at = data.draw(st.integers(0, len(block) - 1))
            changed[at] = data.draw(st.integers(0, 255))
            for damaged in (bytes(changed), bytes(changed[:at]), bytes(changed) + b"\0"):
                found, expected = (outcome(f, count, damaged) for f in (form, reference))
                # It refuses some that fastavro takes and nobody writes, as a union's branch -1.
                assert isinstance(found, Exception) or found == expected


def test_arrays_and_maps_are_left_to_fastavro() -> None:
    flat = Struct((Field("a", LONG, nullable=True),))
    assert RowDecoder.of([flat, flat]) is not None
    for nested in (Array(flat), Map(LONG, LONG), Struct((Field("a", Array(LONG), True),))):
        assert RowDecoder.of([flat, nested]) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x02" + b"\x80" * 9 + b"\x02", "more than 64 bits"),
        (b"\x02" + b"\x80" * 10 + b"\x01", "too long"),
        (b"\x04\x02", "another branch"),
        (b"\x02\x02\x02", "not those of 1 rows"),
        (b"\x02\x80", "not those of 1 rows"),
        (b"", "not those of 1 rows"),
    ],
)
def test_damaged_numbers(data: bytes, reason: str) -> None:
    decoder = RowDecoder.of([Struct((Field("a", LONG, nullable=True),))])
    assert decoder is not None
    with pytest.raises(ValueError, match=reason):
        decoder.decode(data, 1)


@pytest.mark.parametrize(
    ("size", "reason"),
    [(b"\x01", "negative"), (b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "too long")],
)
def test_damaged_sizes(size: bytes, reason: str) -> None:
    decoder = RowDecoder.of([parsed(("a", "string", False))])
    assert decoder is not None
    with pytest.raises(ValueError, match=reason):
        decoder.decode(size, 1)
    with pytest.raises((ValueError, IndexError)):
        decoder.decode(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 2)


def test_a_large_block_takes_little_more_memory_than_its_bytes() -> None:
    decoder = RowDecoder.of([parsed(("a", "binary", False), ("n", "long", False))])
    assert decoder is not None
    size = 16 << 20
    data = encode_long(size) + bytes(size) + b"\xd8\x04"
    tracemalloc.start()
    try:
        [column] = decoder.decode(data, 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * size
    assert column.field(1).to_pylist() == [300]
    assert column.field(0)[0].as_buffer().size == size
    with pytest.raises(ValueError, match="a number is too long"):
        decoder.decode(data[:-2] + b"\xff" * 10 + b"\x01", 1)


def test_long_strings() -> None:
    decoder = RowDecoder.of([parsed(("a", "string", True))])
    assert decoder is not None
    texts = ["x" * 63, None, "y" * 64, "z" * 20_000, ""]
    rows = [b"\x00" if t is None else b"\x02" + encode_long(len(t)) + t.encode() for t in texts]
    [column] = decoder.decode(b"".join(rows), len(rows))
    assert column.field(0).to_pylist() == texts
    assert column.type == pa.struct([("a", pa.string())])
