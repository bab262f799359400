"""Columns of bytes that the caller can read: a table with their values in place of the bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flinkish.engine.errors import StateFormatError
from flinkish.engine.rows.arrow_parts import build, list_parts, null_mask
from flinkish.engine.rows.types import Array, DataType, Field, Struct, arrow_type

#: The columns of a table.
KEY: Final = "key"
VALUE: Final = "value"


@dataclass(frozen=True)
class ColumnDecoder:
    """Reads the bytes of one column. Picklable if ``decode`` is.

    ``path`` is ``key`` or ``value``, and the names of the fields down to the column; the elements
    of a list state have no name. ``type`` is that of the values. ``decode`` returns the value of
    bytes, as ``pyarrow.array`` takes it, and raises if they are not valid.
    """

    path: tuple[str, ...]
    type: DataType
    decode: Callable[[bytes], Any]


def decoded_type(name: str, data_type: DataType, decoders: Sequence[ColumnDecoder]) -> DataType:
    """Return the type of a table's column ``name`` with its bytes decoded. Pure."""
    for decoder in decoders:
        if decoder.path[0] == name:
            data_type = _replaced(data_type, decoder.path[1:], decoder.type)
    return data_type


def _replaced(data_type: DataType, path: tuple[str, ...], new: DataType) -> DataType:
    if not path:
        return new
    if isinstance(data_type, Array):
        return Array(_replaced(data_type.element, path, new))
    assert isinstance(data_type, Struct)
    return Struct(
        tuple(
            Field(field.name, _replaced(field.type, path[1:], new))
            if field.name == path[0]
            else field
            for field in data_type.fields
        )
    )


def decoded_array(
    name: str, array: Any, data_type: DataType, decoders: Sequence[ColumnDecoder], place: str
) -> Any:
    """Return the values of a table's column with their bytes decoded.

    ``place`` names the files of the state, for errors. Raises StateFormatError if bytes cannot be
    decoded.
    """
    for decoder in decoders:
        if decoder.path[0] == name:
            array = _decoded(array, data_type, decoder.path[1:], decoder, place)
            data_type = _replaced(data_type, decoder.path[1:], decoder.type)
    return array


def _decoded(
    array: Any, data_type: DataType, path: tuple[str, ...], decoder: ColumnDecoder, place: str
) -> Any:
    if not path:
        return _values(array, decoder, place)
    arrow = arrow_type(_replaced(data_type, path, decoder.type))
    null = null_mask(array)
    if isinstance(data_type, Array):
        offsets, elements = list_parts(array)
        children = [_decoded(elements, data_type.element, path, decoder, place)]
        return build(arrow, null, children, offsets)
    assert isinstance(data_type, Struct)
    children = [
        _decoded(child, field.type, path[1:], decoder, place) if field.name == path[0] else child
        for field, child in zip(data_type.fields, array.flatten(), strict=True)
    ]
    return build(arrow, null, children)


def _values(array: Any, decoder: ColumnDecoder, place: str) -> Any:
    column = ".".join(decoder.path)
    try:
        values = [None if v is None else decoder.decode(v) for v in array.to_pylist()]
        return pa.array(values, arrow_type(decoder.type))
    except Exception as error:  # the function is the caller's: it may raise anything
        raise StateFormatError(place, None, f"{column}: {error}") from error
