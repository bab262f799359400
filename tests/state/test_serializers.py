"""Verdicts and their reasons."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.errors import UsageError
from flinkish.state import AvroSerializer, serializer_of
from flinkish.state.builtin.primitives import LongSerializer
from flinkish.state.serializers import (
    OldStateReader,
    Reason,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
    Verdict,
)
from tests.state.programs import Celsius, CelsiusSerializer, CelsiusSerializerSnapshot


def test_the_four_verdicts() -> None:
    made = TypeSerializerSchemaCompatibility
    assert made.compatible_as_is().verdict is Verdict.AS_IS
    assert made.compatible_after_migration().verdict is Verdict.AFTER_MIGRATION
    reconfigured = made.compatible_with_reconfigured_serializer(LongSerializer())
    assert reconfigured.verdict is Verdict.RECONFIGURED
    assert reconfigured.serializer == LongSerializer()
    found = made.incompatible([Reason("Stats", ("distance",), "float -> string is none")])
    assert found.verdict is Verdict.INCOMPATIBLE
    assert found.reasons == ("Stats.distance: float -> string is none",)


def test_incompatible_always_has_a_reason() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        TypeSerializerSchemaCompatibility.incompatible([])


def test_a_reason_is_seen_from_the_type_around_it() -> None:
    inner = Reason("Leg", ("speed",), "no")
    assert str(inner.below("list[Leg]", "element").below("Stats", "legs")) == (
        "Stats.legs.element.speed: no"
    )


def test_a_serializer_of_ones_own_needs_four_methods_and_its_snapshot_five() -> None:
    serializer: TypeSerializer[Celsius] = CelsiusSerializer()
    assert serializer.deserialize(serializer.serialize(Celsius(3))).degrees == 3
    assert serializer.type_name == "CelsiusSerializer"
    snapshot = serializer.snapshot_configuration()
    assert isinstance(snapshot, TypeSerializerSnapshot)
    assert snapshot.type_name == "CelsiusSerializer"
    assert isinstance(snapshot.reader_for(serializer), CelsiusSerializer)
    assert isinstance(CelsiusSerializerSnapshot().restore_serializer(), CelsiusSerializer)


def test_what_reads_old_state_writes_nothing() -> None:
    class Reader(OldStateReader[Any]):
        def deserialize(self, data: bytes) -> Any:
            return data

    with pytest.raises(UsageError, match="only be read"):
        Reader().serialize(1)
    with pytest.raises(UsageError, match="no snapshot"):
        Reader().snapshot_configuration()


def test_a_type_is_described_with_its_parts() -> None:
    def said(serializer: TypeSerializer[Any]) -> str:
        return serializer.snapshot_configuration().description

    assert said(serializer_of(Celsius)) == "Celsius(degrees: int)"
    assert said(serializer_of(list[int])) == "list[int]"
    assert said(AvroSerializer("long")) == 'Avro "long"'
    assert said(CelsiusSerializer()) == "CelsiusSerializer"
