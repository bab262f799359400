"""Avro schemas as typed nodes, checked once.

fastavro's parser resolves names and namespaces and knows what a schema must have. This module
refuses what the parser wrongly accepts, such as unions within unions, decimals without a precision,
repeated fields, and enums whose default is not a symbol.

Source: the Avro specification 1.11, "Schema Declaration", "Logical Types".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro
from fastavro.read import LOGICAL_READERS

from flinkish.errors import UsageError

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
#: Maximum nesting of types; comparing deeper types would exhaust Python's stack.
MAX_DEPTH: Final = 64


@dataclass(frozen=True, eq=False)
class Node:
    """A type of a schema. Nodes are compared by identity, as they may contain themselves.

    ``kind`` is ``int``, ``record``, ``array``, ``union`` ...
    """

    kind: str


@dataclass(frozen=True, eq=False)
class Scalar(Node):
    """A primitive type, or ``fixed``, with its logical type.

    ``schema`` is in the form that fastavro's readers of logical types expect. ``logical`` is the
    logical type's name if it applies to this type; Avro ignores others.
    """

    schema: Mapping[str, Any] = field(default_factory=dict)
    logical: str = ""

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale of a decimal."""
        if self.logical != "decimal":
            return None
        return self.schema["precision"], self.schema.get("scale", 0)

    def __str__(self) -> str:
        if self.decimal:
            return f"decimal({self.decimal[0]}, {self.decimal[1]})"
        return f"{self.kind} ({self.logical})" if self.logical else self.kind


@dataclass(frozen=True, eq=False)
class Named(Node):
    """A type with a name.

    ``name`` includes the namespace; ``aliases`` are as in the schema.
    """

    name: str
    aliases: tuple[str, ...]

    @property
    def short(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.kind} {self.short}"

    def takes(self, writer: Named) -> bool:
        """Return whether a written type's name is this one's, or one of its aliases.

        Names are compared without their namespaces (Avro 1.11, "Schema Resolution"). An alias
        without a namespace matches the name in any namespace.
        """
        return (
            writer.short == self.short
            or writer.short in self.aliases
            or writer.name in self.aliases
        )


@dataclass(frozen=True, eq=False)
class Fixed(Named):
    """A fixed number of bytes, with their logical type."""

    size: int
    scalar: Scalar

    def __str__(self) -> str:
        logical = f", {self.scalar}" if self.scalar.logical else ""
        return f"fixed {self.short} ({self.size} bytes{logical})"


@dataclass(frozen=True, eq=False)
class Enum(Named):
    """One of several symbols; ``default`` is read in place of unknown ones."""

    symbols: tuple[str, ...]
    default: str | None


@dataclass(frozen=True, eq=False)
class Field:
    """A field of a record; ``default`` is JSON, valid if ``has_default``."""

    name: str
    type: Node
    aliases: tuple[str, ...]
    has_default: bool
    default: Any


@dataclass(frozen=True, eq=False)
class Record(Named):
    """Fields in order; the list is filled while a schema is parsed."""

    fields: list[Field] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Array(Node):
    """Values of one type."""

    items: Node

    def __str__(self) -> str:
        return "array"


@dataclass(frozen=True, eq=False)
class Map(Node):
    """Values of one type with strings as keys."""

    values: Node

    def __str__(self) -> str:
        return "map"


@dataclass(frozen=True, eq=False)
class Union(Node):
    """One of several types."""

    branches: tuple[Node, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.branches))}]"


@dataclass(frozen=True, eq=False)
class AvroSchema:
    """A schema that was parsed and checked.

    ``text`` is its original JSON, ``root`` its type, ``parsed`` the form for fastavro.
    """

    text: str
    root: Node
    parsed: Any

    @property
    def name(self) -> str:
        """The name in messages: the name of a named type without its namespace, else the type."""
        root = self.root
        return root.short if isinstance(root, Named) else str(root)


def parse_schema(schema: Any) -> AvroSchema:
    """Parse and check a schema: JSON text, the name of a primitive type, or parsed JSON.

    An :class:`AvroSchema` is returned as it is. Raises UsageError if it is not an Avro schema.
    """
    if isinstance(schema, AvroSchema):
        return schema
    try:
        if isinstance(schema, str) and schema not in PRIMITIVES:
            schema = json.loads(schema)
        text = json.dumps(schema, separators=(",", ":"), allow_nan=False)
        schema = json.loads(text)
        parsed = fastavro.parse_schema(schema)
        return AvroSchema(text, _Parser().node(parsed), parsed)
    except UsageError:
        raise
    except Exception as error:  # fastavro's parser may raise anything
        raise _invalid(f"{type(error).__name__}: {error}") from error


def _invalid(reason: str) -> UsageError:
    return UsageError(
        f"it is not a valid Avro schema: {reason}",
        hint="see the Avro specification 1.11, Schema Declaration",
    )


class _Parser:
    """Makes nodes from fastavro's parsed schema."""

    def __init__(self) -> None:
        self.named: dict[str, Named] = {}
        self.depth = 0

    def node(self, schema: Any) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _invalid(f"it has more than {MAX_DEPTH} nested types")
        node = self._node(schema)
        self.depth -= 1
        return node

    def _node(self, schema: Any) -> Node:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return Scalar(schema) if schema in PRIMITIVES else self.named[schema]
        kind = schema["type"]
        if kind in PRIMITIVES:
            return _scalar(kind, schema)
        if kind == "array":
            return Array(kind, self.node(schema["items"]))
        if kind == "map":
            return Map(kind, self.node(schema["values"]))
        return self._new(kind, schema["name"], schema)

    def _new(self, kind: str, name: str, schema: Mapping[str, Any]) -> Node:
        aliases = _strings(schema.get("aliases", ()), f"the aliases of {name}")
        named: Named
        if kind == "fixed":
            size = schema["size"]
            if type(size) is not int or size < 0:
                raise _invalid(f"{name} has the size {size!r}")
            named = Fixed(kind, name, aliases, size, _scalar(kind, schema))
        elif kind == "enum":
            symbols = _strings(schema["symbols"], f"the symbols of {name}")
            default = schema.get("default")
            if default is not None and default not in symbols:
                raise _invalid(f"the default {default!r} of {name} is not one of its symbols")
            named = Enum(kind, name, aliases, symbols, default)
        elif kind == "record":
            named = record = Record(kind, name, aliases)
            self.named[name] = named  # its fields may be of its own type
            record.fields.extend(self._field(each) for each in schema["fields"])
            _check_fields(record)
        else:
            raise _invalid(f"{kind!r} is not a type that state can contain")
        self.named[name] = named
        return named

    def _field(self, schema: Mapping[str, Any]) -> Field:
        name = schema["name"]
        aliases = _strings(schema.get("aliases", ()), f"the aliases of {name}")
        default = schema.get("default")
        return Field(name, self.node(schema["type"]), aliases, "default" in schema, default)

    def _union(self, schemas: list[Any]) -> Union:
        union = Union("union", tuple(self.node(each) for each in schemas))
        if not union.branches:
            raise _invalid("a union has no types")
        seen: set[str] = set()
        for branch in union.branches:
            key = branch.name if isinstance(branch, Named) else branch.kind
            if isinstance(branch, Union) or key in seen:
                what = "contains a union" if isinstance(branch, Union) else f"has {branch} twice"
                raise _invalid(f"the union {union} {what}")
            seen.add(key)
        return union


def walk(root: Node) -> list[Node]:
    """Return all nodes of a schema, each once."""
    nodes: list[Node] = []
    left, seen = [root], {id(root)}
    while left:
        node = left.pop()
        nodes.append(node)
        for each in below(node):
            if id(each) not in seen:
                seen.add(id(each))
                left.append(each)
    return nodes


def below(node: Node) -> tuple[Node, ...]:
    """Return the types that a type consists of."""
    if isinstance(node, Record):
        return tuple(each.type for each in node.fields)
    if isinstance(node, Union):
        return node.branches
    if isinstance(node, Array):
        return (node.items,)
    return (node.values,) if isinstance(node, Map) else ()


def is_recursive(root: Node) -> bool:
    """Return whether a type, or a type inside it, contains itself."""
    around: set[int] = set()
    finished: set[int] = set()

    def visit(node: Node) -> bool:
        if id(node) in around:
            return True
        if id(node) in finished:
            return False
        around.add(id(node))
        contains_itself = any(visit(each) for each in below(node))
        around.discard(id(node))
        finished.add(id(node))
        return contains_itself

    return visit(root)


def _scalar(kind: str, schema: Mapping[str, Any]) -> Scalar:
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or f"{kind}-{logical}" not in LOGICAL_READERS:
        return Scalar(kind)
    if logical == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int:
            raise _invalid(f"a decimal has the precision {precision!r} and the scale {scale!r}")
    return Scalar(kind, schema, logical)


def _strings(value: Any, what: str) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise _invalid(f"{what} are not a list of strings")
    return tuple(value)


def _check_fields(record: Record) -> None:
    names: set[str] = set()
    for each in record.fields:
        if each.name in names:
            raise _invalid(f"{record} has the field {each.name} twice")
        names.add(each.name)
