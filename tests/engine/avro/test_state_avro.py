"""Canonical state files: round trips, and fastavro as the other side."""

from __future__ import annotations

import datetime
import io
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import zstandard
from fastavro import _read as fastavro_read
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkish.avro.container import encode_long
from flinkish.engine.avro import state_avro
from flinkish.engine.avro.state_avro import (
    BLOCK_ROWS,
    FORMAT_KEY,
    AvroState,
    list_column,
    read_avro,
    row_schema,
    write_avro,
)
from flinkish.engine.rows.row_bytes import CannotEncode
from flinkish.engine.rows.types import Field, Struct, arrow_type, parse_struct
from tests.engine.rows.test_row_codec import tables, texts
from tests.support.examples import examples


def parsed(*fields: tuple[str, Any, bool]) -> Struct:
    made = [{"name": n, "type": t, "nullable": nullable} for n, t, nullable in fields]
    return parse_struct({"type": "struct", "fields": made})


def batch_of(struct: Struct, *columns: list[Any]) -> Any:
    schema = pa.schema(list(arrow_type(struct)))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def written(
    key: Struct, value: Struct | None, *batches: tuple[Any, Any], **more: Any
) -> tuple[bytes, int]:
    out = io.BytesIO()
    count = write_avro(out, key, value, iter(batches), **more)
    return out.getvalue(), count


def read(data: bytes) -> AvroState:
    return read_avro(io.BytesIO(data), "0.avro")


def tight(struct: Struct, batch: Any) -> Struct:
    """The schema without nulls for the columns that have none."""
    pairs = zip(struct.fields, batch.columns, strict=True)
    return Struct(tuple(Field(f.name, f.type, bool(c.null_count)) for f, c in pairs))


@examples(40, 120, tables(), tables(), st.sampled_from(["deflate", "zstandard"]), st.booleans())
def test_rows_come_back(first: Any, second: Any, codec: str, loose: bool) -> None:
    count = min(first[1].num_rows, second[1].num_rows)
    pairs = []
    for made, batch in (first, second):
        # From behind: batches are slices of larger ones as often as not.
        part = batch.slice(batch.num_rows - count)
        struct = parse_struct(made)
        pairs.append((struct if loose else tight(struct, part), part))
    (key, keys), (value, values) = pairs
    data, rows = written(key, value, (keys, values), (keys, values), codec=codec)
    assert rows == 2 * count
    found = read(data)
    assert (found.key, found.value) == (key, value)
    blocks = list(found.blocks)
    assert len(blocks) == (2 if count else 0)
    for block in blocks:
        for back, batch in zip(block, (keys, values), strict=True):
            back.validate(full=True)
            assert back.schema == batch.schema
            assert texts(back) == texts(batch)


@settings(max_examples=60, deadline=None)
@given(tables(), st.data())
def test_lists_come_back(table: Any, data: st.DataObject) -> None:
    made, batch = table
    value = parse_struct(made)
    elements = batch.to_struct_array()
    inner = st.integers(0, len(elements))
    cuts = sorted(data.draw(st.lists(inner, max_size=3)))
    offsets = pa.array([0, *cuts, len(elements)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, elements)
    key = parsed(("k", "long", False))
    keys = batch_of(key, list(range(len(lists))))
    values = pa.RecordBatch.from_arrays([lists], names=["list"])
    content, _ = written(key, value, (keys, values), lists=True)
    found = read(content)
    assert found.value == value
    assert found.metadata["flinkish.lists"] == "true"
    [(_, back)] = found.blocks
    assert back.column(0).type == arrow_type(list_column(value))[0].type
    found_lists = back.column(0)
    assert found_lists.offsets.to_pylist() == lists.offsets.to_pylist()
    assert texts(pa.RecordBatch.from_struct_array(found_lists.flatten())) == texts(batch)


EVERY_UTF8_LENGTH = "a\u00e9\u20ac\U0001f600"
FAR = parsed(
    ("day", "date", False),
    ("at", "timestamp", True),
    ("local", "timestamp_ntz", True),
    ("amount", "decimal(38,2)", True),
    ("small", "decimal(5,2)", False),
    ("text", "string", True),
    ("ratio", "double", False),
    ("part", "float", False),
    ("months", "interval year to month", True),
    ("span", "interval", True),
    ("shape", "variant", True),
)


def far_batch() -> Any:
    utc = datetime.timezone.utc
    early, late = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
    return batch_of(
        FAR,
        [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
        [early.replace(tzinfo=utc), late.replace(tzinfo=utc)],
        [early, late],
        [Decimal("-" + "9" * 36 + ".99"), Decimal("9" * 36 + ".99")],
        [Decimal("-1.28"), Decimal("0.00")],
        [EVERY_UTF8_LENGTH, ""],
        [-0.0, float("nan")],
        [float("-inf"), -0.0],
        [-14, None],
        [{"months": -1, "days": 2, "microseconds": -(1 << 63)}, None],
        [{"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}, None],
    )


def unpacked(file: Any) -> io.BytesIO:
    """A block of zstandard for fastavro, which knows another library for it."""
    packed = fastavro_read.read_bytes(file)  # type: ignore[attr-defined]
    return io.BytesIO(zstandard.ZstdDecompressor().decompress(packed))


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_any_avro_reader_reads_them(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = parsed(("id", "long", False))
    data, _ = written(key, FAR, (batch_of(key, [7, 8]), far_batch()), codec=codec)
    monkeypatch.setitem(fastavro_read.BLOCK_READERS, "zstandard", unpacked)
    reader = fastavro.reader(io.BytesIO(data))
    rows: list[Any] = list(reader)
    assert [row["key"] for row in rows] == [{"id": 7}, {"id": 8}]
    first, second = (row["value"] for row in rows)
    utc = datetime.timezone.utc
    assert first["day"] == datetime.date(1, 1, 1)
    assert second["day"] == datetime.date(9999, 12, 31)
    assert first["at"] == datetime.datetime(1, 1, 1, tzinfo=utc)
    assert second["local"] == datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
    assert first["amount"] == Decimal("-" + "9" * 36 + ".99")
    assert second["amount"] == Decimal("9" * 36 + ".99")
    assert (first["small"], second["small"]) == (Decimal("-1.28"), Decimal("0.00"))
    assert (first["text"], second["text"]) == (EVERY_UTF8_LENGTH, "")
    assert str(first["ratio"]) == "-0.0"
    assert str(second["ratio"]) == "nan"
    assert (first["part"], str(second["part"])) == (float("-inf"), "-0.0")
    assert (first["months"], second["months"]) == (-14, None)
    assert first["span"] == {"months": -1, "days": 2, "microseconds": -(1 << 63)}
    assert first["shape"] == {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}
    assert second["shape"] is None


def test_what_fastavro_writes_is_read() -> None:
    """The other way: Python values, encoded by fastavro against the schema in the header."""
    key = parsed(("id", "long", False), ("m", {**MAP, "keyType": "integer"}, True))
    schema: Any = fastavro.parse_schema(row_schema(key, FAR))
    names = FAR.fields
    batch = far_batch()
    rows = [
        {
            "key": {"id": i, "m": [{"key": 5, "value": "x"}, {"key": 4, "value": None}]},
            "value": {f.name: c[i].as_py() for f, c in zip(names, batch.columns, strict=True)},
        }
        for i in range(2)
    ]
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec="deflate", metadata={FORMAT_KEY: "1", "job": "a"})
    found = read(out.getvalue())
    assert (found.key, found.value) == (key, FAR)
    assert found.metadata == {FORMAT_KEY: "1", "job": "a"}
    [(keys, values)] = found.blocks
    assert texts(values) == texts(batch)
    assert keys.column(1).to_pylist() == [[(5, "x"), (4, None)]] * 2


MAP = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}


def test_the_example_of_the_specification() -> None:
    """A record of a long 27 and a string foo is 36 06 66 6f 6f; some zigzag numbers."""
    key = parsed(("a", "long", False), ("b", "string", False))
    data, _ = written(key, None, (batch_of(key, [27], ["foo"]), None), codec="deflate")
    block: Any  # its types leave out bytes_
    [block] = fastavro.block_reader(io.BytesIO(data))
    schema = block.writer_schema
    assert block.bytes_.getvalue() == bytes.fromhex("3606666f6f")
    assert schema["fields"][0]["name"] == "key"
    pairs = {
        0: "00",
        -1: "01",
        1: "02",
        -2: "03",
        -64: "7f",
        64: "8001",
        -(1 << 63): "ff" * 9 + "01",
    }
    for number, code in pairs.items():
        assert encode_long(number) == bytes.fromhex(code)


def test_every_size_of_a_number() -> None:
    """Varints of one to ten bytes; decimals of one to sixteen; sizes of lists and strings."""
    edges = sorted({s * ((1 << bits) + d) for bits in range(63) for d in (-1, 0) for s in (1, -1)})
    longs = [*edges, (1 << 63) - 1, -(1 << 63)]
    decimals = [Decimal(n * n) if i % 2 else Decimal(-n * n) for i, n in enumerate(longs)]
    sizes = (0, 1, 63, 64, 8191, 8192, 1 << 20)
    texts_ = ["x" * sizes[i % 7] if i < 21 else "" for i in range(len(longs))]
    lists = [list(range(sizes[i % 6])) if i < 18 else None for i in range(len(longs))]
    key = parsed(("n", "long", False), ("d", "decimal(38,0)", False), ("t", "string", False))
    value = parsed(("l", {"type": "array", "elementType": "integer"}, True))
    keys, values = batch_of(key, longs, decimals, texts_), batch_of(value, lists)
    data, _ = written(key, value, (keys, values), codec="deflate")
    blocks = list(read(data).blocks)
    assert pa.Table.from_batches(k for k, _ in blocks) == pa.Table.from_batches([keys])
    assert pa.Table.from_batches(v for _, v in blocks) == pa.Table.from_batches([values])
    for row, n, d, t, items in zip(
        fastavro.reader(io.BytesIO(data)), longs, decimals, texts_, lists, strict=True
    ):
        assert row == {"key": {"n": n, "d": d, "t": t}, "value": {"l": items}}


def test_what_nulls_cover_is_not_written() -> None:
    """Arrow may have values under nulls; in Avro they would be another value's bytes."""
    inner = [("t", "string", True), ("l", {"type": "array", "elementType": "long"}, True)]
    fields = [{"name": n, "type": t, "nullable": k} for n, t, k in inner]
    key = parsed(("s", {"type": "struct", "fields": fields}, True))
    strings, lists = pa.array(["a", "bc", "d"]), pa.array([[1], [2, 3], [4]])
    covered = pa.StructArray.from_arrays(
        [strings, lists], names=["t", "l"], mask=pa.array([False, True, False])
    )
    assert covered.field(0).null_count == 0
    batch = pa.RecordBatch.from_arrays([covered], names=["s"])
    data, _ = written(key, None, (batch, None))
    [(back, _)] = read(data).blocks
    assert back.to_pylist() == [
        {"s": {"t": "a", "l": [1]}},
        {"s": None},
        {"s": {"t": "d", "l": [4]}},
    ]


def test_strings_that_are_no_utf8_come_back() -> None:
    """Spark makes them by casts from binary, and keeps them."""
    key = parsed(("k", "string", True))
    odd = pa.array([b"\xff\xfe", None, b"ok"], pa.binary()).view(pa.string())
    data, _ = written(key, None, (pa.RecordBatch.from_arrays([odd], names=["k"]), None))
    [(back, none)] = read(data).blocks
    assert none is None
    assert back.column(0).view(pa.binary()).to_pylist() == [b"\xff\xfe", None, b"ok"]


def test_a_key_without_fields() -> None:
    """The key of an aggregation without keys."""
    key, value = Struct(()), parsed(("n", "long", True))
    empty = pa.Array.from_buffers(pa.struct([]), 2, [None], children=[])
    keys = pa.RecordBatch.from_struct_array(empty)
    data, rows = written(key, value, (keys, batch_of(value, [1, None])))
    assert rows == 2
    [(back, values)] = read(data).blocks
    assert (back.num_rows, back.num_columns) == (2, 0)
    assert values.column(0).to_pylist() == [1, None]
    only, _ = written(key, None, (keys, None))
    [(back, _)] = read(only).blocks
    assert back.num_rows == 2


def test_blocks_are_bounded() -> None:
    key = parsed(("k", "long", False), ("text", "string", True))
    count = 2 * BLOCK_ROWS + 5
    batch = batch_of(key, list(range(count)), ["x" * (i % 7) for i in range(count)])
    data, rows = written(key, None, (batch, None))
    assert rows == count
    sizes = [keys.num_rows for keys, _ in read(data).blocks]
    assert sizes == [BLOCK_ROWS, BLOCK_ROWS, 5]
    wide = batch_of(key, [1, 2, 3], ["y" * (3 << 20)] * 3)
    data, _ = written(key, None, (wide, None))
    assert [keys.num_rows for keys, _ in read(data).blocks] == [1, 1, 1]
    # Others may write larger blocks.
    out = io.BytesIO()
    records = ({"key": {"k": i, "text": None}} for i in range(count))
    schema = row_schema(key, None)
    fastavro.writer(out, schema, records, metadata={FORMAT_KEY: "1"}, sync_interval=1 << 30)
    assert [keys.num_rows for keys, _ in read(out.getvalue()).blocks] == sizes


NESTED = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": False}]}


def test_what_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    key = parsed(("id", "long", False), ("s", NESTED, True))
    good = batch_of(key, [1, 2], [None, {"x": 1}])
    assert written(key, None, (good, None))[1] == 2
    for bad, reason in (
        (batch_of(key, [None], [None]), "id is null, and its schema has no nulls"),
        (batch_of(key, [1], [{"x": None}]), "s.x is null, and its schema has no nulls"),
        (good.select([0]), "1 columns in place of 2"),
        (pa.RecordBatch.from_arrays([pa.array(["a"]), pa.nulls(1)], ["id", "s"]), "id is string"),
    ):
        with pytest.raises(CannotEncode, match=reason):
            written(key, None, (bad, None))
    with pytest.raises(CannotEncode, match="differ in their rows"):
        written(key, key, (good, good.slice(1)))
    with pytest.raises(ValueError, match="unsupported Avro codec lzma"):
        written(key, None, codec="lzma")
    with pytest.raises(ValueError, match="reserved"):
        written(key, None, metadata={"avro.codec": "null"})
    monkeypatch.setattr(state_avro, "_MAX_BLOCK", 3)  # as much as a reader takes
    with pytest.raises(CannotEncode, match="2 rows cannot be one block: they take 5 bytes"):
        written(key, None, (good, None))
