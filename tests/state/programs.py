"""Classes that a program has at the top level of its modules: state, serializers, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish.state import (
    CompatibilityResult,
    TypeSerializer,
    TypeSerializerConfigSnapshot,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from flinkish.state.composite import changed_type


@dataclass
class Celsius:
    """Some state of a class that only its own serializer knows."""

    degrees: int


class CelsiusSerializer(TypeSerializer[Celsius]):
    def serialize(self, value: Celsius) -> bytes:
        return bytes([value.degrees])

    def deserialize(self, data: bytes) -> Celsius:
        return Celsius(data[0])

    def snapshot_configuration(self) -> TypeSerializerSnapshot[Celsius]:
        return CelsiusSerializerSnapshot()


class CelsiusSerializerSnapshot(TypeSerializerSnapshot[Celsius]):
    current_version = 2

    def __init__(self, note: str = "") -> None:
        self.note = note
        self.version = 0

    def write_snapshot(self) -> bytes:
        return self.note.encode()

    def read_snapshot(self, version: int, data: bytes, loader: Any) -> None:
        self.version, self.note = version, data.decode()
        if self.note == "broken":
            raise KeyError("broken")

    def resolve_schema_compatibility(
        self, new_serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        if isinstance(new_serializer, CelsiusSerializer):
            return TypeSerializerSchemaCompatibility.compatible_as_is()
        return changed_type(self, new_serializer)

    def restore_serializer(self) -> TypeSerializer[Celsius]:
        return CelsiusSerializer()


class NeedsArguments(CelsiusSerializerSnapshot):
    def __init__(self, note: str) -> None:
        super().__init__(note)


class Unfinished(TypeSerializerSnapshot[Celsius]):
    def write_snapshot(self) -> bytes:
        return b""


class WithoutVersion(CelsiusSerializerSnapshot):
    current_version = 0


class _Private(CelsiusSerializerSnapshot):
    pass


class Outer:
    class Nested(CelsiusSerializerSnapshot):
        pass


PRIVATE = _Private


class ScaleConfig(TypeSerializerConfigSnapshot):
    """The old-style configuration of a serializer of numbers: how many digits it keeps."""

    version = 2

    def __init__(self, digits: int = 0) -> None:
        self.digits = digits

    def write(self) -> bytes:
        return bytes([self.digits])

    def read(self, version: int, data: bytes) -> None:
        self.digits = data[0]


class OldScaleSerializer:
    """An old-style serializer."""

    digits = 2

    def serialize(self, value: float) -> bytes:
        return str(round(value * 10**self.digits)).encode()

    def deserialize(self, data: bytes) -> float:
        return float(int(data) / 10**self.digits)

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot:
        return ScaleConfig(self.digits)

    def ensure_compatibility(self, config_snapshot: Any) -> CompatibilityResult:
        same = config_snapshot.digits == self.digits
        return CompatibilityResult.COMPATIBLE if same else CompatibilityResult.REQUIRES_MIGRATION


class FinerScaleSerializer(OldScaleSerializer):
    digits = 3


class ScaleSerializer(TypeSerializer[float]):
    """The serializer of today, with the digits of tomorrow if need be."""

    def __init__(self, digits: int = 2) -> None:
        self.digits = digits

    def serialize(self, value: float) -> bytes:
        return str(round(value * 10**self.digits)).encode()

    def deserialize(self, data: bytes) -> float:
        return float(int(data) / 10**self.digits)

    def snapshot_configuration(self) -> TypeSerializerSnapshot[float]:
        return ScaleSerializerSnapshot(self.digits)


class KeepsTheOldMethod(ScaleSerializer):
    """Step 2 of the migration: already a TypeSerializer, and still judges old configurations."""

    def ensure_compatibility(self, config_snapshot: Any) -> CompatibilityResult:
        same = config_snapshot.digits == self.digits
        return CompatibilityResult.COMPATIBLE if same else CompatibilityResult.REQUIRES_MIGRATION


class ScaleSerializerSnapshot(TypeSerializerSnapshot[float]):
    """The new-style snapshot; a serializer of other digits is reconfigured to those written."""

    def __init__(self, digits: int = 2) -> None:
        self.digits = digits

    def write_snapshot(self) -> bytes:
        return bytes([self.digits])

    def read_snapshot(self, version: int, data: bytes, loader: Any) -> None:
        (self.digits,) = data

    def resolve_schema_compatibility(
        self, new_serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        if not isinstance(new_serializer, ScaleSerializer):
            return changed_type(self, new_serializer)
        if new_serializer.digits == self.digits:
            return TypeSerializerSchemaCompatibility.compatible_as_is()
        return TypeSerializerSchemaCompatibility.compatible_with_reconfigured_serializer(
            self.restore_serializer()
        )

    def restore_serializer(self) -> TypeSerializer[float]:
        return ScaleSerializer(self.digits)
