"""Hashes of columns are Spark's own, as recorded by ``random_rows`` from Spark 4.3 and 3.5."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkish.engine.errors import UnsupportedState
from flinkish.engine.rows import spark_hash
from flinkish.engine.rows.row_codec import compile_schema
from flinkish.engine.rows.spark_hash import check_hashable, hash_columns, partition_of
from flinkish.engine.rows.types import parse_type
from flinkish.engine.rows.unsafe_rows import UnknownType
from tests.support.engine.random_rows import golden_path
from tests.support.engine.spark_rows_worker import PARTITIONS


def golden(version: str) -> dict[str, Any]:
    with gzip.open(golden_path(version)) as file:
        data: dict[str, Any] = json.load(file)
    assert data["spark"] == version
    found: dict[str, Any] = data["cases"]
    return found


CASES = [
    (version, name, case)
    for version in ("3.5.9", "4.3.0")
    for name, case in golden(version).items()
]


@pytest.mark.parametrize(
    ("version", "case"), [pytest.param(v, c, id=f"{v} {name}") for v, name, c in CASES]
)
def test_hashes_are_sparks(version: str, case: dict[str, Any]) -> None:
    codec = compile_schema(case["schema"])
    batch = codec.decode([bytes.fromhex(row) for row in case["rows"]])
    types = [field.type for field in codec.struct.fields]
    count = batch.num_rows
    days = version >= "4.3"
    chosen = [i for i, hashes in enumerate(case["hashes"][: len(types)]) if hashes[0] is not None]
    for index in chosen:
        column = [batch.column(index)]
        found = hash_columns(column, [types[index]], count, interval_days=days)
        assert found.dtype == np.int32
        assert found.tolist() == case["hashes"][index]
        # A part of a column, whose arrays do not begin where their buffers do.
        part = [column[0].slice(1)]
        found = hash_columns(part, [types[index]], count - 1, interval_days=days)
        assert found.tolist() == case["hashes"][index][1:]
    if not chosen:
        return
    columns = [batch.column(i) for i in chosen]
    kinds = [types[i] for i in chosen]
    every = hash_columns(columns, kinds, count, interval_days=days)
    assert every.tolist() == case["hashes"][-1]
    assert partition_of(every, PARTITIONS).tolist() == case["partitions"]


def test_the_recorded_cases_have_every_type() -> None:
    text = json.dumps([case["schema"] for _, _, case in CASES])
    for name in ("decimal(38,10)", "interval", "timestamp_ntz", "time(6)", "map", "array", "void"):
        assert f'"{name}"' in text
    assert sum(None not in case["hashes"][0] for _, _, case in CASES) > 80


def hash_of_bytes(value: bytes, seed: int) -> int:
    """``Murmur3_x86_32.hashUnsafeBytes``, one value at a time."""

    def left(number: int, bits: int) -> int:
        return (number << bits | number >> 32 - bits) & 0xFFFFFFFF

    whole = len(value) // 4 * 4
    words = [int.from_bytes(value[at : at + 4], "little") for at in range(0, whole, 4)]
    words += [byte - 256 & 0xFFFFFFFF if byte > 127 else byte for byte in value[whole:]]
    for word in words:
        seed ^= left(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        seed = left(seed, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    seed ^= len(value)
    seed = (seed ^ seed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    seed = (seed ^ seed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    seed ^= seed >> 16
    return seed - (1 << 32) if seed >> 31 else seed


@pytest.mark.parametrize("longest", [3, 17, 3000, 300_000])
def test_values_of_any_length_in_large_blocks(
    longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than are hashed at once, and few that are much longer than the others."""
    monkeypatch.setattr(spark_hash, "_ROWS", 64)
    chosen = random.Random(longest)
    values: list[bytes | None] = [chosen.randbytes(chosen.randrange(30)) for _ in range(300)]
    for _ in range(7):
        at = chosen.randrange(300)
        values[at] = chosen.randbytes(chosen.randrange(longest))
    values[chosen.randrange(300)] = None
    numbers = [chosen.randrange(1 << 31) for _ in range(300)]
    types = [parse_type("long"), parse_type("binary")]
    columns = [pa.array(numbers, pa.int64()), pa.array(values, pa.binary())]
    first = hash_columns(columns[:1], types[:1], 300)
    expected = [
        int(h) if value is None else hash_of_bytes(value, int(h) & 0xFFFFFFFF)
        for h, value in zip(first, values, strict=True)
    ]
    assert hash_columns(columns, types, 300).tolist() == expected
    chunked = [pa.chunked_array([c.slice(0, 100), c.slice(100)]) for c in columns]
    assert hash_columns(chunked, types, 300).tolist() == expected


def test_what_arrow_has_under_nulls_is_not_hashed() -> None:
    lists = pa.ListArray.from_arrays(
        pa.array([0, 2, 3]), pa.array([7, 8, 9]), mask=pa.array([True, False])
    )
    data_type = parse_type({"type": "array", "elementType": "long"})
    plain = hash_columns([pa.array([9])], [parse_type("long")], 1)
    assert hash_columns([lists], [data_type], 2).tolist() == [42, plain[0]]


def test_rows_without_columns_or_values() -> None:
    assert hash_columns([], [], 3).tolist() == [42, 42, 42]
    types = [parse_type(t) for t in ("string", "long", "decimal(38,0)")]
    types.append(parse_type({"type": "array", "elementType": "string"}))
    codec = compile_schema({"type": "struct", "fields": []})
    assert codec.decode([]).num_rows == 0
    empty = [pa.array([], t) for t in (pa.string(), pa.int64(), pa.decimal128(38, 0))]
    assert hash_columns([*empty, pa.array([], pa.list_(pa.string()))], types, 0).tolist() == []
    nulls = [pa.nulls(2, array.type) for array in empty]
    assert hash_columns(nulls, types[:3], 2, seed=-7).tolist() == [-7, -7]


def test_columns_of_other_arrow_types_are_cast() -> None:
    wide = hash_columns([pa.array(["a", "bc"], pa.large_string())], [parse_type("string")], 2)
    assert (
        wide.tolist() == hash_columns([pa.array(["a", "bc"])], [parse_type("string")], 2).tolist()
    )


def test_wrong_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="1 columns for 2 types and 1 rows"):
        hash_columns([pa.array([1])], [parse_type("long")] * 2, 1)
    with pytest.raises(ValueError, match="1 columns for 1 types and 2 rows"):
        hash_columns([pa.array([1])], [parse_type("long")], 2)
    two = parse_type(
        {"type": "struct", "fields": [{"name": n, "type": "long"} for n in ("a", "b")]}
    )
    with pytest.raises(ValueError, match="1 fields in place of 2"):
        hash_columns([pa.array([{"a": 1}])], [two], 1)
    with pytest.raises(UnsupportedState, match="a variant in a key cannot be calculated"):
        hash_columns([pa.nulls(1)], [parse_type("variant")], 1)


def of(data_type: Any, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    field = {"name": "k", "type": data_type, "nullable": True, "metadata": metadata or {}}
    return {"type": "struct", "fields": [field]}


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (of("string", {"__COLLATIONS": {"k": "spark.UTF8_LCASE"}}), "collation spark.UTF8_LCASE"),
        (
            of(
                {"type": "array", "elementType": "string"},
                {"__COLLATIONS": {"k.element": "icu.UNICODE_CI"}},
            ),
            "collation icu.UNICODE_CI",
        ),
        (of(of("string", {"__COLLATIONS": {"k": "spark.UTF8_BINARY_RTRIM"}})), "RTRIM"),
        (of("string", {"__COLLATIONS": "x"}), "the collations 'x'"),
        (of("string collate UTF8_LCASE"), "collation UTF8_LCASE"),
        (of({"type": "array", "elementType": "variant"}), "a variant"),
        (of({"type": "map", "keyType": "string", "valueType": of("variant")}), "a variant"),
        (of({"type": "udt", "class": "a.b", "sqlType": of("variant")}), "a variant"),
        (of("geometry(4326)"), r"a geometry\(4326\)"),
    ],
)
def test_what_has_another_hash_is_refused(schema: Any, named: str) -> None:
    with pytest.raises(UnsupportedState, match=f"{named}.* cannot be calculated"):
        check_hashable(schema)


def test_what_can_be_hashed_is_not_refused() -> None:
    for version in ("3.5.9", "4.3.0"):
        for case in golden(version).values():
            if '"variant"' not in json.dumps(case["schema"]):
                check_hashable(case["schema"])
    check_hashable(of("string", {"__COLLATIONS": {"k": "spark.UTF8_BINARY"}, "comment": "x"}))
    check_hashable(of("string collate UTF8_BINARY"))
    check_hashable(of("varchar(3)"))
    with pytest.raises(UnknownType, match="unknown type"):
        check_hashable(of("thing"))
