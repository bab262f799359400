"""Serializers of state, their snapshots, and a snapshot's verdict on a new serializer.

The names and the meaning are Flink's (``TypeSerializer``, ``TypeSerializerSnapshot``,
``TypeSerializerSchemaCompatibility``). A savepoint stores, with the bytes of a state, the snapshot
of the serializer that wrote them. At a restore the snapshot judges the program's new serializer:

* compatible as is: the new serializer reads the old bytes as it reads its own;
* with a reconfigured serializer: the same, if the serializer of the verdict is used;
* after migration: the old bytes are read by :meth:`TypeSerializerSnapshot.reader_for` and written
  again by the new serializer;
* incompatible: the new serializer cannot take over the bytes; the reasons say why, by field.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from flinkish.annotations import public_evolving
from flinkish.errors import UsageError

T = TypeVar("T")


@public_evolving
class Verdict(enum.Enum):
    """Compatibility of a new serializer with existing bytes, from best to worst."""

    AS_IS = "compatible as is"
    RECONFIGURED = "compatible with a reconfigured serializer"
    AFTER_MIGRATION = "compatible after migration"
    INCOMPATIBLE = "incompatible"


@public_evolving
@dataclass(frozen=True)
class Reason:
    """Why a field is incompatible.

    Attributes
    ----------
    root
        The name of the whole type, as the program has it.
    path
        The fields below it; ``element``, ``key`` and ``value`` for the content of lists and maps.
    text
        What is incompatible, and what to do about it.
    """

    root: str
    path: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{'.'.join((self.root, *self.path))}: {self.text}"

    def below(self, root: str, step: str) -> Reason:
        """Return the same reason, seen from a type that contains this one as its part ``step``."""
        return replace(self, root=root, path=(step, *self.path))


@public_evolving
@dataclass(frozen=True)
class TypeSerializerSchemaCompatibility:
    """A snapshot's verdict on a new serializer; created by the four class methods.

    Attributes
    ----------
    verdict
        One of the four verdicts.
    problems
        Why the new serializer is incompatible; empty for the other verdicts.
    serializer
        The serializer to use in place of the new one, if it is to be reconfigured.
    """

    verdict: Verdict
    problems: tuple[Reason, ...] = ()
    serializer: TypeSerializer[Any] | None = None

    @classmethod
    def compatible_as_is(cls) -> TypeSerializerSchemaCompatibility:
        """Return the verdict that the new serializer reads the old bytes."""
        return cls(Verdict.AS_IS)

    @classmethod
    def compatible_after_migration(cls) -> TypeSerializerSchemaCompatibility:
        """Return the verdict that the old bytes must be written again."""
        return cls(Verdict.AFTER_MIGRATION)

    @classmethod
    def compatible_with_reconfigured_serializer(
        cls, serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        """Return the verdict that a serializer other than the new one reads the old bytes.

        Parameters
        ----------
        serializer
            The serializer that is used from now on, to read and to write.
        """
        return cls(Verdict.RECONFIGURED, serializer=serializer)

    @classmethod
    def incompatible(cls, reasons: Iterable[Reason]) -> TypeSerializerSchemaCompatibility:
        """Return the verdict that the old bytes cannot become values of the new serializer.

        Parameters
        ----------
        reasons
            At least one.

        Raises
        ------
        ValueError
            There is no reason.
        """
        problems = tuple(reasons)
        if not problems:
            raise ValueError("the verdict 'incompatible' needs a reason")
        return cls(Verdict.INCOMPATIBLE, problems)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons for incompatibility, a line for each: the field's path, and its problem."""
        return tuple(map(str, self.problems))


@public_evolving
class TypeSerializer(ABC, Generic[T]):
    """Turns the values of a type into bytes and back.

    A serializer travels to the executors with the user's function, so it must be picklable.
    """

    @property
    def type_name(self) -> str:
        """The name of the values' type in messages."""
        return type(self).__name__

    @abstractmethod
    def serialize(self, value: T) -> bytes:
        """Return the bytes of a value.

        Raises
        ------
        UsageError
            The value is not of the type.
        """

    @abstractmethod
    def deserialize(self, data: bytes) -> T:
        """Return the value that the bytes represent; every byte must belong to the value.

        Raises
        ------
        Corrupt
            The bytes are not in the form that :meth:`serialize` returns.
        """

    @abstractmethod
    def snapshot_configuration(self) -> TypeSerializerSnapshot[T]:
        """Return what a savepoint must record to read the bytes of this serializer."""


@public_evolving
class SnapshotLoader(Protocol):
    """Reads snapshots inside another one, and finds classes by their names."""

    def read(self, data: bytes) -> TypeSerializerSnapshot[Any]:
        """Return the snapshot that bytes encode.

        Raises
        ------
        Corrupt
            The bytes are damaged.
        UnsupportedFormat
            A newer flinkish or program wrote them.
        Incompatible
            The class of a snapshot does not exist, cannot or may not be imported, is not a snapshot
            class, or needs arguments.
        """
        ...

    def load(self, name: str, base: type = object) -> type:
        """Import a class by its name.

        Parameters
        ----------
        name
            ``module:Class``.
        base
            The class that the named class must be, or be derived from.

        Raises
        ------
        Corrupt
            The name is not a class name.
        Incompatible
            The class does not exist or is not a subclass of ``base``, or its module is not allowed
            or cannot be imported.
        """
        ...


@public_evolving
class TypeSerializerSnapshot(ABC, Generic[T]):
    """A savepoint's record of the serializer that wrote a state.

    A restore finds a snapshot's class by its name, so the class must be public, at the top level of
    its module, and callable without arguments. :func:`flinkish.state.check_snapshot_class` checks
    this when a state is declared. Each serializer class has its own snapshot class.
    """

    #: The version of what :meth:`write_snapshot` writes; increase it whenever that changes.
    current_version: ClassVar[int] = 1

    @property
    def type_name(self) -> str:
        """The name of the values' type in messages."""
        return type(self).__name__.removesuffix("Snapshot")

    @property
    def description(self) -> str:
        """The type with its parts, in readable form: ``Stats(n: int, total: float)``."""
        return self.type_name

    @abstractmethod
    def write_snapshot(self) -> bytes:
        """Return the content of the snapshot, in the current version."""

    @abstractmethod
    def read_snapshot(self, version: int, data: bytes, loader: SnapshotLoader) -> None:
        """Set the content of this snapshot from a written one.

        Parameters
        ----------
        version
            The version that the content was written in: 1 to the current one.
        data
            The content; untrusted.
        loader
            Reads snapshots inside this one, and finds classes, but only in allowed modules (it
            stands for Flink's class loader).

        Raises
        ------
        ValueError
            The content is damaged. The caller also reports other errors as damage, except those
            that ``loader`` raises.
        """

    @abstractmethod
    def resolve_schema_compatibility(
        self, new_serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        """Judge whether a new serializer can be used with the bytes of the old one."""

    @abstractmethod
    def restore_serializer(self) -> TypeSerializer[T]:
        """Return a serializer that reads the old bytes."""

    def reader_for(self, new_serializer: TypeSerializer[Any]) -> TypeSerializer[Any]:
        """Return a serializer that reads the old bytes as values of a new serializer.

        Override this method if the old values differ from those that the new serializer writes (an
        additional field, another name). It is called only for compatible serializers.
        """
        return self.restore_serializer()


class OldStateReader(TypeSerializer[T]):
    """Base class of serializers that only read old bytes as new values, and have no snapshot."""

    def serialize(self, value: T) -> bytes:
        """Raise UsageError, because values are written by the new serializer."""
        raise UsageError(f"{self.type_name} in its old form can only be read, not written")

    def snapshot_configuration(self) -> TypeSerializerSnapshot[T]:
        """Raise UsageError, because a serializer that writes nothing needs no snapshot."""
        raise UsageError(f"{self.type_name} in its old form has no snapshot")
