"""From old-style serializers to snapshots: Flink 1.7's way from ``TypeSerializerConfigSnapshot``.

The configuration snapshot of an old-style serializer cannot recreate the serializer, which itself
judges old configurations (``ensure_compatibility``). So a restore needs both classes. Savepoints
contain their names, where Flink's contain the serializer in Java's serialization. To migrate:

1. Write a :class:`~flinkish.state.TypeSerializerSnapshot` for the serializer.
2. Use the serializer as ``LegacySerializer(old, snapshot=...)``, or let it be a
   :class:`~flinkish.state.TypeSerializer` that keeps its ``ensure_compatibility``.
3. Restore from the old savepoint with ``state.migration=eager`` (the default), and take another
   savepoint, which contains only the new snapshot.
4. Delete the configuration snapshot and ``ensure_compatibility``.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from flinkish.annotations import public_evolving
from flinkish.errors import Incompatible, UsageError
from flinkish.state.serializers import (
    Reason,
    SnapshotLoader,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from flinkish.state.snapshots import MAX_NAME, check_findable, class_name
from flinkish.state.wire import Parts, put_part, put_size, put_text


@public_evolving
class CompatibilityResult(enum.Enum):
    """An old-style serializer's verdict on an old configuration."""

    COMPATIBLE = "compatible"
    REQUIRES_MIGRATION = "requires migration"


@public_evolving
class TypeSerializerConfigSnapshot(ABC):
    """The configuration of an old-style serializer; a restore creates and fills an empty one."""

    #: The version of what :meth:`write` writes.
    version: ClassVar[int] = 1

    @abstractmethod
    def write(self) -> bytes:
        """Return the configuration."""

    @abstractmethod
    def read(self, version: int, data: bytes) -> None:
        """Take over a written configuration of this version or an earlier one."""


class OldStyleSerializer(Protocol):
    """A serializer from before snapshots; its constructor needs no arguments."""

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a value."""

    def deserialize(self, data: bytes) -> Any:
        """Return the value that bytes represent."""

    def snapshot_configuration(self) -> TypeSerializerConfigSnapshot:
        """Return the configuration."""

    def ensure_compatibility(self, config_snapshot: Any) -> CompatibilityResult:
        """Judge an old configuration."""


@public_evolving
class LegacySerializer(TypeSerializer[Any]):
    """An old-style serializer as a :class:`~flinkish.state.TypeSerializer`.

    Parameters
    ----------
    old
        The serializer. Until savepoints have only the new snapshot, a restore finds its class and
        the class of its configuration by their names.
    snapshot
        Makes the new snapshot, which savepoints contain from now on. Without ``snapshot``, restores
        from new savepoints still need the old classes.

    Raises
    ------
    UsageError
        There is no ``snapshot``, and one of the two old classes cannot be found by its name or
        called without arguments.
    """

    def __init__(
        self,
        old: OldStyleSerializer,
        snapshot: Callable[[], TypeSerializerSnapshot[Any]] | None = None,
    ) -> None:
        self.old = old
        self._snapshot = snapshot
        if snapshot is None:
            _check_class(type(old), "the old-style serializer")
            _check_class(type(old.snapshot_configuration()), "the configuration snapshot")

    @property
    def type_name(self) -> str:
        return type(self.old).__name__

    def serialize(self, value: Any) -> bytes:
        return self.old.serialize(value)

    def deserialize(self, data: bytes) -> Any:
        return self.old.deserialize(data)

    def ensure_compatibility(self, config_snapshot: Any) -> CompatibilityResult:
        """Let the old-style serializer judge an old configuration."""
        return self.old.ensure_compatibility(config_snapshot)

    def snapshot_configuration(self) -> TypeSerializerSnapshot[Any]:
        return LegacySerializerSnapshot(self.old) if self._snapshot is None else self._snapshot()


class LegacySerializerSnapshot(TypeSerializerSnapshot[Any]):
    """The snapshot of an old-style serializer: the names of two classes, and the configuration.

    Without a serializer it is empty until :meth:`read_snapshot` fills it.
    """

    def __init__(self, old: OldStyleSerializer | None = None) -> None:
        self._old = old
        self._config = None if old is None else old.snapshot_configuration()

    @property
    def type_name(self) -> str:
        return type(self._old).__name__

    def write_snapshot(self) -> bytes:
        if self._config is None:
            raise UsageError("the snapshot of an old-style serializer was never read")
        out = bytearray()
        put_text(out, class_name(type(self._old)))
        put_text(out, class_name(type(self._config)))
        put_size(out, self._config.version)
        put_part(out, self._config.write())
        return bytes(out)

    def read_snapshot(self, version: int, data: bytes, loader: SnapshotLoader) -> None:
        parts = Parts(data, "it")
        serializer, config = parts.text(MAX_NAME * 4), parts.text(MAX_NAME * 4)
        written, content = parts.size(), parts.part()
        parts.end()
        snapshot = loader.load(config, TypeSerializerConfigSnapshot)()
        if not 1 <= written <= snapshot.version:
            raise ValueError(
                f"version {written} of {config} was written, but the present class reads only "
                f"1 to {snapshot.version}"
            )
        snapshot.read(written, content)
        cls = loader.load(serializer)
        if not all(callable(getattr(cls, name, None)) for name in ("serialize", "deserialize")):
            raise ValueError(f"{serializer} is not a serializer")  # do not call it
        self._old, self._config = cls(), snapshot

    def resolve_schema_compatibility(
        self, new_serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        """Let the new serializer judge the old configuration, in the old style."""
        ensure = getattr(new_serializer, "ensure_compatibility", None)
        if ensure is None:
            return _incompatible(
                new_serializer,
                "it has no ensure_compatibility, which must judge this old-style snapshot; keep "
                "that method until a savepoint has only the new snapshot, as after a restore with "
                "state.migration=eager",
            )
        result = ensure(self._config)
        if result is CompatibilityResult.COMPATIBLE:
            return TypeSerializerSchemaCompatibility.compatible_as_is()
        if result is CompatibilityResult.REQUIRES_MIGRATION:
            return TypeSerializerSchemaCompatibility.compatible_after_migration()
        return _incompatible(
            new_serializer, f"ensure_compatibility returned {result!r}, not a CompatibilityResult"
        )

    def restore_serializer(self) -> TypeSerializer[Any]:
        """Return the serializer that wrote the bytes."""
        if self._old is None:
            raise Incompatible("the snapshot of an old-style serializer was never read")
        if isinstance(self._old, TypeSerializer):  # the class is no longer of the old style
            return self._old
        return LegacySerializer(self._old)


def _incompatible(new: TypeSerializer[Any], text: str) -> TypeSerializerSchemaCompatibility:
    return TypeSerializerSchemaCompatibility.incompatible([Reason(new.type_name, (), text)])


def _check_class(cls: type, what: str) -> None:
    check_findable(cls, what)
    try:
        cls()
    except Exception as error:
        raise UsageError(
            f"{what} {class_name(cls)} cannot be called without arguments: {error}",
            hint="make its constructor callable without arguments, as a restore calls it",
        ) from error
