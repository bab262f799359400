"""From type hints to serializers; the classes with fields are left to the caller."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Hashable
from dataclasses import is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final

from flinkish.errors import UsageError
from flinkish.state.builtin.containers import (
    ListSerializer,
    MapSerializer,
    OptionalSerializer,
    TupleSerializer,
)
from flinkish.state.builtin.numpy_scalars import NumpyScalarSerializer
from flinkish.state.builtin.primitives import (
    BoolSerializer,
    BytesSerializer,
    DateSerializer,
    DateTimeSerializer,
    DecimalSerializer,
    DoubleSerializer,
    LongSerializer,
    StringSerializer,
)
from flinkish.state.serializers import TypeSerializer

_PRIMITIVES: Final[dict[Any, Callable[[], TypeSerializer[Any]]]] = {
    bool: BoolSerializer,
    int: LongSerializer,
    float: DoubleSerializer,
    str: StringSerializer,
    bytes: BytesSerializer,
    date: DateSerializer,
    datetime: DateTimeSerializer,
    Decimal: DecimalSerializer,
}
_ADVICE: Final[dict[Any, str]] = {
    list: "say of what it is a list: list[int]",
    dict: "say what its keys and values are: dict[str, int]",
    tuple: "say what it consists of: tuple[int, str]; for any number of values use list[T]",
    set: "use dict[T, bool], or list[T]",
    frozenset: "use dict[T, bool], or list[T]",
    type(None): "use Optional[T]",
}
_ELSE: Final = (
    "use a dataclass, a NamedTuple, bool, int, float, str, bytes, date, datetime, Decimal, a NumPy "
    "scalar, or list[T], dict[K, V], tuple[A, B], Optional[T] of those; for other types give a "
    "TypeSerializer: AvroSerializer, your own, or as a last resort UnsafePickleSerializer"
)


def is_named_tuple(cls: object) -> bool:
    """Return whether a class is a NamedTuple."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def build(hint: Any, of_record: Callable[[type], TypeSerializer[Any]]) -> TypeSerializer[Any]:
    """Return the serializer of a type hint.

    ``hint`` may be a serializer, which is returned; in a type hint it is written ``Annotated[T,
    serializer]``. ``of_record`` returns the serializer of a dataclass or NamedTuple. Raises
    UsageError, with a hint, if the type is not supported.
    """
    if isinstance(hint, TypeSerializer):
        return hint
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        serializers = [each for each in arguments[1:] if isinstance(each, TypeSerializer)]
        return serializers[0] if serializers else build(arguments[0], of_record)
    if origin in (typing.Union, types.UnionType):
        return _union(hint, arguments, of_record)
    if origin is None:
        return _single(hint, of_record)
    if origin is list:
        return ListSerializer(build(arguments[0], of_record))
    if origin is dict:
        check_key(hint, arguments[0])
        return MapSerializer(*(build(each, of_record) for each in arguments))
    if origin is tuple and Ellipsis not in arguments:
        elements = () if arguments == ((),) else arguments  # Python 3.10 gives tuple[()] one
        return TupleSerializer(tuple(build(each, of_record) for each in elements))
    raise unsupported(hint, _ADVICE.get(origin, _ELSE))


def unsupported(hint: Any, advice: str = _ELSE) -> UsageError:
    """Return the error for a type that has no serializer."""
    type_name = hint.__name__ if type(hint) is type else str(hint).replace("typing.", "")
    return UsageError(f"state cannot be of the type {type_name}", hint=advice)


def _single(hint: Any, of_record: Callable[[type], TypeSerializer[Any]]) -> TypeSerializer[Any]:
    if hint is None:
        raise unsupported(hint, _ADVICE[type(None)])
    if isinstance(hint, Hashable) and hint in _PRIMITIVES:
        return _PRIMITIVES[hint]()
    if isinstance(hint, type):
        if is_dataclass(hint) or is_named_tuple(hint):
            return of_record(hint)
        if hint.__module__ == "numpy" and hint.__name__ != "ndarray":
            return NumpyScalarSerializer(hint)
    raise unsupported(hint, _ADVICE.get(hint, _ELSE) if isinstance(hint, Hashable) else _ELSE)


def _union(
    hint: Any, arguments: tuple[Any, ...], of_record: Callable[[type], TypeSerializer[Any]]
) -> TypeSerializer[Any]:
    others = [each for each in arguments if each is not type(None)]
    if len(others) != 1 or len(arguments) != 2:
        advice = "use Optional[T], a class with a field for each case, or AvroSerializer"
        raise unsupported(hint, advice)
    return OptionalSerializer(build(others[0], of_record))


def check_key(hint: Any, key: Any) -> None:
    """Refuse mutable keys, which a dict cannot have; UsageError names the type ``hint``."""
    mutable = typing.get_origin(key) in (list, dict) or getattr(key, "__hash__", True) is None
    if mutable:
        advice = "make the keys immutable: a frozen dataclass, a NamedTuple, a tuple, or a str"
        raise unsupported(hint, advice)
