"""Pickled state: asked for by name, warned of once, never migrated."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from flinkish.errors import Corrupt, Incompatible, UsageError
from flinkish.state.builtin import unsafe_pickle
from flinkish.state.builtin.primitives import LongSerializer
from flinkish.state.builtin.records import serializer_of
from flinkish.state.builtin.unsafe_pickle import UnsafePickleSerializer
from flinkish.state.serializers import Verdict
from flinkish.state.snapshots import read_snapshot, write_snapshot

OWN = ("flinkish", "tests.state")


class Thing:
    """Of a class that nothing else can serialize."""

    def __init__(self, x: Any = 1) -> None:
        self.x = x


class Other:
    pass


@pytest.fixture(autouse=True)
def _never_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsafe_pickle, "_warned", set())


def quiet(cls: type) -> UnsafePickleSerializer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return UnsafePickleSerializer(cls)


def test_it_warns_once_for_each_class() -> None:
    with pytest.warns(UserWarning, match=r"test_unsafe_pickle:Thing is pickled: it can never"):
        UnsafePickleSerializer(Thing)
    UnsafePickleSerializer(Thing)
    with pytest.warns(UserWarning, match="Other is pickled"):
        UnsafePickleSerializer(Other)


def test_round_trip() -> None:
    serializer = quiet(Thing)
    assert serializer.deserialize(serializer.serialize(Thing([1, "a"]))).x == [1, "a"]


def test_it_is_never_chosen_by_itself() -> None:
    with pytest.raises(UsageError) as caught:
        serializer_of(Thing)
    assert "as a last resort UnsafePickleSerializer" in caught.value.hint


def test_as_is_or_incompatible() -> None:
    data = write_snapshot(quiet(Thing).snapshot_configuration())
    snapshot = read_snapshot(data, "the state x", OWN)
    same = snapshot.resolve_schema_compatibility(quiet(Thing))
    assert same.verdict is Verdict.AS_IS
    assert snapshot.restore_serializer() == quiet(Thing)
    for other in (quiet(Other), LongSerializer()):
        (reason,) = snapshot.resolve_schema_compatibility(other).reasons
        assert "pickled state is never migrated" in reason
    with pytest.raises(Incompatible, match="was never read"):
        quiet(Thing).snapshot_configuration().restore_serializer()


def test_a_class_is_imported_from_allowed_modules_only() -> None:
    data = write_snapshot(quiet(Thing).snapshot_configuration())
    snapshot = read_snapshot(data, "the state x")
    with pytest.raises(Incompatible, match="may be imported"):
        snapshot.restore_serializer()


def test_errors() -> None:
    serializer = quiet(Thing)
    with pytest.raises(UsageError, match="is not of type pickled"):
        serializer.serialize(Other())
    with pytest.raises(UsageError, match="cannot be pickled"):
        serializer.serialize(Thing(lambda: 1))
    with pytest.raises(Corrupt, match="cannot be read"):
        serializer.deserialize(b"x")
    with pytest.raises(Corrupt, match="a Other was found instead of"):
        serializer.deserialize(quiet(Other).serialize(Other()))
    with pytest.raises(UsageError, match="not at the top level"):
        UnsafePickleSerializer(type("Local", (), {"__qualname__": "f.<locals>.Local"}))
