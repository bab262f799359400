"""Single values: back as they were, with their type; everything else is refused."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.errors import Corrupt, UsageError
from flinkish.state.builtin.primitives import (
    BoolSerializer,
    BytesSerializer,
    DateSerializer,
    DateTimeSerializer,
    DecimalSerializer,
    DoubleSerializer,
    LongSerializer,
    StringSerializer,
)
from flinkish.state.serializers import Verdict
from flinkish.state.snapshots import read_snapshot, write_snapshot

ZONES = st.none() | st.timezones() | st.just(timezone(timedelta(minutes=-90, microseconds=1)))
VALUES: dict[Any, Any] = {
    BoolSerializer: st.booleans(),
    LongSerializer: st.integers(-(2**63), 2**63 - 1),
    DoubleSerializer: st.floats(allow_nan=False),
    StringSerializer: st.text(),
    BytesSerializer: st.binary(),
    DateSerializer: st.dates(),
    DateTimeSerializer: st.datetimes(timezones=ZONES),
    DecimalSerializer: st.decimals(allow_nan=False),
}


@given(st.data())
def test_values_come_back_as_they_were(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(list(VALUES)))
    value = data.draw(VALUES[cls])
    found = cls().deserialize(cls().serialize(value))
    assert type(found) is type(value)
    if isinstance(value, datetime):
        # Not by ==: in the hour that a zone has twice, Python calls two zones' times never equal.
        assert found.replace(tzinfo=None) == value.replace(tzinfo=None)
        assert found.utcoffset() == value.utcoffset()
    else:
        assert (found, str(found)) == (value, str(value))


def test_what_equality_does_not_show() -> None:
    for text in ("-0", "1.50", "1E+5", "NaN", "sNaN", "-Infinity"):
        decimal = Decimal(text)
        assert str(DecimalSerializer().deserialize(DecimalSerializer().serialize(decimal))) == text
    serializer = DateTimeSerializer()
    for value in (datetime(2024, 1, 1, fold=1), datetime(2024, 1, 1, 5, tzinfo=timezone.utc)):
        found = serializer.deserialize(serializer.serialize(value))
        assert (found.fold, found.utcoffset()) == (value.fold, value.utcoffset())
    nan = DoubleSerializer().deserialize(DoubleSerializer().serialize(float("nan")))
    assert nan != nan


@pytest.mark.parametrize("old", VALUES)
@pytest.mark.parametrize("new", VALUES)
def test_no_type_becomes_another(old: Any, new: Any) -> None:
    data = write_snapshot(old().snapshot_configuration())
    snapshot = read_snapshot(data, "the state x")
    assert snapshot.restore_serializer() == old()
    found = snapshot.resolve_schema_compatibility(new())
    if old is new:
        assert found.verdict is Verdict.AS_IS
    else:
        (reason,) = found.reasons
        names = old().type_name, new().type_name
        assert reason.startswith(f"{names[1]}: {names[0]} -> {names[1]}: the type of state may not")


ACCEPTED: list[tuple[Any, Any, Any]] = [
    (BoolSerializer(), np.bool_(True), True),
    (LongSerializer(), np.int32(-5), -5),
    (LongSerializer(), np.uint8(200), 200),
    (DoubleSerializer(), 3, 3.0),
    (DoubleSerializer(), np.uint64(2**63), 2.0**63),
    (DoubleSerializer(), np.float32(1.5), 1.5),
    (DoubleSerializer(), np.float64(0.1), 0.1),
    (StringSerializer(), np.str_("x"), "x"),
    (BytesSerializer(), bytearray(b"x"), b"x"),
    (DateTimeSerializer(), pd.Timestamp("2024-01-01 05:06"), datetime(2024, 1, 1, 5, 6)),
]


@pytest.mark.parametrize(("serializer", "value", "expected"), ACCEPTED)
def test_numpys_and_pandas_values_become_pythons(
    serializer: Any, value: Any, expected: Any
) -> None:
    found = serializer.deserialize(serializer.serialize(value))
    assert found == expected
    assert type(found) is type(expected)


REFUSED: list[tuple[Any, Any]] = [
    (BoolSerializer(), 1),
    (LongSerializer(), True),
    (LongSerializer(), 1.0),
    (LongSerializer(), "1"),
    (LongSerializer(), np.float64(1)),
    (DoubleSerializer(), True),
    (DoubleSerializer(), "1.5"),
    (DoubleSerializer(), Decimal("1.5")),
    (DoubleSerializer(), 2**53 + 1),
    (DoubleSerializer(), np.int64(2**53 + 1)),
    (DoubleSerializer(), np.uint64(2**64 - 1)),
    (DoubleSerializer(), 10**400),
    (StringSerializer(), b"x"),
    (StringSerializer(), "\ud800"),
    (BytesSerializer(), "x"),
    (DateSerializer(), datetime(2024, 1, 1)),
    (DateSerializer(), "2024-01-01"),
    (DateTimeSerializer(), date(2024, 1, 1)),
    (DateTimeSerializer(), pd.NaT),
    (DateTimeSerializer(), pd.Timestamp(1)),
    (DecimalSerializer(), 1.5),
    *((each(), None) for each in VALUES),
]


@pytest.mark.parametrize(("serializer", "value"), REFUSED)
def test_values_of_other_types_are_refused(serializer: Any, value: Any) -> None:
    with pytest.raises(UsageError, match=f"is not of type {serializer.type_name}"):
        serializer.serialize(value)


def test_a_number_of_more_than_64_bits_says_what_to_use() -> None:
    with pytest.raises(UsageError, match="does not fit into 64 bits") as caught:
        LongSerializer().serialize(2**63)
    assert "Decimal" in caught.value.hint


@pytest.mark.parametrize(
    ("serializer", "data"),
    [
        (BoolSerializer(), b""),
        (BoolSerializer(), b"\2"),
        (LongSerializer(), b"\0" * 7),
        (DoubleSerializer(), b"\0" * 9),
        (StringSerializer(), b"\xff"),
        (DateSerializer(), b"\x7f\xff\xff\xff"),
        (DateSerializer(), b"\0"),
        (DateTimeSerializer(), b"\0" * 8),
        (DateTimeSerializer(), b"\1" + b"\0" * 8),
        (DateTimeSerializer(), b"\0" + b"\x7f" * 8),
        (DateTimeSerializer(), b"\1" + b"\0" * 8 + b"\x7f" * 8),
        (DecimalSerializer(), b"x"),
        (DecimalSerializer(), b" 1"),
        (DecimalSerializer(), b"1_0"),
    ],
)
def test_damaged_bytes(serializer: Any, data: bytes) -> None:
    with pytest.raises(Corrupt):
        serializer.deserialize(data)
