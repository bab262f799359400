"""The handles for a user's function: the value, list or map of the current key.

They are Flink's ``ValueState``, ``ListState`` and ``MapState``. Each has two implementations: the
one for ``applyInPandasWithState`` keeps the state in one column of the key's row (this module), the
one for ``transformWithState`` in a state variable of Spark (:mod:`flinkish.state.processors`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from flinkish.state.generations import StateFormat


class ValueState(Protocol):
    """One value for the current key."""

    def exists(self) -> bool:
        """Return whether the key has a value."""
        ...

    def value(self) -> Any:
        """Return the value; None if the key has none."""
        ...

    def update(self, value: Any) -> None:
        """Set the value; None removes it."""
        ...

    def clear(self) -> None:
        """Remove the value."""
        ...


class ListState(Protocol):
    """A list for the current key."""

    def exists(self) -> bool:
        """Return whether the list has elements."""
        ...

    def get(self) -> Iterator[Any]:
        """Return the elements, in their order."""
        ...

    def add(self, value: Any) -> None:
        """Append an element."""
        ...

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements."""
        ...

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements."""
        ...

    def clear(self) -> None:
        """Remove all elements."""
        ...


class MapState(Protocol):
    """A map for the current key."""

    def exists(self) -> bool:
        """Return whether the map has entries."""
        ...

    def contains(self, key: Any) -> bool:
        """Return whether the map has a key."""
        ...

    def get(self, key: Any) -> Any:
        """Return the value of a key of the map; None if the map lacks the key."""
        ...

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key of the map."""
        ...

    def remove(self, key: Any) -> None:
        """Remove a key of the map, if it exists."""
        ...

    def keys(self) -> Iterator[Any]:
        """Return the keys of the map."""
        ...

    def values(self) -> Iterator[Any]:
        """Return the values of the map."""
        ...

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return the entries of the map."""
        ...

    def clear(self) -> None:
        """Remove all entries."""
        ...


class StateCell:
    """A state of the current key in one column: read at first use, written once at the end.

    ``format`` writes and reads bytes. ``stored`` are the column's bytes, None if the key has none.
    """

    def __init__(self, format: StateFormat, stored: bytes | None) -> None:
        self._format = format
        self._stored = stored
        self._value: Any = None
        self._is_read = stored is None
        #: Whether the value was set.
        self.is_changed = False

    def load(self) -> Any:
        """Return the value; None if the key has none."""
        if not self._is_read:
            assert self._stored is not None
            self._value = self._format.read(self._stored)
            self._is_read = True
        return self._value

    def store(self, value: Any) -> None:
        """Set the value; None removes it."""
        self._value = value
        self._is_read = self.is_changed = True

    def stored(self) -> bytes | None:
        """Return the bytes for the column: the original bytes unless the value was set.

        Raises UsageError if the value is not of the declared type.
        """
        if self.is_changed:
            return None if self._value is None else self._format.write(self._value)
        return self._stored


class CellValue:
    """A :class:`ValueState` in a column."""

    def __init__(self, cell: StateCell) -> None:
        self._cell = cell

    def exists(self) -> bool:
        return self._cell.load() is not None

    def value(self) -> Any:
        """Return the value; a change in place is stored only by ``update``."""
        return self._cell.load()

    def update(self, value: Any) -> None:
        self._cell.store(value)

    def clear(self) -> None:
        self._cell.store(None)


class CellList:
    """A :class:`ListState` in a column."""

    def __init__(self, cell: StateCell) -> None:
        self._cell = cell

    def exists(self) -> bool:
        return bool(self._cell.load())

    def get(self) -> Iterator[Any]:
        return iter(list(self._cell.load() or ()))

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: Iterable[Any]) -> None:
        more = list(values)
        if more:
            self._cell.store([*(self._cell.load() or ()), *more])

    def update(self, values: Iterable[Any]) -> None:
        self._cell.store(list(values) or None)

    def clear(self) -> None:
        self._cell.store(None)


class CellMap:
    """A :class:`MapState` in a column."""

    def __init__(self, cell: StateCell) -> None:
        self._cell = cell

    def _entries(self) -> dict[Any, Any]:
        return self._cell.load() or {}

    def exists(self) -> bool:
        return bool(self._entries())

    def contains(self, key: Any) -> bool:
        return key in self._entries()

    def get(self, key: Any) -> Any:
        return self._entries().get(key)

    def put(self, key: Any, value: Any) -> None:
        self._cell.store({**self._entries(), key: value})

    def remove(self, key: Any) -> None:
        left = {name: value for name, value in self._entries().items() if name != key}
        self._cell.store(left or None)

    def keys(self) -> Iterator[Any]:
        return iter(list(self._entries()))

    def values(self) -> Iterator[Any]:
        return iter(list(self._entries().values()))

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(list(self._entries().items()))

    def clear(self) -> None:
        self._cell.store(None)
