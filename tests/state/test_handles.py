"""Values, lists and maps in a column of a key's row."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.errors import UsageError
from flinkish.state.builtin.records import serializer_of
from flinkish.state.generations import StateFormat
from flinkish.state.handles import CellList, CellMap, CellValue, StateCell


def cell(hint: Any, value: Any = None) -> StateCell:
    format = StateFormat.of(serializer_of(hint))
    return StateCell(format, None if value is None else format.write(value))


def value_in(changed: StateCell, hint: Any) -> Any:
    """What another batch reads."""
    stored = changed.stored()
    return None if stored is None else StateFormat.of(serializer_of(hint)).read(stored)


def test_a_value() -> None:
    column = cell(int)
    state = CellValue(column)
    assert not state.exists()
    assert state.value() is None
    state.update(5)
    assert state.exists()
    assert state.value() == 5
    assert value_in(column, int) == 5
    state.clear()
    assert state.value() is None
    assert column.stored() is None


def test_what_is_only_read_is_not_written() -> None:
    column = cell(int, 7)
    before = column.stored()
    assert CellValue(column).value() == 7
    assert column.stored() is before
    assert not column.is_changed


def test_a_value_of_another_type_is_refused_when_it_is_written() -> None:
    column = cell(int)
    CellValue(column).update("five")
    with pytest.raises(UsageError):
        column.stored()


def test_a_list() -> None:
    column = cell(list[int], [1])
    state = CellList(column)
    assert list(state.get()) == [1]
    state.add(2)
    state.add_all(iter((3, 4)))
    state.add_all([])
    assert value_in(column, list[int]) == [1, 2, 3, 4]
    state.update([9])
    assert list(state.get()) == [9]
    assert state.exists()
    state.update([])
    assert not state.exists()
    assert column.stored() is None
    state.add(1)
    state.clear()
    assert list(state.get()) == []


def test_a_list_may_be_changed_while_it_is_read() -> None:
    state = CellList(cell(list[int], [1, 2]))
    for each in state.get():
        state.add(each * 10)
    assert list(state.get()) == [1, 2, 10, 20]


def test_a_map() -> None:
    column = cell(dict[str, int], {"a": 1})
    state = CellMap(column)
    assert state.exists()
    assert state.contains("a")
    assert not state.contains("b")
    assert state.get("a") == 1
    assert state.get("b") is None
    state.put("b", 2)
    assert list(state.keys()) == ["a", "b"]
    assert list(state.values()) == [1, 2]
    assert dict(state.items()) == value_in(column, dict[str, int]) == {"a": 1, "b": 2}
    for key in state.keys():  # noqa: SIM118 - no dict
        state.remove(key)
    state.remove("never")
    assert not state.exists()
    assert column.stored() is None
    state.put("c", 3)
    state.clear()
    assert list(state.items()) == []
