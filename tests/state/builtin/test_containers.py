"""Lists, maps, tuples, optional values: round trips, what may change in them, damage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.errors import Corrupt, UsageError
from flinkish.state import serializer_of
from flinkish.state.avro.serializer import AvroSerializer
from flinkish.state.builtin.containers import (
    ListSerializer,
    MapSerializer,
    OptionalSerializer,
    TupleSerializer,
)
from flinkish.state.generations import restore_state
from flinkish.state.serializers import TypeSerializerSchemaCompatibility, Verdict
from flinkish.state.snapshots import read_snapshot, write_snapshot

_TEXTS = st.text(max_size=3)
HINTS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (list[int], st.lists(st.integers(-9, 9))),
    (dict[str, bytes], st.dictionaries(_TEXTS, st.binary(max_size=200))),
    (
        dict[tuple[int, str], list[bool]],
        st.dictionaries(st.tuples(st.integers(0, 9), _TEXTS), st.lists(st.booleans())),
    ),
    (tuple[int, str, bool], st.tuples(st.integers(0, 9), _TEXTS, st.booleans())),
    (tuple[()], st.just(())),
    (list[int | None] | None, st.none() | st.lists(st.none() | st.integers(0, 9))),
]


@given(st.data())
def test_values_come_back_as_they_were(data: st.DataObject) -> None:
    hint, values = data.draw(st.sampled_from(HINTS))
    value = data.draw(values)
    serializer = serializer_of(hint)
    found = serializer.deserialize(serializer.serialize(value))
    assert found == value
    assert repr(found) == repr(value), "the order of a map stays"


@pytest.mark.parametrize("hint", [each for each, _ in HINTS])
def test_the_snapshot_restores_the_same_serializer(hint: Any) -> None:
    serializer = serializer_of(hint)
    snapshot = read_snapshot(write_snapshot(serializer.snapshot_configuration()), "the state x")
    assert snapshot.restore_serializer() == serializer
    assert snapshot.type_name == serializer.type_name
    assert snapshot.resolve_schema_compatibility(serializer).verdict is Verdict.AS_IS


def judged(old: Any, new: Any) -> TypeSerializerSchemaCompatibility:
    snapshot = serializer_of(old).snapshot_configuration()
    return snapshot.resolve_schema_compatibility(serializer_of(new))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (list[int], list[str], "list[str].element: int -> str: "),
        (dict[str, list[int]], dict[str, list[float]], "dict[str, list[float]].value.element: "),
        (dict[str, int], dict[int, int], "dict[int, int].key: str -> int: "),
        (tuple[int, str], tuple[int, bytes], "tuple[int, bytes].1: str -> bytes: "),
        (tuple[int, str], tuple[int], "tuple[int]: tuple[int, str] -> tuple[int]: "),
        (int | None, str | None, "Optional[str].value: int -> str: "),
        (int | None, int, "int: Optional[int] -> int: "),
        (list[int], tuple[int], "tuple[int]: list[int] -> tuple[int]: "),
    ],
)
def test_reasons_have_the_path(old: Any, new: Any, reason: str) -> None:
    (found,) = judged(old, new).reasons
    assert found.startswith(reason)


INT, MAYBE = AvroSerializer("int"), AvroSerializer(["null", "double"])


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (ListSerializer(INT), ListSerializer(MAYBE), [1, 2]),
        (TupleSerializer((INT, INT)), TupleSerializer((INT, MAYBE)), (1, 2)),
        (OptionalSerializer(INT), OptionalSerializer(MAYBE), 1),
        (
            MapSerializer(serializer_of(str), INT),
            MapSerializer(serializer_of(str), MAYBE),
            {"k": 1},
        ),
        (ListSerializer(OptionalSerializer(INT)), ListSerializer(OptionalSerializer(MAYBE)), [1]),
    ],
)
def test_parts_are_migrated(old: Any, new: Any, value: Any) -> None:
    found = restore_state(old.snapshot_configuration(), new, "the state x")
    assert found.needs_migration
    assert new.deserialize(found.migrate(old.serialize(value))) == value


def test_keys_are_not_migrated() -> None:
    old, new = MapSerializer(INT, INT), MapSerializer(MAYBE, INT)
    (reason,) = old.snapshot_configuration().resolve_schema_compatibility(new).reasons
    assert "two of them might become equal" in reason
    wider = MapSerializer(AvroSerializer("long"), INT)  # the same bytes
    verdict = old.snapshot_configuration().resolve_schema_compatibility(wider).verdict
    assert verdict is Verdict.AS_IS


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (list[int], (1,)),
        (dict[str, int], [1]),
        (tuple[int], [1]),
        (tuple[int], (1, 2)),
        (list[int], [None]),
        (tuple[()], (1,)),
    ],
)
def test_values_of_other_types_are_refused(hint: Any, value: Any) -> None:
    with pytest.raises(UsageError):
        serializer_of(hint).serialize(value)


@pytest.mark.parametrize(
    ("hint", "data"),
    [
        (list[str], b""),
        (list[str], b"\2\1a"),
        (list[str], b"\1\1ab"),
        (list[str], b"\xff\xff\xff\xff\x0f"),
        (dict[str, str], b"\2\1a\1x\1a\1y"),
        (tuple[str, str], b"\1a"),
        (tuple[()], b"x"),
        (str | None, b""),
        (str | None, b"\2"),
        (str | None, b"\0x"),
    ],
)
def test_damaged_bytes(hint: Any, data: bytes) -> None:
    with pytest.raises(Corrupt):
        serializer_of(hint).deserialize(data)
