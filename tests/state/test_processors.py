"""The handle that a processor gets, without Spark."""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.errors import UsageError
from flinkish.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from flinkish.state.processors import TypedHandle
from tests.state.programs import ScaleSerializer


def _handle(declared: Any) -> TypedHandle:
    sparks = SimpleNamespace(getValueState=lambda *_: None, getListState=lambda *_: None)
    formats: Any = None
    return TypedHandle(sparks, {declared.name: declared}, formats)


def test_a_descriptor_is_the_declared_one_although_its_serializer_was_pickled() -> None:
    descriptor = ValueStateDescriptor("s", ScaleSerializer(2))
    copy = pickle.loads(pickle.dumps(descriptor))
    assert copy != descriptor
    _handle(copy).get_value_state(descriptor)


def test_a_serializer_whose_classes_were_pickled_by_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serializer = ScaleSerializer(2)
    declared, descriptor = (ValueStateDescriptor("s", serializer) for _ in range(2))
    monkeypatch.delitem(sys.modules, ScaleSerializer.__module__)
    _handle(declared).get_value_state(descriptor)


@pytest.mark.parametrize(
    "other",
    [
        ValueStateDescriptor("s", ScaleSerializer(3)),
        ValueStateDescriptor("s", int),
        ListStateDescriptor("s", ScaleSerializer(2)),
    ],
)
def test_another_type_or_kind_of_state_is_refused(other: Any) -> None:
    handle = _handle(ValueStateDescriptor("s", ScaleSerializer(2)))
    get = handle.get_list_state if "List" in type(other).__name__ else handle.get_value_state
    with pytest.raises(UsageError, match="is declared differently"):
        get(other)
