"""The way out of old-style serializers, step by step, until the old classes can go."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.errors import Corrupt, Incompatible, UsageError
from flinkish.state import ValueStateDescriptor
from flinkish.state.builtin.containers import ListSerializer
from flinkish.state.builtin.primitives import LongSerializer
from flinkish.state.generations import RestoredState, restore_state
from flinkish.state.legacy import LegacySerializer
from flinkish.state.serializers import TypeSerializer, Verdict
from flinkish.state.snapshots import read_snapshot, write_snapshot
from flinkish.state.wire import put_part, put_text
from tests.state import programs
from tests.state.programs import (
    FinerScaleSerializer,
    KeepsTheOldMethod,
    OldScaleSerializer,
    ScaleSerializer,
    ScaleSerializerSnapshot,
)
from tests.state.test_snapshots import frame

OWN = ("flinkish", "tests.state")


def savepoint(serializer: TypeSerializer[Any]) -> bytes:
    return write_snapshot(serializer.snapshot_configuration())


def restored(data: bytes, new: TypeSerializer[Any]) -> RestoredState:
    return restore_state(read_snapshot(data, "the state x", OWN), new, "the state x")


def delete_the_old_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(programs, "ScaleConfig")
    monkeypatch.delattr(programs, "OldScaleSerializer")


def test_the_migration_path(monkeypatch: pytest.MonkeyPatch) -> None:
    before = savepoint(LegacySerializer(OldScaleSerializer()))
    old = OldScaleSerializer().serialize(1.25)

    new = LegacySerializer(OldScaleSerializer(), ScaleSerializerSnapshot)
    first = restored(before, new)
    assert first.compatibility.verdict is Verdict.AS_IS
    assert first.read(old) == 1.25
    after = savepoint(first.serializer)
    assert b"Config" not in after
    assert b"OldScale" not in after

    delete_the_old_classes(monkeypatch)
    second = restored(after, ScaleSerializer())
    assert second.read(old) == 1.25
    with pytest.raises(Incompatible, match="ScaleConfig"):
        read_snapshot(before, "the state x", OWN)


def test_a_serializer_that_is_new_already_keeps_its_old_method_for_one_savepoint() -> None:
    before = savepoint(LegacySerializer(OldScaleSerializer()))
    assert restored(before, KeepsTheOldMethod()).compatibility.verdict is Verdict.AS_IS
    found = restored(before, KeepsTheOldMethod(3))
    assert found.needs_migration
    old = OldScaleSerializer().serialize(1.25)
    assert found.migrate(old) == b"1250"
    assert found.serializer.deserialize(found.migrate(old)) == 1.25


def test_without_the_old_method_the_reason_says_to_keep_it() -> None:
    before = savepoint(LegacySerializer(OldScaleSerializer()))
    with pytest.raises(Incompatible, match="it has no ensure_compatibility"):
        restored(before, ScaleSerializer())
    with pytest.raises(Incompatible, match="int: it has no ensure_compatibility"):
        restored(before, LongSerializer())


def test_what_requires_migration_is_read_by_the_old_serializer() -> None:
    before = savepoint(LegacySerializer(OldScaleSerializer()))
    found = restored(before, LegacySerializer(FinerScaleSerializer()))
    assert found.compatibility.verdict is Verdict.AFTER_MIGRATION
    assert found.migrate(OldScaleSerializer().serialize(1.25)) == b"1250"


def test_inside_a_list() -> None:
    before = savepoint(ListSerializer(LegacySerializer(OldScaleSerializer())))
    found = restored(before, ListSerializer(KeepsTheOldMethod(3)))
    old = ListSerializer(LegacySerializer(OldScaleSerializer())).serialize([1.25, 2.5])
    assert found.serializer.deserialize(found.migrate(old)) == [1.25, 2.5]


def test_a_method_that_answers_nothing_is_no_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = savepoint(LegacySerializer(OldScaleSerializer()))
    monkeypatch.setattr(OldScaleSerializer, "ensure_compatibility", lambda *_: None)
    with pytest.raises(Incompatible, match="returned None"):
        restored(before, LegacySerializer(OldScaleSerializer()))


def test_a_newer_or_damaged_configuration_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    before = savepoint(LegacySerializer(OldScaleSerializer()))
    monkeypatch.setattr(programs.ScaleConfig, "version", 1)
    with pytest.raises(Corrupt, match="version 2 of"):
        read_snapshot(before, "the state x", OWN)


def test_a_class_that_is_no_serializer_is_not_called() -> None:
    content = bytearray()
    put_text(content, "tests.state.programs:Celsius")
    put_text(content, "tests.state.programs:ScaleConfig")
    content += b"\x01"
    put_part(content, b"\x02")
    data = frame("flinkish.state.legacy:LegacySerializerSnapshot", content=bytes(content))
    with pytest.raises(Corrupt, match="programs:Celsius is not a serializer"):
        read_snapshot(data, "the state x", OWN)


def test_old_classes_must_be_found_again_as_nothing_is_pickled() -> None:
    class Local(OldScaleSerializer):
        pass

    with pytest.raises(UsageError, match="not at the top level"):
        LegacySerializer(Local())
    assert LegacySerializer(Local(), ScaleSerializerSnapshot).type_name == "Local"


def test_an_old_style_serializer_is_not_taken_for_a_new_one() -> None:
    with pytest.raises(UsageError):
        ValueStateDescriptor("x", OldScaleSerializer())
    assert ValueStateDescriptor("x", LegacySerializer(OldScaleSerializer())).serializer
