"""Outer and nested verdicts become one, by Flink's precedence: the whole table."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from flinkish.errors import Corrupt
from flinkish.state.builtin.containers import ListSerializer, MapSerializer, TupleSerializer
from flinkish.state.builtin.primitives import LongSerializer, StringSerializer
from flinkish.state.composite import CompositeTypeSerializerSnapshot, combine
from flinkish.state.generations import restore_state
from flinkish.state.serializers import (
    Reason,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    Verdict,
)
from flinkish.state.snapshots import read_snapshot, write_snapshot
from tests.state.programs import ScaleSerializer

MADE = TypeSerializerSchemaCompatibility
OTHER = ScaleSerializer(5)
FOUND = {
    Verdict.AS_IS: MADE.compatible_as_is(),
    Verdict.RECONFIGURED: MADE.compatible_with_reconfigured_serializer(OTHER),
    Verdict.AFTER_MIGRATION: MADE.compatible_after_migration(),
    Verdict.INCOMPATIBLE: MADE.incompatible([Reason("inner", ("x",), "no")]),
}
#: From best to worst: the worst of all is that of the whole.
ORDER = [Verdict.AS_IS, Verdict.RECONFIGURED, Verdict.AFTER_MIGRATION, Verdict.INCOMPATIBLE]


@pytest.mark.parametrize("outer", ORDER)
@pytest.mark.parametrize("nested", [*itertools.product(ORDER, repeat=2)])
def test_the_worst_verdict_is_that_of_the_whole(
    outer: Verdict, nested: tuple[Verdict, ...]
) -> None:
    rebuilt: list[tuple[TypeSerializer[Any] | None, ...]] = []

    def rebuild(others: tuple[TypeSerializer[Any] | None, ...]) -> TypeSerializer[Any]:
        rebuilt.append(others)
        return LongSerializer()

    parts = [(name, FOUND[each]) for name, each in zip("ab", nested, strict=True)]
    found = combine("whole", FOUND[outer], parts, rebuild)
    assert found.verdict is max([outer, *nested], key=ORDER.index)
    if found.verdict is Verdict.RECONFIGURED:
        assert found.serializer == LongSerializer()
        reconfigured = Verdict.RECONFIGURED
        assert rebuilt == [tuple(OTHER if each is reconfigured else None for each in nested)]
    else:
        assert rebuilt == []
    if found.verdict is Verdict.INCOMPATIBLE:
        lost = [f"whole.{n}.x: no" for n, v in zip("ab", nested, strict=True) if v is ORDER[3]]
        own = ["inner.x: no"] if outer is ORDER[3] else []
        assert list(found.reasons) == own + lost


CONTAINERS = {
    "list": ListSerializer,
    "map": lambda inner: MapSerializer(StringSerializer(), inner),
    "tuple": lambda inner: TupleSerializer((LongSerializer(), inner)),
}


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_a_reconfigured_part_makes_the_whole_reconfigured(make: Any) -> None:
    """The part goes on with the digits that were written; the whole is made of that."""
    found = restored(make(ScaleSerializer(2)), make(ScaleSerializer(3)))
    assert found.compatibility.verdict is Verdict.RECONFIGURED
    assert not found.needs_migration
    value = {"list": [1.25], "map": {"k": 1.25}, "tuple": (7, 1.25)}[
        next(name for name, each in CONTAINERS.items() if each is make)
    ]
    old = make(ScaleSerializer(2)).serialize(value)
    assert found.read(old) == value
    assert found.serializer.serialize(value) == old == found.migrate(old)


def test_two_within_each_other() -> None:
    old = ListSerializer(MapSerializer(StringSerializer(), ScaleSerializer(2)))
    new = ListSerializer(MapSerializer(StringSerializer(), ScaleSerializer(4)))
    found = restored(old, new)
    data = old.serialize([{"k": 2.5}])
    assert found.serializer.deserialize(data) == [{"k": 2.5}]
    assert found.serializer.serialize([{"k": 2.5}]) == data


def restored(old: TypeSerializer[Any], new: TypeSerializer[Any]) -> Any:
    data = write_snapshot(old.snapshot_configuration())
    snapshot = read_snapshot(data, "the state x", ("flinkish", "tests.state"))
    return restore_state(snapshot, new, "the state x")


class Scaled(TypeSerializer[Any]):
    """An outer serializer with a configuration of its own."""

    def __init__(self, unit: str, inner: TypeSerializer[Any]) -> None:
        self.unit, self.inner = unit, inner

    def serialize(self, value: Any) -> bytes:
        return self.inner.serialize(value)

    def deserialize(self, data: bytes) -> Any:
        return self.inner.deserialize(data)

    def snapshot_configuration(self) -> Any:
        return ScaledSnapshot(self)


class ScaledSnapshot(CompositeTypeSerializerSnapshot[Any]):
    serializer_class = Scaled
    nested_count = 1

    def __init__(self, serializer: Scaled | None = None) -> None:
        super().__init__(serializer)
        self.unit = "" if serializer is None else serializer.unit

    def nested_serializers(self, serializer: Scaled) -> tuple[TypeSerializer[Any], ...]:
        return (serializer.inner,)

    def create_outer_serializer(self, nested: tuple[TypeSerializer[Any], ...]) -> Scaled:
        return Scaled(self.unit, nested[0])

    def write_outer(self) -> bytes:
        return self.unit.encode()

    def read_outer(self, version: int, data: bytes) -> None:
        self.unit = data.decode()

    def resolve_outer_schema_compatibility(
        self, new_serializer: Scaled
    ) -> TypeSerializerSchemaCompatibility:
        if new_serializer.unit == self.unit:
            return MADE.compatible_as_is()
        if (self.unit, new_serializer.unit) == ("yard", "foot"):
            both = Scaled("yard or foot", new_serializer.inner)
            return MADE.compatible_with_reconfigured_serializer(both)
        return MADE.compatible_after_migration()


def test_the_outer_serializers_own_configuration_is_kept_and_judged() -> None:
    old = Scaled("km", LongSerializer())
    assert restored(old, Scaled("km", LongSerializer())).compatibility.verdict is Verdict.AS_IS
    found = restored(old, Scaled("miles", LongSerializer()))
    assert found.needs_migration
    assert found.reader.unit == "km"


@pytest.mark.parametrize("digits", [2, 4])
def test_a_reconfigured_outer_serializer_is_used(digits: int) -> None:
    old, new = Scaled("yard", ScaleSerializer(2)), Scaled("foot", ScaleSerializer(digits))
    found = restored(old, new).serializer
    assert (found.unit, found.inner.digits) == ("yard or foot", 2)


def test_a_damaged_composite_snapshot_is_found() -> None:
    good = ListSerializer(LongSerializer()).snapshot_configuration()
    for content in (b"", b"\0\0", b"\0\1"):
        with pytest.raises(Corrupt):
            type(good)().read_snapshot(1, content, None)  # type: ignore[arg-type]
