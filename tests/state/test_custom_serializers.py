"""The whole example of ``docs/custom-serializers.md``: both versions, judged and migrated."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from flinkish.errors import Corrupt, Incompatible
from flinkish.state import (
    ListSerializer,
    MapSerializer,
    TypeSerializer,
    Verdict,
    read_snapshot,
    restore_state,
    serializer_of,
    write_snapshot,
)
from tests.support.guides.blocks import blocks, text_of

PAGE = "docs/custom-serializers.md"
VERSION_1, PROGRAM, VERSION_2 = (block.text for block in blocks(PAGE, "python"))

#: Runs texts of the page as its module, in place of the one before.
Load = Callable[..., Any]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    def load(*texts: str) -> Any:
        module = types.ModuleType("money")
        monkeypatch.setitem(sys.modules, "money", module)
        for text in texts:
            exec(compile(text, PAGE, "exec"), module.__dict__)
        return module

    return load


def snapshot_of(serializer: TypeSerializer[Any]) -> bytes:
    return write_snapshot(serializer.snapshot_configuration())


def judge(snapshot: bytes, new: TypeSerializer[Any]) -> Verdict:
    old = read_snapshot(snapshot, "the state", ["money", "flinkish"])
    return old.resolve_schema_compatibility(new).verdict


def test_version_2_migrates_what_version_1_wrote(load: Load) -> None:
    first = load(VERSION_1)
    wrapped = first.ExtremesSerializer(first.MONEY)
    low, high = first.Money(Decimal("-1.50"), "EUR"), first.Money(Decimal("1234567.89"), "EUR")
    written = wrapped.serialize(first.Extremes(low, high))
    assert wrapped.deserialize(written) == first.Extremes(low, high)
    snapshot = snapshot_of(wrapped)

    second = load(VERSION_1, VERSION_2)
    new = second.ExtremesSerializer(second.MONEY)
    restored = restore_state(read_snapshot(snapshot, "the state", ["money"]), new, "the state")
    assert restored.needs_migration
    migrated = restored.migrate(written)
    assert migrated != written
    value = new.deserialize(migrated)
    assert (value.lowest.amount, value.highest.amount) == (Decimal("-1.5"), Decimal("1234567.89"))
    more = second.Money(Decimal("0.1234"), "EUR")
    assert second.MONEY.deserialize(second.MONEY.serialize(more)) == more


def test_the_table_of_verdicts(load: Load) -> None:
    first = load(VERSION_1)
    one = snapshot_of(first.ExtremesSerializer(first.MONEY))
    second = load(VERSION_1, VERSION_2)

    def extremes(digits: int | None) -> Any:
        return second.ExtremesSerializer(second.MoneySerializer(digits))

    two, four = (snapshot_of(extremes(digits)) for digits in (2, 4))
    for old in (one, two):
        assert judge(old, extremes(2)) is Verdict.AS_IS
        assert judge(old, extremes(4)) is Verdict.AFTER_MIGRATION
    assert judge(four, extremes(None)) is Verdict.RECONFIGURED
    kept = restore_state(read_snapshot(four, "it", ["money"]), extremes(None), "it").serializer
    assert kept.element.digits == 4  # type: ignore[attr-defined]  # a class of the page
    with pytest.raises(Incompatible) as caught:
        restore_state(read_snapshot(four, "it", ["money"]), extremes(2), "it")
    reason = "ExtremesSerializer.element: it has 4 digits, and 2 would lose some"
    assert reason in caught.value.message
    assert f"`{reason}`" in text_of(PAGE)
    assert judge(one, serializer_of(int)) is Verdict.INCOMPATIBLE


def test_it_is_nested_in_those_of_flinkish(load: Load) -> None:
    first = load(VERSION_1)
    snapshots = [
        snapshot_of(ListSerializer(first.MONEY)),
        snapshot_of(MapSerializer(serializer_of(str), first.MONEY)),
    ]
    second = load(VERSION_1, VERSION_2)
    after: list[TypeSerializer[Any]] = [
        ListSerializer(second.MONEY),
        MapSerializer(serializer_of(str), second.MONEY),
    ]
    verdicts = [judge(old, new) for old, new in zip(snapshots, after, strict=True)]
    assert verdicts == [Verdict.AFTER_MIGRATION] * 2


def test_a_damaged_content_is_refused(load: Load) -> None:
    second = load(VERSION_1, VERSION_2)
    snapshot = snapshot_of(second.MoneySerializer(4))
    assert snapshot.endswith(b"\x04")
    with pytest.raises(Corrupt):
        read_snapshot(snapshot[:-1], "the state", ["money"])
