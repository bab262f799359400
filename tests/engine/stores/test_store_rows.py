"""The structure of rows, keys and values; that of Spark's own is checked in test_oracle."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.checkpoint.format.names import ROCKSDB
from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.engine.rows.arrow_parts import MAX_ROWS
from flinkish.engine.rows.encodings import (
    NO_PREFIX,
    PREFIX_SCAN,
    RANGE_SCAN,
    TIMESTAMP_POSTFIX,
    TIMESTAMP_PREFIX,
    BadEncoding,
    check_block,
    family_shape,
    split_key,
    split_value,
)
from flinkish.engine.rows.unsafe_rows import (
    RowShape,
    UnknownType,
    check_rows,
    check_unsafe_row,
    is_variable,
)
from flinkish.engine.stores import store_rows
from tests.support.engine.handwritten_state import delta, lz4, store


def row(*fields: int | bytes | None) -> bytes:
    """An UnsafeRow: longs, and bytes of variable length."""
    bits = sum(1 << i for i, field in enumerate(fields) if field is None)
    fixed = bits.to_bytes((len(fields) + 63) // 64 * 8, "little")
    end, tail = len(fixed) + 8 * len(fields), b""
    for field in fields:
        if isinstance(field, bytes):
            fixed += struct.pack("<q", (end + len(tail)) << 32 | len(field))
            tail += field + bytes(-len(field) % 8)
        else:
            fixed += struct.pack("<q", field or 0)
    return fixed + tail


FIELDS = st.lists(st.none() | st.binary(max_size=20), max_size=70)


@given(st.lists(FIELDS, max_size=5), st.integers(0, 9))
def test_right_rows_are_right(many: list[list[bytes | None]], skip: int) -> None:
    for fields in many:
        shape = RowShape(len(fields), tuple(range(len(fields))))
        same = [bytes(skip) + row(*fields)] * 3
        assert check_rows(same, shape, skip=skip) is None
        assert check_unsafe_row(row(*fields), len(fields)) is None


@given(FIELDS.filter(lambda fields: any(fields)), st.data())
def test_cut_rows_are_wrong(fields: list[bytes | None], data: Any) -> None:
    whole = row(*fields)
    shape = RowShape(len(fields), tuple(range(len(fields))))
    size = data.draw(st.integers(0, len(whole) - 1))
    found = check_rows([whole, whole[:size], whole], shape)
    assert found is not None
    assert found[0] == 1


@pytest.mark.parametrize(
    ("data", "fields", "variable", "reason"),
    [
        (row(1, 2)[:-8], 2, (), "16 bytes; 2 fields need 24 at least"),
        (row(1, 2) + b"1234", 2, (), "28 bytes"),
        (row(1, 2), 3, (), "3 fields need 32"),
        (row(None, None, None, 4)[:24], 2, (), "bits of nulls"),
        (row(b"abc")[:8] + struct.pack("<q", 24 << 32 | 3) + bytes(8), 1, (0,), "field 0 lies"),
        (row(b"abc")[:8] + struct.pack("<q", 8 << 32 | 3) + bytes(8), 1, (0,), "field 0 lies"),
        (row(b"abc")[:8] + struct.pack("<q", 17 << 32 | 3) + bytes(8), 1, (0,), "field 0 lies"),
        (row(1, b"abc")[:16] + struct.pack("<Q", 1 << 63 | 3) + bytes(8), 2, (1,), "field 1 lies"),
    ],
)
def test_wrong_rows(data: bytes, fields: int, variable: tuple[int, ...], reason: str) -> None:
    assert reason in str(check_unsafe_row(data, fields, variable))


def test_fixed_fields_give_the_exact_length() -> None:
    assert check_rows([row(1, 2)], RowShape(2)) is None
    assert check_rows([row(1, 2), row(1, 2) + bytes(8)], RowShape(2)) is not None
    assert check_rows([b"", b""], RowShape(0)) is None
    assert check_rows([], RowShape(4, (1,))) is None


@pytest.mark.parametrize(
    ("data_type", "variable"),
    [
        ("string", True),
        ("string collate UTF8_LCASE", True),
        ("varchar(9)", True),
        ("binary", True),
        ("variant", True),
        ("interval", True),
        ("decimal(19,2)", True),
        ("decimal(18,2)", False),
        ("interval day to second", False),
        ("interval year", False),
        ("timestamp_ntz", False),
        ("time(6)", False),
        ("void", False),
        ({"type": "array", "elementType": "long"}, True),
        ({"type": "udt", "sqlType": "long"}, False),
    ],
)
def test_types(data_type: Any, variable: bool) -> None:
    assert is_variable(data_type) is variable


@pytest.mark.parametrize("data_type", ["", "integers", "decimal", {"type": "tuple"}, 5, None])
def test_unknown_types(data_type: Any) -> None:
    with pytest.raises(UnknownType):
        is_variable(data_type)


def sized(data: bytes) -> bytes:
    return struct.pack("<i", len(data) + 1) + b"\x00" + data


SMALL, TEXT = row(7), row(b"some text", 1)


def test_keys_are_taken_apart() -> None:
    assert split_key(b"\x00" + TEXT) == (TEXT,)
    assert split_key(b"\x00" + TEXT, NO_PREFIX) == (TEXT,)
    assert split_key(sized(SMALL) + b"\x00" + TEXT, PREFIX_SCAN) == (SMALL, TEXT)
    assert split_key(sized(SMALL), RANGE_SCAN) == (SMALL,)
    assert split_key(b"\x80" + bytes(7) + b"\x00" + TEXT, TIMESTAMP_PREFIX) == (TEXT,)
    assert split_key(b"\x00" + TEXT + b"\x80" + bytes(7), TIMESTAMP_POSTFIX) == (TEXT,)


@given(st.lists(st.tuples(st.binary(max_size=400), st.booleans()), min_size=1, max_size=30))
def test_lists_are_taken_apart_however_they_are_joined(parts: list[tuple[bytes, bool]]) -> None:
    wanted = [row(data) for data, _ in parts]
    joined = b"".join(
        b"," * (comma and i > 0) + sized(row(d)) for i, (d, comma) in enumerate(parts)
    )
    assert split_value(joined) == wanted


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01", b"," + sized(SMALL), sized(SMALL)[:-1], sized(SMALL) + b",", b"\x11\0\0\0"],
)
def test_wrong_values(data: bytes) -> None:
    with pytest.raises(BadEncoding):
        split_value(data)


def struct_of(*types: str) -> dict[str, Any]:
    fields = [{"name": f"c{i}", "type": t} for i, t in enumerate(types)]
    return {"type": "struct", "fields": fields}


def test_blocks_are_checked_by_their_schemas() -> None:
    encoder = {"keyStateEncoderType": PREFIX_SCAN, "numColsPrefixKey": 1}
    shape = family_shape(struct_of("long", "string", "long"), struct_of("long"), encoder)
    key = sized(SMALL) + b"\x00" + TEXT
    value = b"\x00" + SMALL
    assert check_block([key, key], [value, value], shape, framed=True) is None
    many = value, sized(SMALL) + b"," + sized(SMALL)
    assert check_block([key, key], many, shape, framed=True) is None
    for bad_key in (b"\x00" + TEXT, sized(TEXT) + b"\x00" + TEXT, sized(SMALL), key[:-8]):
        found = check_block([key, bad_key], [value, value], shape, framed=True)
        assert found is not None
        assert found[0] == 1
        assert found[1].startswith("key: ")
    for bad_value in (b"\x00" + TEXT, b"\x01" + SMALL, sized(SMALL) + sized(TEXT), SMALL):
        found = check_block([key, key, key], [value, value, bad_value], shape, framed=True)
        assert found is not None
        assert found[0] == 2
        assert found[1].startswith("value: ")


def test_unknown_encoders_are_refused() -> None:
    with pytest.raises(BadEncoding, match="not known"):
        family_shape(struct_of("long"), struct_of("long"), {"keyStateEncoderType": "Newer"})


def test_a_row_of_a_wrong_structure_is_named() -> None:
    shape = family_shape(struct_of("long"), struct_of("long"))
    files = store({"1.delta": lz4(delta([(SMALL, SMALL), (row(8), row(1, 2))]))}, 1)
    assert store_rows.count_rows(files).families == {"default": 2}
    with pytest.raises(
        StateFormatError, match=f"row with the key {row(8).hex()} of default: value"
    ):
        store_rows.count_rows(files, {"default": shape})


def test_blocks_are_bounded() -> None:
    many = [(row(i), row(i)) for i in range(2 * MAX_ROWS + 5)]
    for name, backend in (("1.delta", "hdfs"), ("1.changelog", ROCKSDB)):
        blocks = list(store_rows.read_store(store({name: lz4(delta(many), 4096)}, 1, backend)))
        assert [len(b.keys) for b in blocks] == [MAX_ROWS, MAX_ROWS, 5]
        found = {k: v for b in blocks for k, v in zip(b.keys, b.values, strict=True)}
        assert found == dict(many)
    large = [(row(i), bytes(2 << 20)) for i in range(40)]
    blocks = list(store_rows.read_store(store({"1.delta": lz4(delta(large), 1 << 20)}, 1)))
    assert [len(b.keys) for b in blocks] == [16, 16, 8]


@pytest.mark.parametrize(
    "change", [{"row_checksums": True}, {"encoding": "avro"}, {"backend": "other"}]
)
def test_what_is_not_read_yet_is_refused(change: dict[str, Any]) -> None:
    from dataclasses import replace

    with pytest.raises(UnsupportedState):
        store_rows.count_rows(replace(store({}, 0), **change))


def test_version_0_is_empty() -> None:
    for backend in ("hdfs", ROCKSDB):
        assert list(store_rows.read_store(store({}, 0, backend))) == []
