"""Serializer of NumPy's scalars of a fixed size. Its constructor imports NumPy."""

from __future__ import annotations

from typing import Any, Final

from flinkish.annotations import experimental
from flinkish.errors import UsageError
from flinkish.state.builtin.primitives import damaged, not_a
from flinkish.state.composite import changed_type
from flinkish.state.serializers import (
    SnapshotLoader,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)

#: The types whose bytes are the same on every machine.
NAMES: Final = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


@experimental
class NumpyScalarSerializer(TypeSerializer[Any]):
    """Scalars of one NumPy type, as their little-endian bytes.

    Parameters
    ----------
    scalar
        The type, such as ``numpy.int32``, or its name.
    """

    def __init__(self, scalar: Any) -> None:
        import numpy as np

        try:
            dtype = np.dtype(scalar)
        except TypeError:
            dtype = np.dtype(object)
        if dtype.name not in NAMES:
            raise UsageError(
                f"{scalar!r} is not a NumPy scalar type that state can contain",
                hint=f"use one of {', '.join(NAMES)}; for dates, datetime.datetime",
            )
        self._dtype = dtype.newbyteorder("<")
        self._type = dtype.type
        self.name = dtype.name

    @property
    def type_name(self) -> str:
        return f"numpy.{self.name}"

    def serialize(self, value: Any) -> bytes:
        if type(value) is not self._type:
            raise not_a(self.type_name, value)
        return bytes(value.astype(self._dtype).tobytes())

    def deserialize(self, data: bytes) -> Any:
        import numpy as np

        if len(data) != self._dtype.itemsize or (self.name == "bool" and data[0] > 1):
            raise damaged(self.type_name, data)
        return self._type(np.frombuffer(data, self._dtype)[0])

    def snapshot_configuration(self) -> TypeSerializerSnapshot[Any]:
        return NumpyScalarSerializerSnapshot(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumpyScalarSerializer) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"NumpyScalarSerializer({self.name!r})"


class NumpyScalarSerializerSnapshot(TypeSerializerSnapshot[Any]):
    """Snapshot of :class:`NumpyScalarSerializer`: the name of the type."""

    def __init__(self, name: str = "bool") -> None:
        self._name = name

    @property
    def type_name(self) -> str:
        return f"numpy.{self._name}"

    def write_snapshot(self) -> bytes:
        return self._name.encode()

    def read_snapshot(self, version: int, data: bytes, loader: SnapshotLoader) -> None:
        name = data.decode()
        if name not in NAMES:
            raise ValueError(f"{name[:40]!r} is not a NumPy scalar type")
        self._name = name

    def resolve_schema_compatibility(
        self, new_serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        """Accept the same type only."""
        if self.type_name != new_serializer.type_name or not isinstance(
            new_serializer, NumpyScalarSerializer
        ):
            return changed_type(self, new_serializer)
        return TypeSerializerSchemaCompatibility.compatible_as_is()

    def restore_serializer(self) -> TypeSerializer[Any]:
        return NumpyScalarSerializer(self._name)
