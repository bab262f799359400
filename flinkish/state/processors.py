"""Typed state in ``transformWithState`` and ``transformWithStateInPandas`` (Spark 4).

Values, lists and maps are kept in Spark's state variables, as columns of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flinkish.annotations import public_evolving
from flinkish.errors import UnsupportedSession, UsageError
from flinkish.state.declared import StateDescriptor, TaskFormats, declare, mark
from flinkish.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from flinkish.state.generations import StateFormat
from flinkish.state.group_state import find_state
from flinkish.state.handles import ListState, MapState, ValueState
from flinkish.state.serializers import TypeSerializer
from flinkish.state.shipping import ship_package
from flinkish.state.snapshots import write_snapshot

_NODES = frozenset({"TransformWithStateInPandas", "TransformWithStateInPySpark"})


@public_evolving
def transform_with_state(
    grouped: Any,
    processor: Any,
    output: Any,
    states: Sequence[StateDescriptor],
    output_mode: str,
    time_mode: str = "None",
    *,
    in_pandas: bool = False,
    event_time_column: str = "",
) -> Any:
    """Apply a ``StatefulProcessor`` to the rows of each key, with typed state.

    Like ``GroupedData.transformWithState``, except that the processor's ``init`` gets a
    :class:`TypedHandle`. Name the result with :func:`flinkish.uid`, by which a restore finds the
    state.

    Parameters
    ----------
    grouped
        ``df.groupBy(...)``.
    processor
        The user's ``StatefulProcessor``.
    output
        The type of the result, a ``StructType`` or DDL.
    states
        The states that the processor uses.
    output_mode
        ``append`` or ``update``.
    time_mode
        ``None``, ``ProcessingTime`` or ``EventTime``.
    in_pandas
        Whether the processor takes pandas frames (``transformWithStateInPandas``), not rows.
    event_time_column
        The column of the result with the event time, for operators downstream.

    Returns
    -------
    DataFrame
        The result.

    Raises
    ------
    UsageError
        The states are declared wrongly, or flinkish cannot be sent to the executors.
    UnsupportedSession
        This Spark is older than 4.1 (with ``in_pandas``: than 4.0).
    """
    method = "transformWithStateInPandas" if in_pandas else "transformWithState"
    if not hasattr(grouped, method):
        raise UnsupportedSession(
            f"this Spark has no {method}",
            hint="use apply_in_pandas_with_state, or Spark 4.1 or newer (4.0 with in_pandas)",
        )
    declared = declare(states, by_element=True)
    wrapped = _typed_processor(processor, states, TaskFormats(declared, declared.serializers))
    ship_package(grouped._df.sparkSession.sparkContext)  # before Spark pickles the function
    df = getattr(grouped, method)(
        wrapped, output, output_mode, time_mode, eventTimeColumnName=event_time_column
    )
    mark(df, declared, _NODES)
    return df


@public_evolving
class TypedHandle:
    """A ``StatefulProcessorHandle`` that also gives typed states; for use in ``init``.

    Parameters
    ----------
    handle
        Spark's handle, which provides what this class lacks (timers, ``deleteIfExists``).
    declared
        The operator's states, by name.
    formats
        The formats of their bytes.
    """

    def __init__(
        self, handle: Any, declared: Mapping[str, StateDescriptor], formats: TaskFormats
    ) -> None:
        self._handle = handle
        self._declared = declared
        self._formats = formats

    def get_value_state(
        self, descriptor: ValueStateDescriptor, ttl_ms: int | None = None
    ) -> ValueState:
        """Return the handle of the current key's value.

        Parameters
        ----------
        ttl_ms
            Time to live of a value in milliseconds; None means forever.
        """
        state = self._checked(descriptor)
        variable = self._handle.getValueState(descriptor.name, _bytes("value"), ttl_ms)
        return VariableValue(variable, state)

    def get_list_state(
        self, descriptor: ListStateDescriptor, ttl_ms: int | None = None
    ) -> ListState:
        """Return the handle of the current key's list; see :meth:`get_value_state`."""
        state = self._checked(descriptor)
        variable = self._handle.getListState(descriptor.name, _bytes("value"), ttl_ms)
        return VariableList(variable, state)

    def get_map_state(self, descriptor: MapStateDescriptor, ttl_ms: int | None = None) -> MapState:
        """Return the handle of the current key's map; see :meth:`get_value_state`."""
        state = self._checked(descriptor)
        variable = self._handle.getMapState(descriptor.name, _bytes("key"), _bytes("value"), ttl_ms)
        return VariableMap(variable, descriptor.serializer.key, state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def _checked(self, descriptor: StateDescriptor) -> VariableFormat:
        declared = find_state(self._declared, descriptor)
        if declared != descriptor and not _alike(declared, descriptor):
            raise UsageError(
                f"the state {descriptor.name} is declared differently in states=[...]",
                hint="use one descriptor in both places",
            )
        return VariableFormat(descriptor.name, self._formats)


def _alike(declared: StateDescriptor, descriptor: StateDescriptor) -> bool:
    """Return whether both are of one kind, and their serializers of one configuration.

    A custom serializer need not define equality, and the declared one was pickled.
    """
    return type(declared) is type(descriptor) and _written(declared) == _written(descriptor)


def _written(descriptor: StateDescriptor) -> bytes:
    return write_snapshot(descriptor.serializer.snapshot_configuration())


def _bytes(column: str) -> Any:
    from pyspark.sql.types import BinaryType, StructType

    return StructType().add(column, BinaryType())


def _typed_processor(
    processor: Any, states: Sequence[StateDescriptor], formats: TaskFormats
) -> Any:
    """Return a ``StatefulProcessor`` that passes a :class:`TypedHandle` to the user's processor."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    declared = {each.name: each for each in states}

    class Typed(StatefulProcessor):
        """Passes Spark's calls to the user's processor, and a typed handle to its ``init``."""

        def init(self, handle: Any) -> None:
            processor.init(TypedHandle(handle, declared, formats))

        def handleInputRows(
            self,
            key: Any,
            rows: Any,
            timerValues: Any,
        ) -> Any:
            return processor.handleInputRows(key, rows, timerValues)

        def handleExpiredTimer(
            self,
            key: Any,
            timerValues: Any,
            expiredTimerInfo: Any,
        ) -> Any:
            return processor.handleExpiredTimer(key, timerValues, expiredTimerInfo)

        def close(self) -> None:
            processor.close()

    return Typed()


class VariableFormat:
    """The format of one state, as the running task sees it. Picklable."""

    def __init__(self, name: str, formats: TaskFormats) -> None:
        self._name = name
        self._formats = formats

    def current(self) -> StateFormat:
        """Return the format for the running task."""
        return self._formats.current()[self._name]


class VariableValue:
    """A :class:`~flinkish.state.handles.ValueState` in a ``ValueState`` of Spark.

    ``variable`` is Spark's state variable with one column of bytes. ``formats`` holds the format
    of the bytes for the running task.
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
    """A :class:`~flinkish.state.handles.ListState`; a ``ListState`` of Spark has its elements."""

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
    """A :class:`~flinkish.state.handles.MapState`; a ``MapState`` of Spark has its entries.

    ``variable`` is Spark's state variable, with one column of bytes for the map's key and one for
    its value. ``keys`` is the serializer of the keys; ``formats`` holds the format of the values.
    Spark finds an entry by the bytes of its key. So the bytes of keys contain no generation, and a
    restore refuses a serializer that would write keys differently. Equal keys with different bytes
    are different entries: ``Decimal("1")`` and ``Decimal("1.0")``, or one instant in two zones.
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
        return (read(bytes(key[0])) for key in self._variable.keys())  # noqa: SIM118 - not a dict

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
