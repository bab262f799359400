"""Serializers of dataclasses and NamedTuples by Flink's rules for POJOs, and ``serializer_of``.

Fields may be removed, moved, (with an alias) renamed, and added if they have a default or are
optional. The type of a field may not change, and the class may not be renamed without an alias.
Fields are matched by name; the types of remaining fields are judged by their own snapshots.

These serializers are not built on Avro, although Avro's schema resolution would suffice. Flink's
rules are stricter (no promotions); a field may have any type with a serializer, even a custom one
that Avro's types cannot express; and field names need not be valid in Avro. So a record is a
composite like lists and maps: it consists of the size and the bytes of each field, in an order that
the snapshot records. A removed field is skipped without being read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from flinkish.annotations import public_evolving
from flinkish.errors import Incompatible, UsageError
from flinkish.state.builtin.containers import OptionalSerializer
from flinkish.state.builtin.primitives import not_a
from flinkish.state.builtin.record_types import (
    RecordField,
    build,
    class_aliases,
    no_value,
    record_fields,
)
from flinkish.state.composite import changed_type, combine
from flinkish.state.serializers import (
    OldStateReader,
    Reason,
    SnapshotLoader,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
    Verdict,
)
from flinkish.state.snapshots import MAX_NAME, class_name, write_snapshot
from flinkish.state.wire import Parts, put_part, put_size, put_text

T = TypeVar("T")


@public_evolving
def serializer_of(hint: Any) -> TypeSerializer[Any]:
    """Return the serializer of a type.

    Parameters
    ----------
    hint
        ``bool``, ``int`` (64 bits), ``float``, ``str``, ``bytes``, ``date``, ``datetime``,
        ``Decimal``, a NumPy scalar type, a dataclass, a NamedTuple; ``list[T]``, ``dict[K, V]``,
        ``tuple[A, B]`` and ``Optional[T]`` of those; ``Annotated[T, serializer]``, or a serializer.

    Raises
    ------
    UsageError
        The type is not supported; the hint says what to use.
    """
    return build(hint, DataclassSerializer)


@public_evolving
class DataclassSerializer(TypeSerializer[T]):
    """Objects of a dataclass or NamedTuple, field by field.

    Objects are made by calling the class with its fields, so ``__post_init__`` runs.

    Parameters
    ----------
    cls
        The class, at the top level of its module.

    Raises
    ------
    UsageError
        The class, or the type of a field, cannot be used for state, or the class contains itself.
    """

    def __init__(self, cls: type[T], *, _around: tuple[type, ...] = ()) -> None:
        around = (*_around, cls)

        def of_record(inner: type) -> TypeSerializer[Any]:
            if inner in around:
                raise UsageError(
                    f"{class_name(inner)} contains itself",
                    hint="use AvroSerializer with a schema that names itself, or a list of parts",
                )
            return DataclassSerializer(inner, _around=around)

        self.cls = cls
        self.fields = record_fields(cls)
        self._late = _late(self.fields)
        #: The serializers of the fields, in the order of the bytes.
        self.serializers = {each.name: build(each.hint, of_record) for each in self.fields}

    def arranged(self, serializers: dict[str, TypeSerializer[Any]]) -> DataclassSerializer[T]:
        """Return a serializer of the same class whose fields have these serializers, in order."""
        serializer: DataclassSerializer[T] = object.__new__(DataclassSerializer)
        serializer.cls, serializer.fields, serializer._late = self.cls, self.fields, self._late
        serializer.serializers = serializers
        return serializer

    @property
    def type_name(self) -> str:
        return self.cls.__qualname__

    def serialize(self, value: T) -> bytes:
        if type(value) is not self.cls:
            raise not_a(class_name(self.cls), value)
        out = bytearray()
        for name, serializer in self.serializers.items():
            try:
                put_part(out, serializer.serialize(getattr(value, name)))
            except AttributeError as error:
                if hasattr(value, name):
                    raise
                raise UsageError(
                    f"{self.type_name}.{name} is not set", hint="set it in __post_init__"
                ) from error
            except UsageError as error:
                message = f"{self.type_name}.{name}: {error.message}"
                raise UsageError(message, hint=error.hint) from error
        return bytes(out)

    def deserialize(self, data: bytes) -> T:
        parts = Parts(data, self.type_name)
        values = {
            name: serializer.deserialize(parts.part())
            for name, serializer in self.serializers.items()
        }
        parts.end()
        return cast("T", _construct(self.cls, self._late, values))

    def snapshot_configuration(self) -> TypeSerializerSnapshot[T]:
        return DataclassSerializerSnapshot(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataclassSerializer) or other.cls is not self.cls:
            return False
        return list(other.serializers.items()) == list(self.serializers.items())

    def __hash__(self) -> int:
        return hash(self.cls)

    def __repr__(self) -> str:
        return f"DataclassSerializer({self.cls.__qualname__})"


class DataclassSerializerSnapshot(TypeSerializerSnapshot[T]):
    """The snapshot of a :class:`DataclassSerializer`: class name, fields in order, their snapshots.

    Without a serializer it is empty until :meth:`read_snapshot` fills it.
    """

    def __init__(self, serializer: DataclassSerializer[T] | None = None) -> None:
        self._name = ""
        self._fields: dict[str, TypeSerializerSnapshot[Any]] = {}
        self._find: Callable[[], type] | None = None
        if serializer is not None:
            cls = serializer.cls
            self._name = class_name(cls)
            self._find = lambda: cls
            self._fields = {
                name: each.snapshot_configuration() for name, each in serializer.serializers.items()
            }

    @property
    def type_name(self) -> str:
        return self._name.rpartition(":")[2]

    @property
    def description(self) -> str:
        fields = (f"{name}: {each.description}" for name, each in self._fields.items())
        return f"{self.type_name}({', '.join(fields)})"

    @property
    def class_name(self) -> str:
        """The class, as ``module:Class``."""
        return self._name

    @property
    def nested_snapshots(self) -> tuple[TypeSerializerSnapshot[Any], ...]:
        """The snapshots of the fields."""
        return tuple(self._fields.values())

    @property
    def field_types(self) -> dict[str, str]:
        """The type names of the fields, by field name, in the order of the bytes."""
        return {name: each.type_name for name, each in self._fields.items()}

    def write_snapshot(self) -> bytes:
        out = bytearray()
        put_text(out, self._name)
        put_size(out, len(self._fields))
        for name, nested in self._fields.items():
            put_text(out, name)
            put_part(out, write_snapshot(nested))
        return bytes(out)

    def read_snapshot(self, version: int, data: bytes, loader: SnapshotLoader) -> None:
        parts = Parts(data, "it")
        self._name = parts.text(MAX_NAME * 4)
        count = parts.count()
        self._fields = {parts.text(): loader.read(parts.part()) for _ in range(count)}
        if len(self._fields) != count:
            raise parts.damaged("it has a field twice")
        parts.end()
        self._find = lambda: loader.load(self._name)

    def resolve_schema_compatibility(
        self, new_serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        """Judge by Flink's rules for POJOs; see the module's docstring."""
        if not isinstance(new_serializer, DataclassSerializer):
            return changed_type(self, new_serializer)
        new, root = new_serializer, new_serializer.type_name
        renamed = _renamed(self._name, new.cls)
        if renamed is not None:
            return TypeSerializerSchemaCompatibility.incompatible([Reason(root, (), renamed)])
        match = _match(self._fields, new)
        problems = [Reason(root, (name,), text) for name, text in match.problems.items()]
        if problems:
            outer = TypeSerializerSchemaCompatibility.incompatible(problems)
        elif match.added or len(match.kept) < max(len(self._fields), len(new.serializers)):
            outer = TypeSerializerSchemaCompatibility.compatible_after_migration()
        elif list(match.kept.values()) != list(new.serializers):
            outer = TypeSerializerSchemaCompatibility.compatible_with_reconfigured_serializer(new)
        else:
            outer = TypeSerializerSchemaCompatibility.compatible_as_is()
        nested = [
            (name, self._fields[old].resolve_schema_compatibility(new.serializers[name]))
            for old, name in match.kept.items()
        ]

        def rebuild(others: tuple[TypeSerializer[Any] | None, ...]) -> TypeSerializer[Any]:
            pairs = zip(match.kept.values(), others, strict=True)
            return new.arranged({name: each or new.serializers[name] for name, each in pairs})

        return combine(root, outer, nested, rebuild)

    def restore_serializer(self) -> TypeSerializer[T]:
        """Return a serializer that reads the old bytes as objects of the present class.

        Raises Incompatible if the class no longer has its old name, or cannot take the old fields,
        and UsageError if it can no longer be used for state.
        """
        if self._find is None:
            raise Incompatible("the snapshot of a dataclass was never read")
        new: DataclassSerializer[Any] = DataclassSerializer(self._find())
        compatibility = self.resolve_schema_compatibility(new)
        if compatibility.verdict is Verdict.INCOMPATIBLE:
            raise Incompatible(
                "; ".join(compatibility.reasons), reasons=list(compatibility.reasons)
            )
        if compatibility.verdict is Verdict.AFTER_MIGRATION:
            return self.reader_for(new)
        return compatibility.serializer or new

    def reader_for(self, new_serializer: TypeSerializer[Any]) -> TypeSerializer[Any]:
        """Return a serializer that reads the old bytes as objects of the new class."""
        assert isinstance(new_serializer, DataclassSerializer)
        new = new_serializer
        match = _match(self._fields, new)
        steps = []
        for old, snapshot in self._fields.items():
            name = match.kept.get(old)
            reader = None if name is None else snapshot.reader_for(new.serializers[name])
            steps.append((name or "", reader))
        return OldRecordReader(new.cls, _late(new.fields), tuple(steps), match.added)


@dataclass(frozen=True)
class OldRecordReader(OldStateReader[Any]):
    """Reads bytes whose fields are not those of the present class."""

    cls: type
    late: frozenset[str]
    steps: tuple[tuple[str, TypeSerializer[Any] | None], ...]
    added: dict[str, Callable[[], Any]]

    @property
    def type_name(self) -> str:
        return self.cls.__qualname__

    def deserialize(self, data: bytes) -> Any:
        parts = Parts(data, self.type_name)
        values = {}
        for name, reader in self.steps:
            part = parts.part()
            if reader is not None:
                values[name] = reader.deserialize(part)
        parts.end()
        for name, default in self.added.items():
            values[name] = default()
        return _construct(self.cls, self.late, values)


@dataclass(frozen=True)
class _Match:
    """The old and new fields, matched by names and aliases.

    ``kept`` maps the names of old fields, in their order, to the new ones; ``added`` maps the new
    fields without an old one to the factories of their values; ``problems`` says which new fields
    have no value, or more than one.
    """

    kept: dict[str, str]
    added: dict[str, Callable[[], Any]]
    problems: dict[str, str]


def _match(old: Iterable[str], new: DataclassSerializer[Any]) -> _Match:
    names = list(old)
    taken = set(new.serializers)
    origin: dict[str, str] = {}
    added: dict[str, Callable[[], Any]] = {}
    problems: dict[str, str] = {}
    for each in new.fields:
        # A field's present name takes precedence over another field's former name.
        former = [alias for alias in each.aliases if alias in names and alias not in taken]
        if each.name in names:
            origin[each.name] = each.name
        elif len(former) == 1:
            origin[former[0]] = each.name
        elif former:
            problems[each.name] = (
                f"the state has a field for each of the aliases {' and '.join(former)}; "
                "keep only one of them"
            )
        elif each.default is not None:
            added[each.name] = each.default
        elif isinstance(new.serializers[each.name], OptionalSerializer):
            added[each.name] = no_value
        elif each.init:
            problems[each.name] = (
                "added without a default, and existing state has no value for it; give it a "
                "default, or make it Optional"
            )
    return _Match({name: origin[name] for name in names if name in origin}, added, problems)


def _renamed(old: str, cls: type) -> str | None:
    """Return the problem if ``old`` is neither the class's name nor one of its aliases."""
    if old == class_name(cls) or old in class_aliases(cls):
        return None
    return (
        f"the state is of the class {old}, and the class is now {class_name(cls)}; if it was "
        f'renamed or moved, write @state_type(aliases=["{old}"]) above it'
    )


def _late(fields: Iterable[RecordField]) -> frozenset[str]:
    """Return the names of the fields that the constructor does not take."""
    return frozenset(each.name for each in fields if not each.init)


def _construct(cls: Any, late: frozenset[str], values: dict[str, Any]) -> Any:
    left = {name: values.pop(name) for name in late if name in values} if late else {}
    try:
        record = cls(**values)
    except Exception as error:
        raise Incompatible(
            f"{class_name(cls)} does not accept the values in the state: "
            f"{type(error).__name__}: {error}",
            hint="make the class accept the values that it accepted when the state was written",
        ) from error
    for name, value in left.items():
        object.__setattr__(record, name, value)  # the class may be frozen
    return record
