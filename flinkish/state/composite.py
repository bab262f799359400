"""Snapshots of serializers that contain others: outer and nested verdicts become one.

As in Flink, the worst verdict of a part is the verdict on the whole: incompatible, else after
migration, else with a reconfigured serializer. The whole is compatible as is only if all parts are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from flinkish.annotations import public_evolving
from flinkish.state.serializers import (
    Reason,
    SnapshotLoader,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
    Verdict,
)
from flinkish.state.snapshots import write_snapshot
from flinkish.state.wire import Parts, put_part, put_size

T = TypeVar("T")


def combine(
    root: str,
    outer: TypeSerializerSchemaCompatibility,
    nested: Sequence[tuple[str, TypeSerializerSchemaCompatibility]],
    rebuild: Callable[[tuple[TypeSerializer[Any] | None, ...]], TypeSerializer[Any]],
) -> TypeSerializerSchemaCompatibility:
    """Return the verdict on a composite from those on its outer and nested serializers.

    ``root`` names the whole type, in reasons. ``outer`` is the verdict on the outer serializer
    alone, ``nested`` the name and verdict of each part. If the combined verdict is "reconfigured",
    ``rebuild`` makes the outer serializer from the reconfigured nested serializers (None for those
    that stay).
    """
    verdicts = [outer.verdict, *(compatibility.verdict for _, compatibility in nested)]
    if Verdict.INCOMPATIBLE in verdicts:
        below = [
            r.below(root, name) for name, compatibility in nested for r in compatibility.problems
        ]
        return TypeSerializerSchemaCompatibility.incompatible([*outer.problems, *below])
    if Verdict.AFTER_MIGRATION in verdicts:
        return TypeSerializerSchemaCompatibility.compatible_after_migration()
    if Verdict.RECONFIGURED in verdicts:
        return TypeSerializerSchemaCompatibility.compatible_with_reconfigured_serializer(
            rebuild(tuple(compatibility.serializer for _, compatibility in nested))
        )
    return TypeSerializerSchemaCompatibility.compatible_as_is()


@public_evolving
class CompositeTypeSerializerSnapshot(TypeSerializerSnapshot[T]):
    """The snapshot of a serializer that is composed of nested serializers.

    A subclass returns the nested serializers of a serializer, and builds a serializer from nested
    ones. If the serializer has its own configuration, the ``outer`` methods write, read and judge
    that configuration.

    Parameters
    ----------
    serializer
        The serializer to take the snapshot of. Without a serializer the snapshot is empty, to be
        filled by :meth:`read_snapshot`.
    """

    #: The serializer's class.
    serializer_class: ClassVar[type[TypeSerializer[Any]]]
    #: Number of nested serializers; None if it varies.
    nested_count: ClassVar[int | None] = None

    def __init__(self, serializer: TypeSerializer[Any] | None = None) -> None:
        nested = () if serializer is None else self.nested_serializers(serializer)
        self._nested = tuple(each.snapshot_configuration() for each in nested)

    @property
    def nested_snapshots(self) -> tuple[TypeSerializerSnapshot[Any], ...]:
        """The snapshots of the nested serializers."""
        return self._nested

    @abstractmethod
    def nested_serializers(self, serializer: Any) -> tuple[TypeSerializer[Any], ...]:
        """Return the nested serializers of a serializer of this kind."""

    @abstractmethod
    def create_outer_serializer(
        self, nested: tuple[TypeSerializer[Any], ...]
    ) -> TypeSerializer[Any]:
        """Return a serializer with this snapshot's configuration and the given nested ones."""

    def nested_names(self) -> tuple[str, ...]:
        """Return the names of the nested parts, for the paths of reasons."""
        return tuple(map(str, range(len(self._nested))))

    def write_outer(self) -> bytes:
        """Return the serializer's own configuration."""
        return b""

    def read_outer(self, version: int, data: bytes) -> None:
        """Take over what :meth:`write_outer` returned; see ``read_snapshot``."""
        if data:
            raise ValueError("it has a configuration, but should have none")

    def resolve_outer_schema_compatibility(
        self, new_serializer: Any
    ) -> TypeSerializerSchemaCompatibility:
        """Judge the new serializer's own configuration, without the nested ones."""
        return TypeSerializerSchemaCompatibility.compatible_as_is()

    def write_snapshot(self) -> bytes:
        """Return the configuration and the nested snapshots."""
        out = bytearray()
        put_part(out, self.write_outer())
        put_size(out, len(self._nested))
        for nested in self._nested:
            put_part(out, write_snapshot(nested))
        return bytes(out)

    def read_snapshot(self, version: int, data: bytes, loader: SnapshotLoader) -> None:
        """Take over the configuration and the nested snapshots."""
        parts = Parts(data, "it")
        self.read_outer(version, parts.part())
        self._nested = tuple(loader.read(parts.part()) for _ in range(parts.count()))
        parts.end()
        if self.nested_count not in (None, len(self._nested)):
            raise parts.damaged(
                f"it has {len(self._nested)} nested serializers, not {self.nested_count}"
            )

    def resolve_schema_compatibility(
        self, new_serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        """Judge the outer and the nested serializers, and combine the verdicts."""
        if type(new_serializer) is not self.serializer_class:
            return changed_type(self, new_serializer)
        new_nested = self.nested_serializers(new_serializer)
        if len(new_nested) != len(self._nested):
            return changed_type(self, new_serializer)
        verdicts = [
            old.resolve_schema_compatibility(new)
            for old, new in zip(self._nested, new_nested, strict=True)
        ]

        outer = self.resolve_outer_schema_compatibility(new_serializer)

        def rebuild(others: tuple[TypeSerializer[Any] | None, ...]) -> TypeSerializer[Any]:
            if outer.serializer is not None and not any(others):
                return outer.serializer
            kept = zip(others, new_nested, strict=True)
            source: Any = self
            if outer.serializer is not None:
                source = outer.serializer.snapshot_configuration()
            nested = tuple(other or new for other, new in kept)
            rebuilt: TypeSerializer[Any] = source.create_outer_serializer(nested)
            return rebuilt

        return combine(
            new_serializer.type_name,
            outer,
            list(zip(self.nested_names(), verdicts, strict=True)),
            rebuild,
        )

    def restore_serializer(self) -> TypeSerializer[T]:
        """Return the serializer made of the restored nested serializers."""
        return self.create_outer_serializer(
            tuple(each.restore_serializer() for each in self._nested)
        )

    def reader_for(self, new_serializer: TypeSerializer[Any]) -> TypeSerializer[Any]:
        """Return the serializer made of readers for the new nested serializers."""
        new_nested = self.nested_serializers(new_serializer)
        pairs = zip(self._nested, new_nested, strict=True)
        return self.create_outer_serializer(tuple(old.reader_for(new) for old, new in pairs))


def changed_type(
    snapshot: TypeSerializerSnapshot[Any], new_serializer: TypeSerializer[Any]
) -> TypeSerializerSchemaCompatibility:
    """Return the verdict on a type other than the written one."""
    text = (
        f"{snapshot.type_name} -> {new_serializer.type_name}: the type of state may not change; "
        "keep it, or declare the new type under another name"
    )
    return TypeSerializerSchemaCompatibility.incompatible(
        [Reason(new_serializer.type_name, (), text)]
    )
