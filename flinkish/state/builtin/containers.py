"""Serializers of lists, maps, tuples and optional values.

The size of every part precedes it, so the form of one part may change without the others (an
optional value is a single part, and has no size). The keys of a map may not change their form,
because if two keys became equal, a value would be lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish.annotations import public_evolving
from flinkish.state.builtin.primitives import not_a
from flinkish.state.composite import CompositeTypeSerializerSnapshot
from flinkish.state.serializers import (
    Reason,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
    Verdict,
)
from flinkish.state.wire import Parts, put_part, put_size


@public_evolving
@dataclass(frozen=True)
class ListSerializer(TypeSerializer[list[Any]]):
    """A list of values of one type."""

    element: TypeSerializer[Any]

    @property
    def type_name(self) -> str:
        return f"list[{self.element.type_name}]"

    def serialize(self, value: list[Any]) -> bytes:
        if not isinstance(value, list):
            raise not_a(self.type_name, value)
        out = bytearray()
        put_size(out, len(value))
        serialize = self.element.serialize
        for each in value:
            put_part(out, serialize(each))
        return bytes(out)

    def deserialize(self, data: bytes) -> list[Any]:
        parts = Parts(data, "a list")
        deserialize = self.element.deserialize
        value = [deserialize(parts.part()) for _ in range(parts.count())]
        parts.end()
        return value

    def snapshot_configuration(self) -> TypeSerializerSnapshot[list[Any]]:
        return ListSerializerSnapshot(self)


class ListSerializerSnapshot(CompositeTypeSerializerSnapshot[list[Any]]):
    """Snapshot of :class:`ListSerializer`."""

    serializer_class = ListSerializer
    nested_count = 1

    @property
    def type_name(self) -> str:
        return f"list[{', '.join(each.type_name for each in self.nested_snapshots)}]"

    def nested_names(self) -> tuple[str, ...]:
        return ("element",)

    def nested_serializers(self, serializer: ListSerializer) -> tuple[TypeSerializer[Any], ...]:
        return (serializer.element,)

    def create_outer_serializer(self, nested: tuple[TypeSerializer[Any], ...]) -> ListSerializer:
        (element,) = nested
        return ListSerializer(element)


@public_evolving
@dataclass(frozen=True)
class MapSerializer(TypeSerializer[dict[Any, Any]]):
    """A dict with keys of one type and values of one type; its order is kept."""

    key: TypeSerializer[Any]
    value: TypeSerializer[Any]

    @property
    def type_name(self) -> str:
        return f"dict[{self.key.type_name}, {self.value.type_name}]"

    def serialize(self, value: dict[Any, Any]) -> bytes:
        if not isinstance(value, dict):
            raise not_a(self.type_name, value)
        out = bytearray()
        put_size(out, len(value))
        for key, each in value.items():
            put_part(out, self.key.serialize(key))
            put_part(out, self.value.serialize(each))
        return bytes(out)

    def deserialize(self, data: bytes) -> dict[Any, Any]:
        parts = Parts(data, "a map")
        count = parts.count()
        value = {}
        for _ in range(count):
            key = self.key.deserialize(parts.part())
            value[key] = self.value.deserialize(parts.part())
        if len(value) != count:
            raise parts.damaged("it has a key twice")
        parts.end()
        return value

    def snapshot_configuration(self) -> TypeSerializerSnapshot[dict[Any, Any]]:
        return MapSerializerSnapshot(self)


class MapSerializerSnapshot(CompositeTypeSerializerSnapshot[dict[Any, Any]]):
    """Snapshot of :class:`MapSerializer`."""

    serializer_class = MapSerializer
    nested_count = 2

    @property
    def type_name(self) -> str:
        return f"dict[{', '.join(each.type_name for each in self.nested_snapshots)}]"

    def nested_names(self) -> tuple[str, ...]:
        return ("key", "value")

    def nested_serializers(self, serializer: MapSerializer) -> tuple[TypeSerializer[Any], ...]:
        return (serializer.key, serializer.value)

    def create_outer_serializer(self, nested: tuple[TypeSerializer[Any], ...]) -> MapSerializer:
        key, value = nested
        return MapSerializer(key, value)

    def resolve_outer_schema_compatibility(
        self, new_serializer: MapSerializer
    ) -> TypeSerializerSchemaCompatibility:
        """Refuse keys that would have to be migrated."""
        compatibility = self.nested_snapshots[0].resolve_schema_compatibility(new_serializer.key)
        if compatibility.verdict is not Verdict.AFTER_MIGRATION:
            return TypeSerializerSchemaCompatibility.compatible_as_is()
        return keys_change(new_serializer.type_name, new_serializer.key)


def keys_change(root: str, new_key: TypeSerializer[Any]) -> TypeSerializerSchemaCompatibility:
    """Return the verdict on keys whose bytes would change."""
    text = (
        f"keys of {new_key.type_name} would have to be migrated, and two of them might become "
        "equal; keep the type of keys as it is"
    )
    return TypeSerializerSchemaCompatibility.incompatible([Reason(root, ("key",), text)])


@public_evolving
@dataclass(frozen=True)
class TupleSerializer(TypeSerializer[tuple[Any, ...]]):
    """A tuple of a fixed length, with a type for each place."""

    elements: tuple[TypeSerializer[Any], ...]

    @property
    def type_name(self) -> str:
        return f"tuple[{', '.join(each.type_name for each in self.elements) or '()'}]"

    def serialize(self, value: tuple[Any, ...]) -> bytes:
        if not isinstance(value, tuple) or len(value) != len(self.elements):
            raise not_a(self.type_name, value)
        out = bytearray()
        for element, each in zip(self.elements, value, strict=True):
            put_part(out, element.serialize(each))
        return bytes(out)

    def deserialize(self, data: bytes) -> tuple[Any, ...]:
        parts = Parts(data, "a tuple")
        value = tuple(element.deserialize(parts.part()) for element in self.elements)
        parts.end()
        return value

    def snapshot_configuration(self) -> TypeSerializerSnapshot[tuple[Any, ...]]:
        return TupleSerializerSnapshot(self)


class TupleSerializerSnapshot(CompositeTypeSerializerSnapshot[tuple[Any, ...]]):
    """Snapshot of :class:`TupleSerializer`."""

    serializer_class = TupleSerializer

    @property
    def type_name(self) -> str:
        return f"tuple[{', '.join(each.type_name for each in self.nested_snapshots) or '()'}]"

    def nested_serializers(self, serializer: TupleSerializer) -> tuple[TypeSerializer[Any], ...]:
        return serializer.elements

    def create_outer_serializer(self, nested: tuple[TypeSerializer[Any], ...]) -> TupleSerializer:
        return TupleSerializer(nested)


@public_evolving
@dataclass(frozen=True)
class OptionalSerializer(TypeSerializer[Any]):
    """A value or None: one byte, then the value's bytes."""

    inner: TypeSerializer[Any]

    @property
    def type_name(self) -> str:
        return f"Optional[{self.inner.type_name}]"

    def serialize(self, value: Any) -> bytes:
        return b"\0" if value is None else b"\1" + self.inner.serialize(value)

    def deserialize(self, data: bytes) -> Any:
        if data[:1] == b"\1":
            return self.inner.deserialize(data[1:])
        if data != b"\0":
            raise Parts(data, "an optional value").damaged("it begins with neither 0 nor 1")
        return None

    def snapshot_configuration(self) -> TypeSerializerSnapshot[Any]:
        return OptionalSerializerSnapshot(self)


class OptionalSerializerSnapshot(CompositeTypeSerializerSnapshot[Any]):
    """Snapshot of :class:`OptionalSerializer`."""

    serializer_class = OptionalSerializer
    nested_count = 1

    @property
    def type_name(self) -> str:
        return f"Optional[{', '.join(each.type_name for each in self.nested_snapshots)}]"

    def nested_names(self) -> tuple[str, ...]:
        return ("value",)

    def nested_serializers(self, serializer: OptionalSerializer) -> tuple[TypeSerializer[Any], ...]:
        return (serializer.inner,)

    def create_outer_serializer(
        self, nested: tuple[TypeSerializer[Any], ...]
    ) -> OptionalSerializer:
        (inner,) = nested
        return OptionalSerializer(inner)
