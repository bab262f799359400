"""Serializers of single values: numbers, texts, bytes, dates.

Each has a fixed form that never changes, so its snapshot is empty, and no other type is compatible
with it. NumPy and pandas numbers are accepted like Python's if nothing is lost.
"""

from __future__ import annotations

import operator
import struct
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Final, TypeVar

from flinkish.errors import Corrupt, UsageError
from flinkish.state.composite import changed_type
from flinkish.state.serializers import (
    SnapshotLoader,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)

T = TypeVar("T")
_LONG: Final = struct.Struct(">q")
_DOUBLE: Final = struct.Struct(">d")
_INT: Final = struct.Struct(">i")
_DATETIME: Final = struct.Struct(">Bq")
_ZONED: Final = struct.Struct(">Bqq")
_AWARE, _FOLD = 1, 2
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY_ZERO: Final = date(1970, 1, 1).toordinal()


def not_a(type_name: str, value: object) -> UsageError:
    """Return the error for a value that is not of the state's type."""
    text = repr(value)
    text = text if len(text) <= 80 else f"{text[:77]}..."
    return UsageError(
        f"{text} ({type(value).__name__}) is not of type {type_name}",
        hint="write values of the declared type, or declare the type that is written",
    )


def damaged(type_name: str, data: bytes) -> Corrupt:
    """Return the error for bytes that are not a value of a type."""
    return Corrupt(f"the {len(data)} bytes {data[:16].hex()} are not a valid {type_name}")


class PrimitiveSerializer(TypeSerializer[T]):
    """A serializer without configuration, so that all serializers of one class are equal."""

    name: ClassVar[str]

    @property
    def type_name(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PrimitiveSnapshot(TypeSerializerSnapshot[T]):
    """The empty snapshot of a serializer that has no configuration."""

    serializer_class: ClassVar[type[TypeSerializer[Any]]]

    @property
    def type_name(self) -> str:
        return self.serializer_class().type_name

    def write_snapshot(self) -> bytes:
        """Return no bytes."""
        return b""

    def read_snapshot(self, version: int, data: bytes, loader: SnapshotLoader) -> None:
        """Check that the content is empty."""
        if data:
            raise ValueError("it has content, but should be empty")

    def resolve_schema_compatibility(
        self, new_serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        """Accept the same type only."""
        if type(new_serializer) is not self.serializer_class:
            return changed_type(self, new_serializer)
        return TypeSerializerSchemaCompatibility.compatible_as_is()

    def restore_serializer(self) -> TypeSerializer[T]:
        """Return the serializer, which has no configuration."""
        return self.serializer_class()


class BoolSerializer(PrimitiveSerializer[bool]):
    """``bool`` as one byte."""

    name = "bool"

    def serialize(self, value: bool) -> bytes:
        if not isinstance(value, bool) and not _is_numpy(value, "bool"):
            raise not_a(self.name, value)
        return b"\1" if value else b"\0"

    def deserialize(self, data: bytes) -> bool:
        if data not in (b"\0", b"\1"):
            raise damaged(self.name, data)
        return data == b"\1"

    def snapshot_configuration(self) -> TypeSerializerSnapshot[bool]:
        return BoolSerializerSnapshot()


class BoolSerializerSnapshot(PrimitiveSnapshot[bool]):
    """Snapshot of :class:`BoolSerializer`."""

    serializer_class = BoolSerializer


class LongSerializer(PrimitiveSerializer[int]):
    """``int`` of 64 bits."""

    name = "int"

    def serialize(self, value: int) -> bytes:
        if type(value) is not int:
            if isinstance(value, bool) or not (
                isinstance(value, int) or _is_numpy(value, "int", "uint")
            ):
                raise not_a(self.name, value)
            value = operator.index(value)
        try:
            return _LONG.pack(value)
        except struct.error:
            raise UsageError(
                f"{value} does not fit into 64 bits", hint="declare Decimal, or str"
            ) from None

    def deserialize(self, data: bytes) -> int:
        if len(data) != _LONG.size:
            raise damaged(self.name, data)
        return int(_LONG.unpack(data)[0])

    def snapshot_configuration(self) -> TypeSerializerSnapshot[int]:
        return LongSerializerSnapshot()


class LongSerializerSnapshot(PrimitiveSnapshot[int]):
    """Snapshot of :class:`LongSerializer`."""

    serializer_class = LongSerializer


class DoubleSerializer(PrimitiveSerializer[float]):
    """``float`` of 64 bits; an ``int`` that it represents exactly is accepted."""

    name = "float"

    def serialize(self, value: float) -> bytes:
        if type(value) is not float:
            value = self._exact(value)
        return _DOUBLE.pack(value)

    def deserialize(self, data: bytes) -> float:
        if len(data) != _DOUBLE.size:
            raise damaged(self.name, data)
        return float(_DOUBLE.unpack(data)[0])

    def _exact(self, value: Any) -> float:
        is_int = isinstance(value, int) and type(value) is not bool
        whole = is_int or _is_numpy(value, "int", "uint")
        if not (whole or isinstance(value, float) or _is_numpy(value, "float")):
            raise not_a(self.name, value)
        try:
            number = float(value)
        except OverflowError:
            raise not_a(self.name, value) from None
        if whole and number != int(value):
            raise not_a(self.name, value)
        return number

    def snapshot_configuration(self) -> TypeSerializerSnapshot[float]:
        return DoubleSerializerSnapshot()


class DoubleSerializerSnapshot(PrimitiveSnapshot[float]):
    """Snapshot of :class:`DoubleSerializer`."""

    serializer_class = DoubleSerializer


class StringSerializer(PrimitiveSerializer[str]):
    """``str`` as UTF-8."""

    name = "str"

    def serialize(self, value: str) -> bytes:
        if not isinstance(value, str):
            raise not_a(self.name, value)
        try:
            return value.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            raise not_a(self.name, value) from None

    def deserialize(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise damaged(self.name, data) from None

    def snapshot_configuration(self) -> TypeSerializerSnapshot[str]:
        return StringSerializerSnapshot()


class StringSerializerSnapshot(PrimitiveSnapshot[str]):
    """Snapshot of :class:`StringSerializer`."""

    serializer_class = StringSerializer


class BytesSerializer(PrimitiveSerializer[bytes]):
    """``bytes``, unchanged; ``bytearray`` and ``memoryview`` are converted."""

    name = "bytes"

    def serialize(self, value: bytes) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise not_a(self.name, value)
        return bytes(value)

    def deserialize(self, data: bytes) -> bytes:
        return bytes(data)

    def snapshot_configuration(self) -> TypeSerializerSnapshot[bytes]:
        return BytesSerializerSnapshot()


class BytesSerializerSnapshot(PrimitiveSnapshot[bytes]):
    """Snapshot of :class:`BytesSerializer`."""

    serializer_class = BytesSerializer


class DateSerializer(PrimitiveSerializer[date]):
    """``datetime.date`` as days since 1970."""

    name = "date"

    def serialize(self, value: date) -> bytes:
        if not isinstance(value, date) or isinstance(value, datetime):
            raise not_a(self.name, value)
        return _INT.pack(value.toordinal() - _DAY_ZERO)

    def deserialize(self, data: bytes) -> date:
        if len(data) != _INT.size:
            raise damaged(self.name, data)
        try:
            return date.fromordinal(_INT.unpack(data)[0] + _DAY_ZERO)
        except (ValueError, OverflowError):
            raise damaged(self.name, data) from None

    def snapshot_configuration(self) -> TypeSerializerSnapshot[date]:
        return DateSerializerSnapshot()


class DateSerializerSnapshot(PrimitiveSnapshot[date]):
    """Snapshot of :class:`DateSerializer`."""

    serializer_class = DateSerializer


class DateTimeSerializer(PrimitiveSerializer[datetime]):
    """``datetime.datetime`` in microseconds; without time zone, or with its offset from UTC.

    A value that is read has a zone of that fixed offset, because the zone's name is not stored. A
    Timestamp of pandas becomes a datetime; a Timestamp with nanoseconds is refused.
    """

    name = "datetime"

    def serialize(self, value: datetime) -> bytes:
        # pandas' NaT is a datetime that equals nothing.
        if not isinstance(value, datetime) or value != value or getattr(value, "nanosecond", False):
            raise not_a(self.name, value)
        flags = _FOLD if value.fold else 0
        offset = value.utcoffset()
        micros = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
        if offset is None:
            return _DATETIME.pack(flags, micros)
        return _ZONED.pack(flags | _AWARE, micros, offset // _MICROSECOND)

    def deserialize(self, data: bytes) -> datetime:
        try:
            if len(data) == _DATETIME.size:
                zone, (flags, micros) = None, _DATETIME.unpack(data)
            else:
                flags, micros, offset = _ZONED.unpack(data)
                zone = timezone(timedelta(microseconds=offset))
            if flags & ~_FOLD != (_AWARE if zone else 0):
                raise damaged(self.name, data)
            moment = _EPOCH + timedelta(microseconds=micros)
        except (struct.error, ValueError, OverflowError):
            raise damaged(self.name, data) from None
        return moment.replace(tzinfo=zone, fold=1 if flags & _FOLD else 0)

    def snapshot_configuration(self) -> TypeSerializerSnapshot[datetime]:
        return DateTimeSerializerSnapshot()


class DateTimeSerializerSnapshot(PrimitiveSnapshot[datetime]):
    """Snapshot of :class:`DateTimeSerializer`."""

    serializer_class = DateTimeSerializer


class DecimalSerializer(PrimitiveSerializer[Decimal]):
    """``decimal.Decimal`` of any precision, as text, which keeps the exponent and the sign."""

    name = "Decimal"

    def serialize(self, value: Decimal) -> bytes:
        if not isinstance(value, Decimal):
            raise not_a(self.name, value)
        return str(value).encode("ascii")

    def deserialize(self, data: bytes) -> Decimal:
        try:
            number = Decimal(data.decode("ascii"))
        except (UnicodeDecodeError, InvalidOperation):
            raise damaged(self.name, data) from None
        if str(number).encode("ascii") != data:
            raise damaged(self.name, data)
        return number

    def snapshot_configuration(self) -> TypeSerializerSnapshot[Decimal]:
        return DecimalSerializerSnapshot()


class DecimalSerializerSnapshot(PrimitiveSnapshot[Decimal]):
    """Snapshot of :class:`DecimalSerializer`."""

    serializer_class = DecimalSerializer


def _is_numpy(value: object, *kinds: str) -> bool:
    """Return whether a value is a NumPy scalar of one of these kinds, without importing NumPy."""
    cls = type(value)
    return cls.__module__ == "numpy" and cls.__name__.rstrip("_0123456789") in kinds
