"""Typed state in ``applyInPandasWithState``: a column of bytes for each declared state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from flinkish.annotations import public_evolving
from flinkish.errors import UsageError
from flinkish.state.declared import StateDescriptor, TaskFormats, declare, mark
from flinkish.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from flinkish.state.generations import StateFormat
from flinkish.state.handles import (
    CellList,
    CellMap,
    CellValue,
    ListState,
    MapState,
    StateCell,
    ValueState,
)
from flinkish.state.shipping import ship_package

_NODES = frozenset({"FlatMapGroupsInPandasWithState"})


@public_evolving
def apply_in_pandas_with_state(
    grouped: Any,
    func: Callable[[Any, Iterator[Any], TypedGroupState], Iterable[Any]],
    output: Any,
    states: Sequence[StateDescriptor],
    output_mode: str,
    timeout: str = "NoTimeout",
) -> Any:
    """Apply a function to the rows of each key, with typed state.

    Like ``GroupedData.applyInPandasWithState``, except that the function's state is a
    :class:`TypedGroupState`. Name the result with :func:`flinkish.uid`, by which a restore finds
    the state.

    Parameters
    ----------
    grouped
        ``df.groupBy(...)``.
    func
        Takes a key (a tuple), an iterator of pandas frames and the state; returns such an iterator.
    output
        The type of the result, a ``StructType`` or DDL.
    states
        The states that the function uses.
    output_mode
        ``append`` or ``update``.
    timeout
        One of ``pyspark.sql.streaming.state.GroupStateTimeout``.

    Returns
    -------
    DataFrame
        The result.

    Raises
    ------
    UsageError
        The states are declared wrongly, or flinkish cannot be sent to the executors.
    """
    from pyspark.sql.types import BinaryType, StructType

    declared = declare(states)
    schema = StructType()
    for each in states:
        schema.add(each.name, BinaryType())
    typed = _TypedFunction(func, tuple(states), TaskFormats(declared, declared.serializers))
    ship_package(grouped._df.sparkSession.sparkContext)  # before Spark pickles the function
    df = grouped.applyInPandasWithState(typed.call, output, schema, output_mode, timeout)
    mark(df, declared, _NODES)
    return df


@public_evolving
class TypedGroupState:
    """The states of the current key, with the methods of ``GroupState`` for timeouts and time.

    Parameters
    ----------
    group_state
        Spark's ``pyspark.sql.streaming.state.GroupState``.
    cells
        The cell of each state's column, by the name of the state.
    """

    def __init__(self, group_state: Any, cells: Mapping[str, StateCell]) -> None:
        self._group_state = group_state
        self._cells = cells

    def get_value_state(self, descriptor: ValueStateDescriptor) -> ValueState:
        """Return the handle of the current key's value."""
        return CellValue(self._cell(descriptor))

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """Return the handle of the current key's list."""
        return CellList(self._cell(descriptor))

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState:
        """Return the handle of the current key's map."""
        return CellMap(self._cell(descriptor))

    def _cell(self, descriptor: StateDescriptor) -> StateCell:
        cell: StateCell = find_state(self._cells, descriptor)
        return cell

    @property
    def hasTimedOut(self) -> bool:
        """Whether the function is called because the key's timeout expired."""
        return bool(self._group_state.hasTimedOut)

    @property
    def oldTimeoutTimestamp(self) -> int:
        """The timeout that the key had before this call, in milliseconds."""
        return int(self._group_state.oldTimeoutTimestamp)

    def setTimeoutDuration(self, durationMs: int) -> None:
        """Set the timeout of the key, in milliseconds of processing time."""
        self._group_state.setTimeoutDuration(durationMs)

    def setTimeoutTimestamp(self, timestampMs: int) -> None:
        """Set the timeout of the key, in milliseconds of event time."""
        self._group_state.setTimeoutTimestamp(timestampMs)

    def getCurrentWatermarkMs(self) -> int:
        """Return the watermark in milliseconds."""
        return int(self._group_state.getCurrentWatermarkMs())

    def getCurrentProcessingTimeMs(self) -> int:
        """Return the processing time in milliseconds."""
        return int(self._group_state.getCurrentProcessingTimeMs())


def find_state(states: Mapping[str, Any], descriptor: StateDescriptor) -> Any:
    """Return the entry of a descriptor; UsageError if the operator does not declare the state."""
    try:
        return states[descriptor.name]
    except KeyError:
        raise UsageError(
            f"the operator declares no state {descriptor.name}",
            hint=f"add it to states=[...]; there are {', '.join(states)}",
        ) from None


class _TypedFunction:
    """The function that Spark calls: reads columns, calls the user's function, writes columns."""

    def __init__(
        self,
        func: Callable[[Any, Iterator[Any], TypedGroupState], Iterable[Any]],
        states: tuple[StateDescriptor, ...],
        formats: TaskFormats,
    ) -> None:
        self._func = func
        self._names = [each.name for each in states]
        self._formats = formats

    # This is a method, because Spark takes functions and methods, but not callable objects.
    def call(self, key: Any, frames: Iterator[Any], group_state: Any) -> Iterator[Any]:
        """Call the user's function for one key."""
        cells = self._cells(self._formats.current(), group_state.getOption)
        yield from self._func(key, frames, TypedGroupState(group_state, cells))
        stored = tuple(cell.stored() for cell in cells.values())
        if any(each is not None for each in stored):
            if any(cell.is_changed for cell in cells.values()):
                group_state.update(stored)
        elif group_state.exists:
            group_state.remove()

    def _cells(
        self, formats: Mapping[str, StateFormat], row: Sequence[Any] | None
    ) -> dict[str, StateCell]:
        columns: Sequence[Any] = row if row is not None else [None] * len(self._names)
        return {
            name: StateCell(formats[name], None if stored is None else bytes(stored))
            for name, stored in zip(self._names, columns, strict=True)
        }
