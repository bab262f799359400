"""The fields of dataclasses and NamedTuples, and the serializers of their type hints.

The caller supplies the serializers of dataclasses and NamedTuples themselves.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, InitVar, dataclass, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, TypeVar

from flinkish.annotations import public_evolving
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
from flinkish.state.snapshots import check_findable, class_name

C = TypeVar("C", bound=type)
_ALIASES: Final = "__flinkish_aliases__"
_FIELD_ALIASES: Final = "__flinkish_field_aliases__"


@dataclass(frozen=True)
class RecordField:
    """A field of a class.

    ``aliases`` are former names. ``default`` creates the value for old state that lacks the field;
    None if the field has no default. With ``init`` the constructor takes the field.
    """

    name: str
    hint: Any
    aliases: tuple[str, ...]
    default: Callable[[], Any] | None
    init: bool = True


@public_evolving
def state_type(
    *, aliases: Iterable[str] = (), fields: Mapping[str, Iterable[str]] | None = None
) -> Callable[[C], C]:
    """Declare the names that a dataclass or NamedTuple, and its fields, have in old state.

    Parameters
    ----------
    aliases
        Former names of the class: ``"OldName"`` of the same module, or ``"old.module:Name"``.
    fields
        Former names of fields: ``{"new": ["old"]}``. A dataclass may give the same in
        ``field(metadata={"aliases": ["old"]})``.
    """
    former = {name: _names(old, f"the aliases of {name}") for name, old in (fields or {}).items()}
    names = _names(aliases, "aliases")

    def decorate(cls: C) -> C:
        setattr(cls, _ALIASES, names)
        setattr(cls, _FIELD_ALIASES, former)
        return cls

    return decorate


def class_aliases(cls: type) -> tuple[str, ...]:
    """Return the former names of a class, each with its module."""
    aliases = cls.__dict__.get(_ALIASES, ())  # not those of a base class
    return tuple(each if ":" in each else f"{cls.__module__}:{each}" for each in aliases)


def record_fields(cls: type) -> tuple[RecordField, ...]:
    """Return the fields of a dataclass or NamedTuple, in order.

    Raises UsageError if the class is neither, if it cannot be found by its name, if its type hints
    cannot be read, if the constructor does not take its fields or needs more than them, if two
    fields have the same alias, if a field's alias is its own name, or if an alias is given for a
    field that does not exist.
    """
    if not (isinstance(cls, type) and (is_dataclass(cls) or is_named_tuple(cls))):
        raise UsageError(
            f"{cls!r} is neither a dataclass nor a NamedTuple", hint="use serializer_of"
        )
    check_findable(cls, "the class")
    hints = _hints(cls)
    former = dict(cls.__dict__.get(_FIELD_ALIASES, {}))
    if is_dataclass(cls):
        _refuse_init_vars(cls)
        fields = [_of_dataclass(each, hints, former.pop(each.name, ())) for each in _fields(cls)]
    else:
        fields = [_of_tuple(cls, name, hints, former.pop(name, ())) for name in cls._fields]  # type: ignore[attr-defined]
    if former:
        raise UsageError(
            f"{class_name(cls)} has aliases for {', '.join(former)}, but no such field",
            hint="name the field as it is called now, and give its former names as aliases",
        )
    _check_aliases(cls, fields)
    try:
        inspect.signature(cls).bind(**{each.name: None for each in fields if each.init})
    except TypeError as error:
        raise UsageError(
            f"the constructor of {class_name(cls)} does not take its fields: {error}",
            hint="state calls the constructor with the fields by name: let it take them all, and "
            "need nothing else",
        ) from error
    return tuple(fields)


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise UsageError(
            f"the type hints of {class_name(cls)} cannot be read: {error}",
            hint="import the names that they use in the module of the class, outside TYPE_CHECKING",
        ) from error


def _of_dataclass(
    each: dataclasses.Field[Any], hints: Mapping[str, Any], former: tuple[str, ...]
) -> RecordField:
    default: Callable[[], Any] | None = None
    if each.default is not MISSING:
        default = _Constant(each.default)
    elif each.default_factory is not MISSING:
        default = each.default_factory
    aliases = _names(each.metadata.get("aliases", ()), f"the aliases of {each.name}")
    return RecordField(each.name, hints[each.name], (*aliases, *former), default, each.init)


def _of_tuple(cls: Any, name: str, hints: Mapping[str, Any], former: tuple[str, ...]) -> Any:
    if name not in hints:
        raise UsageError(
            f"the field {name} of {class_name(cls)} has no type", hint="use typing.NamedTuple"
        )
    defaults = cls._field_defaults
    default = _Constant(defaults[name]) if name in defaults else None
    return RecordField(name, hints[name], former, default)


@dataclass(frozen=True)
class _Constant:
    """A default, as a function that can be pickled."""

    value: Any

    def __call__(self) -> Any:
        return self.value


def no_value() -> None:
    """Return None, the default of an optional field."""


def is_constant(default: Callable[[], Any]) -> bool:
    """Return whether a default is the same for every object."""
    return isinstance(default, _Constant) or default in (no_value, list, dict)


def _refuse_init_vars(cls: Any) -> None:
    # dataclasses.fields leaves out pseudo-fields of the type InitVar.
    for name, each in cls.__dataclass_fields__.items():
        if isinstance(each.type, InitVar) or str(each.type).startswith(
            ("InitVar", "dataclasses.InitVar")
        ):
            raise UsageError(
                f"the constructor of {class_name(cls)} needs {name}, which is not a field",
                hint="make it a field: state keeps fields, and calls the constructor with them",
            )


def _check_aliases(cls: type, fields: Iterable[RecordField]) -> None:
    seen: set[str] = set()
    for each in fields:
        for alias in each.aliases:
            if alias in seen or alias == each.name:
                raise UsageError(
                    f"{class_name(cls)}.{each.name} has the alias {alias}, which is its own "
                    "name or already an alias",
                    hint="an alias is the former name of one field",
                )
            seen.add(alias)


def _names(value: Any, what: str) -> tuple[str, ...]:
    names = () if isinstance(value, str) else tuple(value)
    if isinstance(value, str) or not all(isinstance(each, str) and each for each in names):
        raise UsageError(f"{what} are not a list of names: {value!r}", hint='write ["old"]')
    return names


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
    list: "give the type of its elements: list[int]",
    dict: "give the types of its keys and values: dict[str, int]",
    tuple: "give the types of its elements: tuple[int, str]; for any number of values use list[T]",
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
        elements = () if arguments == ((),) else arguments  # Python 3.10: tuple[()] has one
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
    """Refuse mutable keys, which a dict cannot have; the UsageError names the type ``hint``."""
    mutable = typing.get_origin(key) in (list, dict) or getattr(key, "__hash__", True) is None
    if mutable:
        advice = "make the keys immutable: a frozen dataclass, a NamedTuple, a tuple, or a str"
        raise unsupported(hint, advice)
