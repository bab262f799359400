"""Apply the decisions of :mod:`.evolution` to columns; only columns that change are touched.

A step converts the Arrow array of a value from the writer's type to the reader's. Steps are plain
data, so that they can be pickled for Spark's workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.engine.errors import EngineError
from flinkish.engine.rows.arrow_parts import build, build_map, list_parts, map_parts, null_mask
from flinkish.engine.rows.types import Array, Bytes, DataType, Fixed, Map, Struct, arrow_type


class CannotEvolve(EngineError):
    """A value cannot become one of the new schema, or the schemas are incompatible."""


@dataclass(frozen=True)
class Same:
    """The same type: the array is passed on."""

    @property
    def rewrites(self) -> bool:
        """Whether the bytes of values in state rows change, or may change for some values."""
        return False

    def run(self, array: Any) -> Any:
        """Return the array in the reader's type; raise CannotEvolve if a value does not fit."""
        return array


@dataclass(frozen=True)
class Cast:
    """Another type for each value; ``path`` is the field's path, for errors."""

    target: DataType
    path: str

    @property
    def rewrites(self) -> bool:
        return True

    def run(self, array: Any) -> Any:
        arrow = arrow_type(self.target)
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), arrow)
        if self.target == Bytes(text=False):
            return array.view(arrow)
        # Only casts to float or double may round, as Java's and Avro's do; they cannot overflow.
        rounds = isinstance(self.target, Fixed) and self.target.name in {"float", "double"}
        try:
            return array.cast(arrow, safe=not rounds)
        except pa.ArrowException as error:
            raise CannotEvolve(f"{self.path}: a value is not of type {arrow}: {error}") from error


@dataclass(frozen=True)
class Recode:
    """Other bytes for each value of a binary field, by the caller's function; nulls stay.

    The function may have a method ``many`` that returns a whole array rewritten, or None if the
    function must be called for each value.
    """

    path: str
    function: Callable[[bytes], bytes]

    @property
    def rewrites(self) -> bool:
        return True

    def run(self, array: Any) -> Any:
        try:
            many = getattr(self.function, "many", None)
            recoded = None if many is None else many(array)
            if recoded is not None:
                return recoded
            values = [None if v is None else self.function(v) for v in array.to_pylist()]
            return pa.array(values, array.type)
        except Exception as error:  # the function is the caller's: it may raise anything
            raise CannotEvolve(f"{self.path}: {error}") from error


@dataclass(frozen=True)
class FieldOrigin:
    """The origin of a field.

    ``path`` is for errors, ``target`` the reader's type. ``source`` is the index of the writer's
    field, None for an added field, whose value is ``default``; ``step`` is the conversion. With
    ``check`` a null is an error: the writer's field is nullable, the reader's is not.
    """

    path: str
    target: DataType
    source: int | None
    step: Step
    default: Any = None
    check: bool = False

    def run(self, columns: list[Any], null: Any) -> Any:
        """Return the field's array; ``null`` says which structs are null themselves."""
        if self.source is None:
            return added(self.target, self.default, len(null))
        array = columns[self.source]
        if self.check and array.null_count and (null_mask(array) & ~null).any():
            reason = f"{self.path}: a value is null, and the new schema has no nulls there"
            raise CannotEvolve(f"{reason}. Let the field stay nullable.")
        return self.step.run(array)


@dataclass(frozen=True)
class StructSteps:
    """The conversion of a struct, by the origins of its fields.

    ``written`` is the number of fields in the writer's struct.
    """

    target: Struct
    parts: tuple[FieldOrigin, ...]
    written: int

    @property
    def rewrites(self) -> bool:
        return len(self.parts) != self.written or any(
            part.source != index or part.check or part.step.rewrites
            for index, part in enumerate(self.parts)
        )

    def columns(self, columns: list[Any], null: Any) -> list[Any]:
        """Return the arrays of the reader's fields, from those of the writer's."""
        return [part.run(columns, null) for part in self.parts]

    def run(self, array: Any) -> Any:
        null = null_mask(array)
        columns = [array.field(i) for i in range(self.written)]
        return build(arrow_type(self.target), null, self.columns(columns, null))


@dataclass(frozen=True)
class ListSteps:
    """The conversion of the elements of lists."""

    target: Array
    step: Step

    @property
    def rewrites(self) -> bool:
        return self.step.rewrites

    def run(self, array: Any) -> Any:
        offsets, elements = list_parts(array)
        return build(arrow_type(self.target), null_mask(array), [self.step.run(elements)], offsets)


@dataclass(frozen=True)
class MapSteps:
    """The conversion of the keys and values of maps."""

    target: Map
    key: Step
    value: Step

    @property
    def rewrites(self) -> bool:
        return self.key.rewrites or self.value.rewrites

    def run(self, array: Any) -> Any:
        offsets, keys, items = map_parts(array)
        keys, items = self.key.run(keys), self.value.run(items)
        return build_map(arrow_type(self.target), null_mask(array), offsets, keys, items)


Step = Same | Cast | Recode | StructSteps | ListSteps | MapSteps


def added(target: DataType, default: Any, count: int) -> Any:
    """Return the array of an added field.

    ``default`` is as ``pyarrow.array`` accepts it. Raises CannotEvolve if it is not of the type.
    """
    arrow = arrow_type(target)
    if default is None:
        return pa.nulls(count, arrow)
    try:
        one = pa.array([default], arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise CannotEvolve(f"the default {default!r} is not of type {arrow}: {error}") from error
    return one.take(pa.array(np.zeros(count, np.int64)))
