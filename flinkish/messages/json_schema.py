"""JSON Schema of the documents that :mod:`.codec` writes, made from their types. Pure.

A document is a dataclass or a ``TypedDict``; each may contain the other, and all types that the
codec knows. What a schema says about a field comes from the type's docstring (its sections
``Parameters`` and ``Attributes``) and from ``Annotated``, where a text is the field's description,
and a :class:`Format` its format.

A schema accepts unknown keys, because a later flinkish may add some. If a document may have one of
several types, the schema of each type refuses the keys that it lacks and another type requires. It
accepts keys that are optional in another type, because a later flinkish may add them to this type.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from flinkish.messages.codec import key_of

#: The dialect of the schemas.
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}

Schema = dict[str, Any]


class Format(str):
    """The ``format`` of a text in ``Annotated``, such as ``date-time``."""


def schema_of(documents: Sequence[type], envelope: type, *, title: str) -> Schema:
    """Return the schema of a document that has one of several types.

    Parameters
    ----------
    documents
        Dataclasses or TypedDicts, the most frequent first.
    envelope
        A TypedDict of the keys that all of them have.
    title
        What the document is.

    Raises
    ------
    TypeError
        A field has a type that the codec does not know, or two types have one name.
    """
    definitions = _Definitions()
    bodies = [definitions.body(document, envelope) for document in documents]
    keys = {key for body in bodies for key in body["required"]}
    for body in bodies:
        others = sorted(keys - body["properties"].keys())
        body["properties"].update(dict.fromkeys(others, False))
    head: Schema = {"$schema": DIALECT, "title": title}
    whole = bodies[0] if len(bodies) == 1 else {"anyOf": bodies}
    return {**head, **whole, **({"$defs": definitions.types} if definitions.types else {})}


def members(document: type) -> Iterator[tuple[str, Any, bool]]:
    """Yield the key and type of each field of a document's type, and whether it is always there."""
    hints = get_type_hints(document, include_extras=True)
    if is_dataclass(document):
        for each in fields(document):
            yield key_of(each), hints[each.name], not each.metadata.get("omit_default")
        return
    required: frozenset[str] = getattr(document, "__required_keys__")  # noqa: B009 - of TypedDict
    yield from ((key, hint, key in required) for key, hint in hints.items())


def summary(document: type) -> str:
    """Return the first sentence of a document's description, without its full stop."""
    return _described(document).get("", "").partition(". ")[0].rstrip(".")


class _Definitions:
    """The schemas of the types within a document, by their names."""

    def __init__(self) -> None:
        self.types: dict[str, Schema] = {}
        self._classes: dict[str, type] = {}

    def body(self, document: type, envelope: type | None = None) -> Schema:
        """Return the schema of an object of one type."""
        texts = _described(document)
        own = list(members(document))
        names = {key: key for key, _, _ in own}
        if is_dataclass(document):
            names = {key_of(each): each.name for each in fields(document)}
        properties: Schema = {}
        for key, kind, _ in own:
            text = texts.get(names[key])
            properties[key] = ({"description": text} if text else {}) | self.of(kind)
        outer = [] if envelope is None else list(members(envelope))
        properties.update({key: self.of(kind) for key, kind, _ in outer if key not in properties})
        required = [key for key, _, always in (*outer, *own) if always]
        return {
            **({"description": texts[""]} if texts.get("") else {}),
            "type": "object",
            "properties": properties,
            "required": required,
        }

    def of(self, kind: Any) -> Schema:
        """Return the schema of a field's type."""
        if kind is Any or kind is object:
            return {}
        if isinstance(kind, type) and get_origin(kind) is None:
            return self._of_class(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._annotated(arguments[0], arguments[1:])
        if origin in (Union, types.UnionType):
            return self._one_of(arguments)
        if origin is Literal:
            return {"enum": list(arguments)}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if origin is tuple and arguments[-1] is not Ellipsis:
            items = [self.of(each) for each in arguments]
            return {
                "type": "array",
                "prefixItems": items,
                "minItems": len(items),
                "maxItems": len(items),
            }
        if isinstance(origin, type) and issubclass(origin, Sequence):
            return {"type": "array", "items": self.of(arguments[0])}
        raise TypeError(f"the codec does not know the type {kind}")

    def _of_class(self, kind: type) -> Schema:
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if issubclass(kind, Enum):
            return {"enum": [each.value for each in kind]}
        if not (is_dataclass(kind) or hasattr(kind, "__required_keys__")):
            raise TypeError(f"the codec does not know the type {kind}")
        name = kind.__name__.removeprefix("_")
        if self._classes.setdefault(name, kind) is not kind:
            raise TypeError(f"two types are called {name}: {kind} and {self._classes[name]}")
        if name not in self.types:
            self.types[name] = {}  # it may contain itself
            self.types[name].update(self.body(kind))
        return {"$ref": f"#/$defs/{name}"}

    def _annotated(self, kind: Any, notes: Sequence[Any]) -> Schema:
        schema = self.of(kind)
        for note in notes:
            key = "format" if isinstance(note, Format) else "description"
            schema = {**schema, key: str(note)}
        return schema

    def _one_of(self, kinds: Sequence[Any]) -> Schema:
        schemas = [self.of(kind) for kind in kinds if kind is not type(None)]
        if len(schemas) < len(kinds):
            if len(schemas) == 1 and "type" in schemas[0]:
                return {**schemas[0], "type": [schemas[0]["type"], "null"]}
            schemas.append({"type": "null"})
        if all(schema.keys() == {"type"} for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}


def _described(document: type) -> Mapping[str, str]:
    """Return a docstring's text on each field, by name, and its first paragraph under ``""``."""
    text = document.__dict__.get("__doc__") or ""
    if text.startswith(f"{document.__name__}("):  # dataclass has made it from the signature
        return {}
    lines = inspect.cleandoc(text).split("\n")
    described = {"": " ".join(_paragraph(lines))}
    for at, line in enumerate(lines):
        if line in ("Attributes", "Parameters") and set("".join(lines[at + 1 : at + 2])) == {"-"}:
            described |= _fields(lines[at + 2 :])
    return described


def _paragraph(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if not line.strip():
            return
        yield _plain(line.strip())


def _fields(lines: Sequence[str]) -> Mapping[str, str]:
    described: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if not line.strip():
            break
        if not line.startswith(" "):
            names = [name.strip() for name in line.partition(" :")[0].split(",")]
            continue
        for name in names:
            described[name] = f"{described.get(name, '')} {_plain(line.strip())}".strip()
    return described


def _plain(text: str) -> str:
    """Return a line of a docstring without the marks of its references and literals."""
    return re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text).replace("``", "")
