"""Pickled state, only on explicit request: nothing else in flinkish pickles state."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

from flinkish.annotations import experimental
from flinkish.errors import Corrupt, Incompatible, UsageError
from flinkish.state.builtin.primitives import not_a
from flinkish.state.serializers import (
    Reason,
    SnapshotLoader,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from flinkish.state.snapshots import MAX_NAME, check_findable, class_name

_warned: set[str] = set()


@experimental
class UnsafePickleSerializer(TypeSerializer[Any]):
    """Values of one class, pickled.

    Anyone who can write the savepoint can run code where it is restored (see :mod:`pickle`). Such
    state is never migrated, so the class's attributes must not change.

    Parameters
    ----------
    cls
        The class of the values, or a base class of it.
    """

    def __init__(self, cls: type) -> None:
        check_findable(cls, "the class")
        self.cls = cls
        if class_name(cls) not in _warned:
            _warned.add(class_name(cls))
            warnings.warn(
                f"state of {class_name(cls)} is pickled: it can never be migrated, and restoring "
                "it runs code from the savepoint; use a dataclass or AvroSerializer",
                UserWarning,
                stacklevel=2,
            )

    @property
    def type_name(self) -> str:
        return f"pickled {class_name(self.cls)}"

    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, self.cls):
            raise not_a(self.type_name, value)
        try:
            return pickle.dumps(value, protocol=4)
        except Exception as error:
            raise UsageError(f"a {self.type_name} cannot be pickled: {error}") from error

    def deserialize(self, data: bytes) -> Any:
        try:
            value = pickle.loads(data)
        except Exception as error:
            raise Corrupt(
                f"a {self.type_name} cannot be read: {type(error).__name__}: {error}",
                hint="change the class back to what it was when the state was written",
            ) from error
        if not isinstance(value, self.cls):
            raise Corrupt(f"a {type(value).__name__} was found instead of {self.type_name}")
        return value

    def snapshot_configuration(self) -> TypeSerializerSnapshot[Any]:
        return UnsafePickleSerializerSnapshot(class_name(self.cls))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnsafePickleSerializer) and other.cls is self.cls

    def __hash__(self) -> int:
        return hash(self.cls)


class UnsafePickleSerializerSnapshot(TypeSerializerSnapshot[Any]):
    """Snapshot of :class:`UnsafePickleSerializer`: the class name, without attributes."""

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._loader: SnapshotLoader | None = None

    @property
    def type_name(self) -> str:
        return f"pickled {self._name}"

    def write_snapshot(self) -> bytes:
        return self._name.encode()

    def read_snapshot(self, version: int, data: bytes, loader: SnapshotLoader) -> None:
        if len(data) > MAX_NAME * 4:
            raise ValueError("the name of the class is too long")
        self._name = data.decode()
        self._loader = loader

    def resolve_schema_compatibility(
        self, new_serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        """Accept the same class only, and never a migration."""
        pickles = isinstance(new_serializer, UnsafePickleSerializer)
        if pickles and new_serializer.type_name == self.type_name:
            return TypeSerializerSchemaCompatibility.compatible_as_is()
        text = (
            f"{self.type_name} -> {new_serializer.type_name}: pickled state is never migrated; "
            "keep the class, or declare the state under another name"
        )
        return TypeSerializerSchemaCompatibility.incompatible(
            [Reason(new_serializer.type_name, (), text)]
        )

    def restore_serializer(self) -> TypeSerializer[Any]:
        if self._loader is None:
            raise Incompatible(f"the snapshot of {self.type_name} was never read")
        return UnsafePickleSerializer(self._loader.load(self._name))

    def reader_for(self, new_serializer: TypeSerializer[Any]) -> TypeSerializer[Any]:
        """Return the new serializer, which is for the same class."""
        return new_serializer
