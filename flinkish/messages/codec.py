"""The one JSON codec of the dataclasses that cross process boundaries. Pure.

A document is a JSON object: the fields of a dataclass by name, and ``version``. The reader is
strict: an unknown key, a value of another type or a missing required key is an error. Adding a
field to a dataclass therefore means raising the ``VERSION`` of every document that contains it, so
that an older flinkish can report why it cannot read the document. If the new field has a default
value, documents of earlier versions stay readable.

Fields may be ``str``, ``int``, ``float``, ``bool``, ``None``, ``Any`` (plain JSON), ``Literal``,
enums, dataclasses, ``tuple[X, ...]``, ``tuple[X, Y]``, ``Mapping[str, X]`` and unions of them.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from flinkish.errors import Corrupt, UnsupportedFormat

_T = TypeVar("_T")

#: The key of a document's version.
VERSION_KEY = "version"
#: ``metadata`` of a field that is left out of the document when it has its default value.
OMIT_DEFAULT: Mapping[str, bool] = {"omit_default": True}


def named(key: str) -> Mapping[str, str]:
    """Return the ``metadata`` of a field whose key is not a Python name, such as ``from``."""
    return {"key": key}


def key_of(each: Field[Any]) -> str:
    """Return the key of a dataclass's field in a document."""
    key: str = each.metadata.get("key", each.name)
    return key


#: The JSON names of Python types, for messages.
_NAMES = {str: "text", int: "an integer", float: "a number", bool: "true or false"}


def encode(document: Any) -> dict[str, Any]:
    """Encode a dataclass as JSON data with its version."""
    return {VERSION_KEY: version_of(type(document)), **encode_fields(document)}


def encode_fields(document: Any) -> dict[str, Any]:
    """Encode a dataclass as JSON data without a version, for a part of a document or for output."""
    return {
        key_of(each): _encoded(getattr(document, each.name))
        for each in fields(document)
        if not (each.metadata.get("omit_default") and _has_default(document, each))
    }


def version_of(cls: type) -> int:
    """Return the version in which documents of ``cls`` are written, and the newest that is read."""
    version: int = getattr(cls, "VERSION", 1)
    return version


def decode(cls: type[_T], document: object) -> _T:
    """Decode the JSON data of :func:`encode`, even from an older flinkish.

    Raises UnsupportedFormat if a newer flinkish wrote the document, and Corrupt if the document
    does not fit the class; the message then names the field.
    """
    place = cls.__name__
    values = dict(_object(document, place))
    version = values.pop(VERSION_KEY, None)
    if not _is_int(version) or version < 1:
        raise _invalid(f"{place}.{VERSION_KEY}", "an integer of at least 1", version)
    newest = version_of(cls)
    if version > newest:
        raise UnsupportedFormat(
            f"{place} is a document of version {version}, made by a newer flinkish; this one "
            f"reads versions up to {newest}",
            hint="upgrade flinkish here: pip install --upgrade flinkish",
            document=cls.__name__,
            version=version,
        )
    message: _T = _dataclass(cls, values, place)
    return message


def decode_fields(cls: type[_T], document: object) -> _T:
    """Decode the JSON data of :func:`encode_fields`; raises Corrupt as :func:`decode` does."""
    message: _T = _dataclass(cls, _object(document, cls.__name__), cls.__name__)
    return message


def _has_default(document: Any, each: Field[Any]) -> bool:
    default = each.default if each.default_factory is MISSING else each.default_factory()
    return bool(getattr(document, each.name) == default)


def _encoded(value: Any) -> Any:
    if is_dataclass(value):
        return encode_fields(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _encoded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encoded(inner) for inner in value]
    return value


@functools.cache
def _hints(cls: type) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _dataclass(cls: Any, values: Mapping[str, Any], place: str) -> Any:
    hints = _hints(cls)
    by_key = {key_of(each): each for each in fields(cls)}
    unknown = sorted(values.keys() - by_key.keys())
    if unknown:
        raise Corrupt(f"{place} has an unknown key {unknown[0]!r}", hint="")
    arguments = {}
    for key, each in by_key.items():
        if key in values:
            arguments[each.name] = _decoded(hints[each.name], values[key], f"{place}.{key}")
        elif each.default is MISSING and each.default_factory is MISSING:
            raise Corrupt(f"{place} lacks the key {key!r}", hint="")
    return cls(**arguments)


def _decoded(kind: Any, value: Any, place: str) -> Any:
    """Return ``value`` as the type ``kind`` of a field; Corrupt if it is not of that type."""
    if kind is Any:
        return value
    if isinstance(kind, type):
        return _plain(kind, value, place)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, place)
    if origin is Literal:
        if value not in arguments or isinstance(value, bool):
            raise _invalid(place, " or ".join(map(repr, arguments)), value)
        return value
    if origin is tuple:
        return _tuple(arguments, value, place)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = arguments[1]
        mapping = _object(value, place)
        return {key: _decoded(inner, each, f"{place}.{key}") for key, each in mapping.items()}
    raise TypeError(f"{place}: the codec does not know the type {kind}")


def _plain(kind: type, value: Any, place: str) -> Any:
    if is_dataclass(kind):
        return _dataclass(kind, _object(value, place), place)
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            names = " or ".join(repr(each.value) for each in kind)
            raise _invalid(place, names, value) from None
    if kind is type(None):
        fits = value is None
    elif kind in (int, float):  # an integer fits a float: 60 stands for 60.0
        fits = _is_int(value) or (kind is float and isinstance(value, float))
    elif kind in _NAMES:
        fits = isinstance(value, kind)
    else:
        raise TypeError(f"{place}: the codec does not know the type {kind}")
    if not fits:
        raise _invalid(place, _NAMES.get(kind, "null"), value)
    return value


def _one_of(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    rest = [kind for kind in kinds if kind is not type(None)]
    for kind in rest[:-1]:
        try:
            return _decoded(kind, value, place)
        except Corrupt:
            continue
    return _decoded(rest[-1], value, place)


def _tuple(kinds: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _invalid(place, "a list", value)
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    elif len(value) != len(kinds):
        raise _invalid(place, f"a list of {len(kinds)}", value)
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_decoded(kind, each, f"{place}[{i}]") for i, (kind, each) in pairs)


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _invalid(place, "an object", value)
    return value


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _invalid(place: str, expected: str, value: object) -> Corrupt:
    text = repr(value)
    excerpt = text if len(text) <= 60 else f"{text[:57]}..."
    return Corrupt(f"{place} is {excerpt}, where {expected} is expected", hint="")
