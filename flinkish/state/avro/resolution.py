"""Avro's schema resolution: whether, and how, bytes of one schema are read as values of another.

Source: the Avro specification 1.11, "Schema Resolution" and "Logical Types". One walk through both
schemas gives the verdict and the reader, so that they cannot disagree. Where the specification
leaves a choice, or would silently lose data, the following rules hold:

* A type of a written union that the reader cannot read, and a written symbol that the reader's
  enum lacks (unless that enum has a default), are incompatible even if no value has them.
* In a reader's union the exact written type is preferred to one that it could be promoted to. The
  specification takes the first match, so a long would become a double that precedes the long.
* Two different logical types of one Avro type have different meanings (milliseconds, microseconds),
  and to read one as the other would change every value. Only values that get a finer unit of the
  same kind are converted; other changes are refused. Where only one of the two schemas has a
  logical type, the Avro types decide, as they do in the specification.
* A reader's field matches a written field by its name before its aliases; a field is refused if two
  of its aliases match.

The verdict is "as is" where the bytes stay valid and mean the same under the new schema alone: a
long that was an int, symbols or types that were appended, names that changed by alias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from flinkish.annotations import public_evolving
from flinkish.avro import decoding
from flinkish.avro.decoding import Decode, RecordDecoder
from flinkish.state.avro.defaults import default_of, logical_reader
from flinkish.state.avro.schemas import (
    Array,
    AvroSchema,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Node,
    Record,
    Scalar,
    Union,
    parse_schema,
    walk,
)
from flinkish.state.serializers import Reason, TypeSerializerSchemaCompatibility

N = TypeVar("N", bound=Node)
#: The types that a primitive type may become.
PROMOTIONS: Final[dict[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
#: Promotions that leave all bytes valid as they are (bytes that become a string may not be UTF-8).
_SAME_BYTES: Final = {("int", "long"), ("string", "bytes")}
#: Logical types that become another without loss.
_FINER: Final = {
    ("time-millis", "time-micros"),
    ("timestamp-millis", "timestamp-micros"),
    ("local-timestamp-millis", "local-timestamp-micros"),
}


@dataclass(frozen=True)
class AvroResolution:
    """How values of one schema become values of another.

    ``decode`` reads the writer's bytes; it must not be used if the schemas are incompatible.
    """

    compatibility: TypeSerializerSchemaCompatibility
    decode: Decode

    def read(self, data: bytes) -> Any:
        """Return the reader's value of the writer's bytes.

        Raises Corrupt if the bytes do not match the writer's schema, or their value has no
        counterpart in the reader's (bytes that should become a string, but are not UTF-8).
        """
        return decoding.read_value(self.decode, data)


@public_evolving
def resolve(writer: Any, reader: Any) -> TypeSerializerSchemaCompatibility:
    """Judge whether bytes of one schema can be read with another.

    Parameters
    ----------
    writer
        The schema of the bytes: JSON, or what ``json.loads`` returns.
    reader
        The new schema.

    Returns
    -------
    TypeSerializerSchemaCompatibility
        As is, after migration, or incompatible with a reason for each field.

    Raises
    ------
    UsageError
        One of the two is not an Avro schema, or an added field's default is not of its type.
    """
    return compile_reader(writer, reader).compatibility


def compile_reader(writer: Any, reader: Any) -> AvroResolution:
    """Return the verdict of :func:`resolve`, and the reader of the bytes."""
    old, new = parse_schema(writer), parse_schema(reader)
    both = _Walk(new.name)
    decode = both.pair(old.root, new.root, ())
    if both.problems:
        compatibility = TypeSerializerSchemaCompatibility.incompatible(both.problems)
    elif both.rewrites:
        compatibility = TypeSerializerSchemaCompatibility.compatible_after_migration()
    else:
        compatibility = TypeSerializerSchemaCompatibility.compatible_as_is()
    return AvroResolution(compatibility, decode)


class _Walk:
    """Walks through both schemas at once.

    ``problems`` say why they are incompatible; ``rewrites`` is set if bytes change or need a check.
    """

    def __init__(self, root: str, *, skips: bool = False) -> None:
        self._root = root
        self._skips = skips  # the values are not used: logical types do not matter
        self._records: dict[tuple[int, int], RecordDecoder] = {}
        self.problems: list[Reason] = []
        self.rewrites = False

    def _problem(self, path: tuple[str, ...], text: str) -> Decode:
        reason = Reason(self._root, path, text)
        if reason not in self.problems:
            self.problems.append(reason)
        return decoding.decode_null

    def pair(self, old: Node, new: Node, path: tuple[str, ...]) -> Decode:
        """Return a reader of a written type as a new type; record a problem if there is none."""
        if isinstance(old, Union):
            return self._from_union(old, new, path)
        if isinstance(new, Union):
            index = branch_for(old, new)
            self.rewrites = True
            if index is None:
                return self._problem(
                    path, f"{old} -> {new}: it cannot be read as any of the new types"
                )
            return self.pair(old, new.branches[index], path)
        text = why_not(old, new)
        if text is not None:
            return self._problem(path, text)
        if isinstance(old, Scalar):
            return self._scalar(old, cast("Scalar", new), decoding.PRIMITIVE_DECODERS[old.kind])
        if isinstance(old, Fixed):
            scalar = cast("Fixed", new).scalar
            return self._scalar(old.scalar, scalar, decoding.fixed(old.size))
        if isinstance(old, Enum):
            return self._enum(old, cast("Enum", new), path)
        if isinstance(old, Array):
            items = self.pair(old.items, cast("Array", new).items, (*path, "element"))
            return decoding.array(items)
        if isinstance(old, Map):
            values = self.pair(old.values, cast("Map", new).values, (*path, "value"))
            return decoding.mapping(values)
        return self._record(cast("Record", old), cast("Record", new), path)

    def _from_union(self, old: Union, new: Node, path: tuple[str, ...]) -> Decode:
        readers = []
        for index, branch in enumerate(old.branches):
            target: Node | None = new
            if isinstance(new, Union):
                other = branch_for(branch, new)
                self.rewrites = self.rewrites or other != index
                target = None if other is None else new.branches[other]
            else:
                self.rewrites = True
            if target is None or why_not(branch, target):
                text = f"{old} -> {new}: values written as {branch} cannot be read"
                readers.append(self._problem(path, text))
            else:
                readers.append(self.pair(branch, target, path))
        return decoding.union(readers)

    def _scalar(self, old: Scalar, new: Scalar, decode: Decode) -> Decode:
        if (old.logical, new.logical) in _FINER:
            self.rewrites = True
            return decoding.then(decode, logical_reader(old))
        if old.kind != new.kind:
            self.rewrites = self.rewrites or (old.kind, new.kind) not in _SAME_BYTES
            decode = _promoted(decode, old.kind, new.kind)
        if not new.logical or self._skips:
            return decode
        if not old.logical:
            self.rewrites = True  # not every long is a date: invalid ones must be found
        return decoding.then(decode, logical_reader(new))

    def _enum(self, old: Enum, new: Enum, path: tuple[str, ...]) -> Decode:
        lost = [each for each in old.symbols if each not in new.symbols]
        if lost and new.default is None:
            text = f"the symbols {', '.join(lost)} are gone, and {new} has no default for them"
            return self._problem(path, text)
        if new.symbols[: len(old.symbols)] != old.symbols:
            self.rewrites = True
        default = new.default or ""
        return decoding.choice([each if each in new.symbols else default for each in old.symbols])

    def _record(self, old: Record, new: Record, path: tuple[str, ...]) -> Decode:
        key = id(old), id(new)
        if key in self._records:
            return self._records[key]
        decoder = self._records[key] = RecordDecoder()
        origin = self._origins(old, new, path)
        targets = {written.name: name for name, written in origin.items()}
        types = {each.name: each.type for each in new.fields}
        for each in old.fields:
            name = targets.get(each.name)
            if name is None:
                decoder.parts.append((None, _skip(each.type)))
            else:
                decode = self.pair(each.type, types[name], (*path, name))
                decoder.parts.append((name, decode))
        for each in new.fields:
            if each.name not in origin:
                self._added(each, decoder, path)
        if [name for name, _ in decoder.parts] != [each.name for each in new.fields]:
            self.rewrites = True
        return decoder

    def _origins(self, old: Record, new: Record, path: tuple[str, ...]) -> dict[str, Field]:
        """Return the written fields by the names of the reader's fields that they match."""
        written = {each.name: each for each in old.fields}
        taken = {each.name for each in new.fields}
        origins = {}
        for each in new.fields:
            former = [name for name in each.aliases if name in written and name not in taken]
            if each.name in written:
                origins[each.name] = written[each.name]
            elif len(set(former)) == 1:
                origins[each.name] = written[former[0]]
            elif former:
                names = ", ".join(dict.fromkeys(former))
                text = f"the written fields {names} match aliases of the field; keep only one alias"
                self._problem((*path, each.name), text)
                origins[each.name] = written[former[0]]
        return self._once(origins, path)

    def _once(self, fields: dict[str, Field], path: tuple[str, ...]) -> dict[str, Field]:
        """Refuse a written field whose name is an alias of two of the reader's fields."""
        owners: dict[str, str] = {}
        for name, each in fields.items():
            other = owners.setdefault(each.name, name)
            if other != name:
                text = f"the field and {other} both have the alias {each.name}; only one may"
                self._problem((*path, name), text)
        return fields

    def _added(self, each: Field, decoder: RecordDecoder, path: tuple[str, ...]) -> None:
        if not each.has_default:
            text = "added without a default, and existing values lack it; give it a default"
            self._problem((*path, each.name), text)
            return
        decoder.added.append((each.name, default_of(each)))


def branch_for(old: Node, union: Union) -> int | None:
    """Return the index, in a reader's union, of the type that a written type becomes; else None."""
    for index, branch in enumerate(union.branches):
        if branch.kind != old.kind or why_not(old, branch) is not None:
            continue
        if not isinstance(old, Named) or old.name == cast("Named", branch).name:
            return index
    matches = (i for i, branch in enumerate(union.branches) if why_not(old, branch) is None)
    return next(matches, None)


def why_not(old: Node, new: Node) -> str | None:
    """Return why two types other than unions do not match, or None; ignore what they contain."""
    if isinstance(old, Scalar) and isinstance(new, Scalar):
        if old.kind != new.kind and new.kind not in PROMOTIONS.get(old.kind, ()):
            return f"{old} -> {new} is not an Avro promotion"
        return _why_not_logical(old, new)
    if type(old) is not type(new):
        return f"{old} -> {new}: Avro cannot read the one as the other"
    if not isinstance(new, Named) or not isinstance(old, Named):
        return None
    if not new.takes(old):
        return f'{old} -> {new}: if it was renamed, give it the alias "{old.name}"'
    if isinstance(old, Fixed) and isinstance(new, Fixed):
        if old.size != new.size:
            return f"{old} -> {new}: the size may not change"
        return _why_not_logical(old.scalar, new.scalar)
    return None


def _why_not_logical(old: Scalar, new: Scalar) -> str | None:
    if not old.logical or not new.logical:
        return None
    if old.decimal != new.decimal:
        return f"{old} -> {new}: precision and scale may not change"
    if old.logical != new.logical and (old.logical, new.logical) not in _FINER:
        return f"{old} -> {new}: every value would change its meaning"
    return None


def _promoted(decode: Decode, old: str, new: str) -> Decode:
    if new == "float":
        return decoding.then(decode, decoding.as_float)
    if new == "double":
        return decoding.then(decode, float)
    if new == "string":
        return decoding.decode_string
    return decoding.decode_bytes if new == "bytes" else decode


def _skip(node: Node) -> Decode:
    """Return a reader that skips a value."""
    return _Walk("", skips=True).pair(node, node, ())


def check_defaults(schema: AvroSchema) -> None:
    """Check the defaults of all fields, including those that nothing reads yet.

    Raises UsageError if a default is not a value of its field's type.
    """
    for node in walk(schema.root):
        for each in node.fields if isinstance(node, Record) else ():
            if each.has_default:
                default_of(each)
