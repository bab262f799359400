"""Declarations of state: names and types are checked where they are written."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest

from flinkish.errors import UsageError
from flinkish.state import (
    AvroSerializer,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
    serializer_of,
)
from flinkish.state.descriptors import check_serializer
from flinkish.state.serializers import TypeSerializer
from tests.state.programs import CelsiusSerializer, NeedsArguments


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


def test_the_three_kinds() -> None:
    assert ValueStateDescriptor("stats", Point).serializer == serializer_of(Point)
    assert ListStateDescriptor("points", Point).serializer == serializer_of(list[Point])
    assert MapStateDescriptor("by-name", str, Point).serializer == serializer_of(dict[str, Point])


def test_a_serializer_stands_for_itself() -> None:
    avro = AvroSerializer("long")
    assert ValueStateDescriptor("n", avro).serializer is avro
    assert isinstance(ListStateDescriptor("n", CelsiusSerializer()).serializer.element, object)


def test_they_are_frozen_and_compare() -> None:
    made = ValueStateDescriptor("stats", Point)
    assert made == ValueStateDescriptor("stats", Point)
    assert len({made, ValueStateDescriptor("stats", Point)}) == 1
    with pytest.raises(FrozenInstanceError):
        made.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", ["", " ", "1st", "a b", "_x", "x" * 129, "a/b", "ä", None, 5])
@pytest.mark.parametrize("kind", [ValueStateDescriptor, ListStateDescriptor])
def test_names(kind: Any, name: Any) -> None:
    with pytest.raises(UsageError, match="is not a valid name for a"):
        kind(name, int)
    assert kind("state-name_1.x", int).name == "state-name_1.x"


def test_an_unsupported_type_names_the_state_and_says_what_to_use() -> None:
    with pytest.raises(UsageError, match="value state seen: state cannot be of the type set") as e:
        ValueStateDescriptor("seen", set[int])
    assert "dict[T, bool]" in e.value.hint
    with pytest.raises(UsageError, match=r"cannot be of the type list\[int\]") as e:
        MapStateDescriptor("m", list[int], int)
    assert "make the keys immutable" in e.value.hint


class NestedBad(TypeSerializer[int]):
    def serialize(self, value: int) -> bytes:
        return b""

    def deserialize(self, data: bytes) -> int:
        return 0

    def snapshot_configuration(self) -> Any:
        return NeedsArguments("x")


class Hours(CelsiusSerializer):
    """As a dataclass would do, it defines an equality and thereby loses its hash."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hours)


def test_a_serializer_of_keys_need_not_be_a_key_itself() -> None:
    assert isinstance(MapStateDescriptor("m", Hours(), int).serializer.key, Hours)


def test_a_snapshot_class_that_would_not_be_found_is_found_out_however_deep() -> None:
    with pytest.raises(UsageError, match=r"list state n: the snapshot class .*NeedsArguments"):
        ListStateDescriptor("n", NestedBad())
    with pytest.raises(UsageError, match="constructor that needs arguments"):
        check_serializer(serializer_of(dict[str, NestedBad()]))  # type: ignore[misc]
