"""Values, lists and maps in the state variables of ``transformWithState``, in bytes columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flinkish.state.declared import TaskFormats
from flinkish.state.generations import StateFormat
from flinkish.state.serializers import TypeSerializer


class VariableFormat:
    """The format of one state, as the task that runs has it. Picklable."""

    def __init__(self, name: str, formats: TaskFormats) -> None:
        self._name = name
        self._formats = formats

    def current(self) -> StateFormat:
        """Return the format for the task that runs."""
        return self._formats.current()[self._name]


class VariableValue:
    """A :class:`~flinkish.state.handles.ValueState` in a ``ValueState`` of Spark.

    ``variable`` is Spark's, of one column of bytes. ``formats`` returns the format of the bytes for
    the running task.
    """

    def __init__(self, variable: Any, formats: VariableFormat) -> None:
        self._variable = variable
        self._formats = formats

    def exists(self) -> bool:
        return bool(self._variable.exists())

    def value(self) -> Any:
        stored = self._variable.get()
        return None if stored is None else self._formats.current().read(bytes(stored[0]))

    def update(self, value: Any) -> None:
        """Set the value; None clears it."""
        if value is None:
            self.clear()
        else:
            self._variable.update((self._formats.current().write(value),))

    def clear(self) -> None:
        self._variable.clear()


class VariableList:
    """A :class:`~flinkish.state.handles.ListState` in a ``ListState`` of Spark, by elements."""

    def __init__(self, variable: Any, formats: VariableFormat) -> None:
        self._variable = variable
        self._formats = formats

    def exists(self) -> bool:
        return bool(self._variable.exists())

    def get(self) -> Iterator[Any]:
        read = self._formats.current().read
        return (read(bytes(row[0])) for row in self._variable.get())

    def add(self, value: Any) -> None:
        self._variable.appendValue((self._formats.current().write(value),))

    def add_all(self, values: Iterable[Any]) -> None:
        rows = self._rows(values)
        if rows:
            self._variable.appendList(rows)

    def update(self, values: Iterable[Any]) -> None:
        rows = self._rows(values)
        if rows:
            self._variable.put(rows)
        else:
            self._variable.clear()

    def clear(self) -> None:
        self._variable.clear()

    def _rows(self, values: Iterable[Any]) -> list[tuple[bytes]]:
        write = self._formats.current().write
        return [(write(value),) for value in values]


class VariableMap:
    """A :class:`~flinkish.state.handles.MapState` in a ``MapState`` of Spark, by entries.

    ``variable`` is Spark's, with one column of bytes for the map's key and one for its value;
    ``formats`` are those of the values. Spark finds entries by the bytes of their ``keys``, so
    these have no generation: a restore refuses keys that would be written differently.
    """

    def __init__(self, variable: Any, keys: TypeSerializer[Any], formats: VariableFormat) -> None:
        self._variable = variable
        self._keys = keys
        self._formats = formats

    def exists(self) -> bool:
        return bool(self._variable.exists())

    def contains(self, key: Any) -> bool:
        return bool(self._variable.containsKey(self._key(key)))

    def get(self, key: Any) -> Any:
        stored = self._variable.getValue(self._key(key))
        return None if stored is None else self._formats.current().read(bytes(stored[0]))

    def put(self, key: Any, value: Any) -> None:
        self._variable.updateValue(self._key(key), (self._formats.current().write(value),))

    def remove(self, key: Any) -> None:
        self._variable.removeKey(self._key(key))

    def keys(self) -> Iterator[Any]:
        read = self._keys.deserialize
        return (read(bytes(key[0])) for key in self._variable.keys())  # noqa: SIM118 - no dict

    def values(self) -> Iterator[Any]:
        read = self._formats.current().read
        return (read(bytes(value[0])) for value in self._variable.values())

    def items(self) -> Iterator[tuple[Any, Any]]:
        read = self._formats.current().read
        return (
            (self._keys.deserialize(bytes(key[0])), read(bytes(value[0])))
            for key, value in self._variable.iterator()
        )

    def clear(self) -> None:
        self._variable.clear()

    def _key(self, key: Any) -> tuple[bytes]:
        return (self._keys.serialize(key),)
