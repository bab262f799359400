"""Declare state by a name and a type, which are checked at the declaration."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from flinkish.annotations import public_evolving
from flinkish.errors import UsageError
from flinkish.state.builtin.containers import ListSerializer, MapSerializer
from flinkish.state.builtin.record_types import check_key
from flinkish.state.builtin.records import serializer_of
from flinkish.state.serializers import TypeSerializer, TypeSerializerSnapshot
from flinkish.state.snapshots import check_snapshot_class

MAX_NAME: Final = 128
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def check_serializer(serializer: TypeSerializer[Any]) -> None:
    """Check that a serializer's snapshots, including nested ones, can be found at a restore.

    Raises UsageError if one of them is not a :class:`TypeSerializerSnapshot`, or if its class is
    refused by :func:`~flinkish.state.check_snapshot_class`.
    """
    left: list[Any] = [serializer.snapshot_configuration()]
    while left:
        snapshot = left.pop()
        if not isinstance(snapshot, TypeSerializerSnapshot):
            raise UsageError(
                f"the snapshot of {serializer.type_name} is a {type(snapshot).__name__}, not a "
                "TypeSerializerSnapshot",
                hint="an old-style serializer is used through LegacySerializer",
            )
        check_snapshot_class(type(snapshot))
        left.extend(getattr(snapshot, "nested_snapshots", ()))


def _checked(kind: str, name: str, *types: Any) -> list[TypeSerializer[Any]]:
    if not isinstance(name, str) or len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name for a {kind}",
            hint=f"a letter, then letters, digits, '_', '-' or '.', {MAX_NAME} at most",
        )
    try:
        serializers = [serializer_of(each) for each in types]
        for each in serializers:
            check_serializer(each)
    except UsageError as error:
        raise UsageError(f"{kind} {name}: {error.message}", hint=error.hint) from error
    return serializers


@public_evolving
@dataclass(frozen=True)
class ValueStateDescriptor:
    """A state of one value for each key.

    Parameters
    ----------
    name
        The state's name, by which its values are found again.
    type_or_serializer
        A type that :func:`~flinkish.state.serializer_of` knows, or a serializer.

    Raises
    ------
    UsageError
        The name is invalid, or the type or serializer cannot be used for state.
    """

    name: str
    type_or_serializer: Any
    #: The serializer of the value.
    serializer: TypeSerializer[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the name and the type, and create the serializer."""
        (serializer,) = _checked("value state", self.name, self.type_or_serializer)
        object.__setattr__(self, "serializer", serializer)


@public_evolving
@dataclass(frozen=True)
class ListStateDescriptor:
    """A state of a list for each key.

    Parameters
    ----------
    name
        The state's name.
    element
        The type of the elements, or their serializer.

    Raises
    ------
    UsageError
        The name is invalid, or the type or serializer cannot be used for state.
    """

    name: str
    element: Any
    #: The serializer of the whole list; its ``element`` is the serializer of one element.
    serializer: ListSerializer = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the name and the type, and create the serializer."""
        (serializer,) = _checked("list state", self.name, self.element)
        object.__setattr__(self, "serializer", ListSerializer(serializer))


@public_evolving
@dataclass(frozen=True)
class MapStateDescriptor:
    """A state of a map for each key.

    Parameters
    ----------
    name
        The state's name.
    key
        The type of the map's keys, or their serializer.
    value
        The type of its values, or their serializer.

    Raises
    ------
    UsageError
        The name is invalid, or a type or serializer cannot be used for state.
    """

    name: str
    key: Any
    value: Any
    #: The serializer of the whole map; its ``key`` and ``value`` serialize the keys and values.
    serializer: MapSerializer = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the name and the type, and create the serializer."""
        if not isinstance(self.key, TypeSerializer):
            check_key(self.key, self.key)
        key, value = _checked("map state", self.name, self.key, self.value)
        object.__setattr__(self, "serializer", MapSerializer(key, value))
