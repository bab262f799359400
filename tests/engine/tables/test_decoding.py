"""Columns of bytes that are decoded in a table: in structs, in lists, in both."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from flinkish.engine.errors import StateFormatError
from flinkish.engine.rows.types import Array, DataType, arrow_type, parse_type
from flinkish.engine.tables.decoding import ColumnDecoder, decoded_array, decoded_type


def of_fields(**types: Any) -> dict[str, Any]:
    fields = [
        {"name": name, "type": each, "nullable": True, "metadata": {}}
        for name, each in types.items()
    ]
    return {"type": "struct", "fields": fields}


def number(data: bytes) -> int:
    (found,) = struct.unpack(">i", data)
    return int(found)


LONG = parse_type("long")
STATE = parse_type(of_fields(groupState=of_fields(a="binary", b="binary"), until="long"))
ELEMENT = parse_type(of_fields(value="binary"))


def one(n: int) -> bytes:
    return struct.pack(">i", n)


CASES: list[tuple[DataType, tuple[str, ...], list[Any], list[Any]]] = [
    (
        STATE,
        ("value", "groupState", "b"),
        [
            {"groupState": {"a": b"a", "b": one(7)}, "until": 1},
            {"groupState": {"a": b"a", "b": None}, "until": 2},
            {"groupState": None, "until": 3},
            None,
        ],
        [
            {"groupState": {"a": b"a", "b": 7}, "until": 1},
            {"groupState": {"a": b"a", "b": None}, "until": 2},
            {"groupState": None, "until": 3},
            None,
        ],
    ),
    (
        Array(ELEMENT),
        ("value", "value"),
        [[{"value": one(1)}, {"value": one(2)}], [], None, [{"value": one(3)}]],
        [[{"value": 1}, {"value": 2}], [], None, [{"value": 3}]],
    ),
]


@pytest.mark.parametrize(("data_type", "path", "stored", "values"), CASES)
@pytest.mark.parametrize("start", [0, 1])
def test_values_stand_where_bytes_were(
    data_type: DataType, path: tuple[str, ...], stored: list[Any], values: list[Any], start: int
) -> None:
    decoders = [ColumnDecoder(path, LONG, number)]
    array = pa.array(stored, arrow_type(data_type)).slice(start)
    found = decoded_array("value", array, data_type, decoders, "state/0")
    found.validate(full=True)
    assert found.to_pylist() == values[start:]
    assert found.type == arrow_type(decoded_type("value", data_type, decoders))
    assert decoded_array("key", array, data_type, decoders, "state/0") is array
    assert decoded_type("key", data_type, decoders) is data_type


def test_bytes_that_are_no_value() -> None:
    decoders = [ColumnDecoder(("value", "value"), LONG, number)]
    array = pa.array([{"value": b"x"}], arrow_type(ELEMENT))
    with pytest.raises(StateFormatError, match=r"state/0.*value\.value: unpack requires"):
        decoded_array("value", array, ELEMENT, decoders, "state/0")
