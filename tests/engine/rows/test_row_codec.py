"""Random schemas and rows, there and back; and rows that are damaged."""

from __future__ import annotations

import random
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.engine.rows.row_bytes import CannotEncode
from flinkish.engine.rows.row_codec import compile_key, compile_schema
from flinkish.engine.rows.types import parse_type
from flinkish.engine.rows.unsafe_rows import (
    UnknownType,
    check_rows,
    is_variable,
    shape_of,
    types_of,
)
from tests.support.examples import attempt, examples


def schema(*types: Any) -> dict[str, Any]:
    """A struct whose fields may have the same names, as Spark's state schemas do."""
    fields = [{"name": f"f{i % 3}", "type": t, "nullable": True} for i, t in enumerate(types)]
    return {"type": "struct", "fields": fields}


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    # scaleb would round to the context's digits
    return st.integers(-most, most).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )


#: From the year 1 to 9999: Python has no others to compare.
DAYS = st.integers(-719_162, 2_932_896)
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": integers(8),
    "short": integers(16),
    "integer": integers(32),
    "long": integers(64),
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal(5,2)": decimals(5, 2),
    "decimal(18,0)": decimals(18, 0),
    "decimal(19,3)": decimals(19, 3),
    "decimal(38,10)": decimals(38, 10),
    "date": DAYS,
    "timestamp": MICROS,
    "timestamp_ntz": MICROS,
    "time(6)": st.integers(0, 86_400_000_000_000 - 1),
    "interval day to second": integers(64),
    "interval year to month": integers(32),
    "interval": st.tuples(integers(32), integers(32), integers(64)).map(
        lambda t: dict(zip(("months", "days", "microseconds"), t, strict=True))
    ),
    "string": st.text(max_size=20),
    "varchar(7)": st.text(max_size=7),
    "binary": st.binary(max_size=20),
    "void": st.none(),
    "variant": st.fixed_dictionaries(
        {"value": st.binary(max_size=12), "metadata": st.binary(max_size=12)}
    ),
}
#: A type (JSON) with a strategy of its values.
Typed = tuple[Any, st.SearchStrategy[Any]]


def nested(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def array(of: Typed) -> Typed:
        values = st.lists(st.none() | of[1], max_size=5)
        return {"type": "array", "elementType": of[0], "containsNull": True}, values

    def mapping(both: tuple[Typed, Typed]) -> Typed:
        key, value = both
        pairs = st.tuples(key[1].filter(lambda k: k is not None), st.none() | value[1])
        data_type = {"type": "map", "keyType": key[0], "valueType": value[0]}
        return data_type, st.lists(pairs, max_size=4)

    def struct(parts: list[Typed]) -> Typed:
        # Arrow takes structs by name from Python, so that here names do not repeat.
        made = schema(*(t for t, _ in parts))
        for i, field in enumerate(made["fields"]):
            field["name"] = f"n{i}"
        fields = {f"n{i}": st.none() | values for i, (_, values) in enumerate(parts)}
        return made, st.fixed_dictionaries(fields)

    keys = st.sampled_from([(t, LEAVES[t]) for t in ("string", "long", "decimal(38,10)", "date")])
    return (
        inner.map(array)
        | st.tuples(keys, inner).map(mapping)
        | st.lists(inner, min_size=1, max_size=3).map(struct)
    )


TYPES = st.recursive(st.sampled_from(list(LEAVES.items())), nested, max_leaves=5)


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    """A schema and a batch of it."""
    chosen = draw(st.lists(TYPES, min_size=1, max_size=6))
    count = draw(st.integers(0, 5))
    made = schema(*(t for t, _ in chosen))
    codec = compile_schema(made)
    columns = [
        pa.array([draw(st.none() | values) for _ in range(count)], codec.schema.field(i).type)
        for i, (_, values) in enumerate(chosen)
    ]
    return made, pa.RecordBatch.from_arrays(columns, schema=codec.schema)


def texts(batch: Any) -> list[str]:
    """The columns as text: NaNs equal nothing."""
    return [str(column.to_pylist()) for column in batch.columns]


@examples(40, 120, tables(), st.integers(0, 3))
def test_rows_come_back(table: tuple[dict[str, Any], Any], start: int) -> None:
    made, batch = table
    codec = compile_schema(made)
    rows = codec.encode(batch).rows()
    assert check_rows(rows, shape_of(types_of(made))) is None
    decoded = codec.decode(rows)
    decoded.validate(full=True)
    assert texts(decoded) == texts(batch)
    assert codec.encode(decoded).rows() == rows
    part = batch.slice(start)
    assert codec.encode(part, prefix=b"\x07").rows() == [b"\x07" + row for row in rows[start:]]
    assert codec.decode([b"\x07" + row for row in rows], skip=1).num_rows == len(rows)


@examples(25, 60, tables(), st.randoms(use_true_random=False))
def test_damage_is_named_or_in_its_row(
    table: tuple[dict[str, Any], Any], chosen: random.Random
) -> None:
    """A row has no digest: another value in it is not noticed, but other rows are as they were."""
    made, batch = table
    codec = compile_schema(made)
    rows = codec.encode(batch).rows()
    whole = [texts(batch.slice(i, 1)) for i in range(len(rows))]
    for index, row in enumerate(rows):
        for _ in range(20):
            data = bytearray(row)
            at = chosen.randrange(len(data) * 8)
            data[at // 8] ^= 1 << at % 8
            damaged = bytes(data[: chosen.choice([len(data), chosen.randrange(len(data))])])
            block = [*rows[:index], damaged, *rows[index + 1 :]]
            found = attempt(partial(codec.decode, block, name="a.delta"), StateFormatError)
            if isinstance(found, StateFormatError):
                assert found.file == "a.delta"
                assert found.reason
                continue
            assert len(damaged) % 8 == 0, "rows are of whole words"
            assert found.num_rows == len(rows)
            for other in {*range(len(rows))} - {index}:
                assert texts(found.slice(other, 1)) == whole[other]


def test_the_damaged_row_is_named() -> None:
    codec = compile_schema(schema("long", "string"))
    [row] = codec.encode(
        pa.RecordBatch.from_arrays([pa.array([5]), pa.array(["abc"])], schema=codec.schema)
    ).rows()
    assert len(row) == 32
    for damaged, reason in (
        (row[:24] + b"", "row 2 of a block: a value lies outside its row"),
        (row[:16], "row 2 of a block: 2 fields need 24 bytes at least"),
        (row[:-1], "row 2 has 31 bytes: no multiple of 8"),
    ):
        with pytest.raises(StateFormatError, match=f"2.snapshot: {reason}"):
            codec.decode([row, row, damaged, row], name="2.snapshot")


@pytest.mark.parametrize(
    ("data_type", "values", "reason"),
    [
        ("decimal(5,2)", pa.array([Decimal(10**20)], pa.decimal128(38, 2)), "cannot be encoded"),
        ("long", pa.array(["no number"]), "cannot be encoded"),
        ("interval", pa.array([{"months": 1, "days": None, "microseconds": 2}]), "is null"),
        ("variant", pa.array([{"value": b"x", "metadata": None}]), "a part of a variant is null"),
        (schema("long", "long"), pa.array([{"f0": 1}]), "1 fields in place of 2"),
    ],
)
def test_values_that_do_not_fit_are_refused(data_type: Any, values: Any, reason: str) -> None:
    batch = pa.RecordBatch.from_arrays([values], names=["c"])
    with pytest.raises(CannotEncode, match=reason):
        compile_schema(schema(data_type)).encode(batch)
    with pytest.raises(CannotEncode, match="1 columns in place of 2"):
        compile_schema(schema(data_type, "long")).encode(batch)


def test_rows_without_fields() -> None:
    """The key of an aggregation without keys."""
    codec = compile_schema(schema())
    batch = codec.decode([b"", b""])
    assert batch.num_rows == 2
    assert codec.encode(batch).rows() == [b"", b""]


def test_nulls_that_cover_values_are_left_out() -> None:
    """Arrow may have values under a null list, map or struct; a row has none."""
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3]), pa.array(["a", "b", "c"]))
    masked = pa.Array.from_buffers(
        lists.type, 2, [pa.py_buffer(b"\x02"), lists.buffers()[1]], children=[lists.values]
    )
    codec = compile_schema(schema({"type": "array", "elementType": "string"}))
    rows = codec.encode(pa.RecordBatch.from_arrays([masked], names=["c"])).rows()
    plain = codec.encode(pa.RecordBatch.from_arrays([pa.array([None, ["c"]])], names=["c"]))
    assert rows == plain.rows()


@pytest.mark.parametrize("name", LEAVES)
def test_both_readers_of_types_agree(name: str) -> None:
    codec = compile_schema(schema(name))
    parts = 0 if name == "void" else 16
    empty = codec.encode(pa.RecordBatch.from_arrays([pa.nulls(1)], names=["c"]))
    reserved = name in {"decimal(19,3)", "decimal(38,10)", "interval"}
    assert len(empty.rows()[0]) == (16 + parts if reserved else 16)
    assert is_variable(name) or not reserved


@pytest.mark.parametrize(
    "data_type",
    ["thing", "decimal(39,0)", {"type": "thing"}, {"type": "array"}, {"type": "struct"}, 7, None],
)
def test_unknown_types_are_refused(data_type: Any) -> None:
    with pytest.raises(UnknownType, match="unknown type"):
        parse_type(data_type)


def test_types_with_the_same_bytes() -> None:
    point = {"type": "udt", "class": "a.b", "sqlType": schema("double", "double")}
    assert parse_type(point) == parse_type(schema("double", "double"))
    assert parse_type("char(3)") == parse_type("string collate UTF8_LCASE") == parse_type("string")
    assert parse_type("geometry(4326)") == parse_type("binary")
    assert parse_type("timestamp_ltz") == parse_type("timestamp")


RANGE = {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [2, 0]}
NUMBERS = ("long", "integer", "short", "byte", "double", "float")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.data())
def test_range_keys_come_back_and_sort(first: str, second: str, data: st.DataObject) -> None:
    """As Spark says of them: negative values, positive ones, nulls; then the second column."""
    columns = [
        data.draw(st.lists(st.none() | LEAVES[t], min_size=6, max_size=6))
        for t in (first, "string", second)
    ]
    codec = compile_key(schema(first, "string", second), RANGE)
    arrays = [
        pa.array(values, field.type)
        for values, field in zip(columns, codec.whole.schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=codec.whole.schema)
    keys = codec.encode(batch, framed=True)
    decoded = codec.decode(keys, framed=True)
    assert texts(decoded) == texts(batch)
    assert codec.encode(decoded, framed=True) == keys
    numbers: list[Any] = columns[2]
    known = [i for i, n in enumerate(numbers) if n is not None and n == n]
    # The first ordering column stands behind size, version, nulls and two slots.
    at = 4 + 1 + 8 + 16
    found = [keys[i][at : at + 9] for i in known]
    by_key = sorted(range(len(known)), key=lambda i: found[i])
    ordered = [numbers[known[i]] for i in by_key]
    assert ordered == sorted(ordered)


@pytest.mark.parametrize(
    "encoder",
    [
        {"keyStateEncoderType": "OtherSpec"},
        {"keyStateEncoderType": "PrefixKeyScanStateEncoderSpec"},
        {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [1]},
        {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [7]},
        {"keyStateEncoderType": "TimestampAsPrefixKeyStateEncoderSpec"},
        {},
    ],
)
def test_unknown_encodings_are_refused(encoder: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedState):
        compile_key(schema("long", "string"), encoder)


TIMED = {"keyStateEncoderType": "TimestampAsPostfixKeyStateEncoderSpec"}


@pytest.mark.parametrize("encoder", [{**RANGE, "orderingOrdinals": [1]}, TIMED])
def test_keys_that_do_not_fit_are_refused(encoder: dict[str, Any]) -> None:
    codec = compile_key(schema("string", "long"), encoder)
    names = pa.array(["a"])
    with pytest.raises(CannotEncode, match="1 columns in place of 2"):
        codec.encode(pa.RecordBatch.from_arrays([names], names=["k"]), framed=True)
    with pytest.raises(CannotEncode, match="cannot be encoded"):
        codec.encode(pa.RecordBatch.from_arrays([names, names], names=["k", "t"]), framed=True)


def test_damaged_keys_are_refused() -> None:
    codec = compile_key(schema("long", "string"), {**RANGE, "orderingOrdinals": [0]})
    batch = pa.RecordBatch.from_arrays(
        [pa.array([-5, 7]), pa.array(["a", "b"])], schema=codec.whole.schema
    )
    keys = codec.encode(batch, framed=True)
    chosen = random.Random(3)
    noticed = 0
    for _ in range(2000):
        data = bytearray(keys[1])
        at = chosen.randrange(len(data) * 8)
        data[at // 8] ^= 1 << at % 8
        cut = chosen.choice([len(data), chosen.randrange(len(data))])
        try:
            codec.decode([keys[0], bytes(data[:cut])], framed=True)
        except StateFormatError:
            noticed += 1
    assert noticed > 1000
