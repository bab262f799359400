"""Stored values as plain data, without the program: what its own serializers read, by field."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any, NamedTuple, Optional
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.engine.rows.types import arrow_type, parse_type
from flinkish.errors import Corrupt
from flinkish.state import (
    AvroSerializer,
    LegacySerializer,
    ListSerializer,
    TypeSerializer,
    UnsafePickleSerializer,
    serializer_of,
    write_snapshot,
)
from flinkish.state.generations import StateFormat
from flinkish.state.plain import plain_state, plain_type
from tests.state.programs import CelsiusSerializer, OldScaleSerializer


class Point(NamedTuple):
    """A part of a state."""

    x: int
    y: Optional[float]  # noqa: UP045 - the older way to write it


@dataclass
class Journey:
    """A state with everything in it."""

    name: str
    points: list[Point]
    stops: dict[int, str]
    pair: tuple[int, bytes]
    day: date
    seen: datetime
    price: Decimal
    small: np.int16
    is_open: bool


JOURNEYS = st.builds(
    Journey,
    name=st.text(max_size=5),
    points=st.lists(
        st.builds(Point, st.integers(-(2**63), 2**63 - 1), st.none() | st.floats(allow_nan=False)),
        max_size=3,
    ),
    stops=st.dictionaries(st.integers(0, 9), st.text(max_size=3), max_size=3),
    pair=st.tuples(st.integers(0, 5), st.binary(max_size=4)),
    day=st.dates(),
    seen=st.datetimes() | st.datetimes(timezones=st.just(timezone.utc)),
    price=st.decimals(allow_nan=False, allow_infinity=False, places=2),
    small=st.integers(-(2**15), 2**15 - 1).map(np.int16),
    is_open=st.booleans(),
)


def snapshot(serializer: TypeSerializer[Any]) -> bytes:
    return write_snapshot(serializer.snapshot_configuration())


def stored(serializer: TypeSerializer[Any], value: Any) -> bytes:
    return StateFormat.of(serializer).write(value)


@given(JOURNEYS)
def test_a_value_has_its_fields(journey: Journey) -> None:
    serializer = serializer_of(Journey)
    found = plain_state([snapshot(serializer)], "it")
    assert found is not None
    value = found.read(stored(serializer, journey))
    assert value == {
        "name": journey.name,
        "points": [{"x": p.x, "y": p.y} for p in journey.points],
        "stops": list(journey.stops.items()),
        "pair": {"_1": journey.pair[0], "_2": journey.pair[1]},
        "day": journey.day,
        "seen": journey.seen.isoformat(),
        "price": str(journey.price),
        "small": int(journey.small),
        "is_open": journey.is_open,
    }
    # It is a value of the type that it is said to have.
    array = pa.array([value, None], arrow_type(parse_type(found.json)))
    assert array[1].as_py() is None
    assert array[0].as_py()["points"] == value["points"]


SCHEMA = """{"type": "record", "name": "S", "fields": [
    {"name": "n", "type": ["null", "long", "string"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "raw", "type": "bytes"}]}"""


def test_avro_values_are_json() -> None:
    serializer = AvroSerializer(SCHEMA)
    found = plain_state([snapshot(serializer)], "it")
    assert found is not None
    assert found.json == "string"
    moment = datetime(2024, 1, 2, tzinfo=timezone.utc)
    value = {"n": "x", "at": moment, "raw": b"\xff"}
    assert json.loads(found.read(stored(serializer, value))) == {
        "n": "x",
        "at": moment.isoformat(),
        "raw": "/w==",
    }


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (np.complex64, np.complex64(1 + 2j), "(1+2j)"),
        (dict[int | None, str], {None: "x", 1: "y"}, '[[null, "x"], [1, "y"]]'),
    ],
)
def test_what_spark_has_no_type_for_is_a_text(hint: Any, value: Any, expected: str) -> None:
    serializer = serializer_of(hint)
    found = plain_state([snapshot(serializer)], "it")
    assert found is not None
    assert found.json == "string"
    assert found.read(stored(serializer, value)) == expected


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "int", "logicalType": "time-millis"}, time(1, 2, 3), "01:02:03"),
        (
            {"type": "string", "logicalType": "uuid"},
            UUID(int=5),
            f"{'0' * 8}-0000-0000-0000-{5:012}",
        ),
    ],
)
def test_times_and_uuids_of_avro_are_texts(schema: Any, value: Any, expected: str) -> None:
    serializer = AvroSerializer(schema)
    found = plain_state([snapshot(serializer)], "it")
    assert found is not None
    assert json.loads(found.read(stored(serializer, value))) == expected


@pytest.mark.filterwarnings("ignore:state of .* is pickled")
def test_what_only_the_program_can_read_stays_bytes() -> None:
    pickled = UnsafePickleSerializer(Point)
    for serializer in (
        CelsiusSerializer(),
        pickled,
        LegacySerializer(OldScaleSerializer()),
        ListSerializer(pickled),
    ):
        assert plain_state([snapshot(serializer)], "it") is None


def test_generations_of_several_types_are_json_texts() -> None:
    first, second = serializer_of(Point), serializer_of(int)
    found = plain_state([snapshot(first), snapshot(second)], "it")
    assert found is not None
    assert found.json == "string"
    assert found.read(b"\0" + first.serialize(Point(1, float("nan")))) == '{"x": 1, "y": "NaN"}'
    assert found.read(b"\1" + second.serialize(7)) == "7"
    with pytest.raises(Corrupt, match="generation 2, but the newest is 1"):
        found.read(b"\2")
    same = plain_state([snapshot(first), snapshot(first)], "it")
    assert same is not None
    assert same.read(b"\1" + first.serialize(Point(1, None))) == {"x": 1, "y": None}


@given(st.binary(max_size=40))
def test_bytes_from_anywhere_are_an_error_of_ours(data: bytes) -> None:
    found = plain_type(snapshot(serializer_of(Journey)), "it")
    assert found is not None
    with pytest.raises(Corrupt):
        found.read(data)
    with pytest.raises(Corrupt):
        plain_type(b"\x01" + data[:3], "it")
