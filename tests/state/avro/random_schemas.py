"""Random Avro schemas, changes of them, and values: for fastavro as the oracle of resolution.

A schema is drawn as a tree in which a named type stands wherever it is used; ``finish`` writes it
once and refers to it by name elsewhere. ``values`` writes a union's values as fastavro's pairs of
type and value, so that every type of a union is really written.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from flinkish.state.avro.schemas import (
    Array,
    Enum,
    Fixed,
    Map,
    Named,
    Node,
    Record,
    Scalar,
    Union,
)

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NUMBERS = ("int", "long", "float", "double")
DEFAULTS: dict[str, Any] = {"null": None, "boolean": True, "int": 3, "long": -5, "string": "dflt"}
LOGICALS = (
    ("int", "date"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("bytes", "decimal"),
)
SAMPLES: dict[str, tuple[Any, ...]] = {
    "null": (None,),
    "boolean": (True, False),
    "int": (0, -1, 2**31 - 1, 16_777_217),
    "long": (0, 2**40, -(2**63), 2**53 + 1),
    "float": (0.0, 1.5, -2.75),
    "double": (0.0, 0.1, -1e300),
    "bytes": (b"", "täxt".encode()),
    "string": ("", "täxt"),
}


class Names:
    """Gives types and fields names that no other has, and says how many changes are left."""

    def __init__(self) -> None:
        self.count = 0
        self.changes = 0

    def next(self, beginning: str) -> str:
        self.count += 1
        return f"{beginning}{self.count}"


@st.composite
def trees(draw: st.DrawFn, names: Names, depth: int, tricky: bool) -> Any:
    kinds = ["primitive"] * 3
    if depth:
        kinds += ["record", "array", "map", "union", "union", "enum", "fixed"]
    if tricky:
        kinds += ["logical"]
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "logical":
        of, name = draw(st.sampled_from(LOGICALS))
        more = {"precision": 18, "scale": 2} if name == "decimal" else {}
        return {"type": of, "logicalType": name, **more}
    if kind == "enum":
        count = draw(st.integers(1, 4))
        return {"type": "enum", "name": names.next("E"), "symbols": [*"ABCD"[:count]]}
    if kind == "fixed":
        return {"type": "fixed", "name": names.next("F"), "size": draw(st.integers(0, 3))}
    if kind == "array":
        return {"type": "array", "items": draw(trees(names, depth - 1, tricky))}
    if kind == "map":
        return {"type": "map", "values": draw(trees(names, depth - 1, tricky))}
    if kind == "union":
        count = draw(st.integers(1, 3))
        return as_union([draw(trees(names, depth - 1, tricky)) for _ in range(count)], tricky)
    return draw(records(names, depth, tricky))


@st.composite
def records(draw: st.DrawFn, names: Names, depth: int, tricky: bool) -> Any:
    made: dict[str, Any] = {"type": "record", "name": names.next("R"), "fields": []}
    for _ in range(draw(st.integers(0, 3))):
        of = draw(trees(names, depth - 1, tricky))
        if draw(st.integers(0, 9)) == 0:
            of = {"type": "array", "items": {"again": made["name"]}}
        made["fields"].append({"name": names.next("f"), "type": of})
    return made


def family(tree: Any) -> str:
    """What no two types of a union have in common, unless the union is tricky."""
    kind = tree["type"] if isinstance(tree, dict) else tree
    return "number" if kind in NUMBERS else "text" if kind in ("string", "bytes") else str(kind)


def as_union(branches: list[Any], tricky: bool) -> list[Any]:
    found: dict[str, Any] = {}
    for each in branches:
        if isinstance(each, list) or (isinstance(each, dict) and "again" in each):
            continue
        kind = each["type"] if isinstance(each, dict) else each
        key = each["name"] if tricky and "name" in each and isinstance(each, dict) else kind
        found.setdefault(key if tricky else family(each), each)
    return list(found.values()) or ["null"]


@st.composite
def changed(draw: st.DrawFn, tree: Any, names: Names, depth: int, tricky: bool) -> Any:
    """The tree with the few changes that ``names`` still has: many would hide each other."""

    def change(one_in: int) -> bool:
        if names.changes <= 0 or draw(st.integers(1, one_in)) > 1:
            return False
        names.changes -= 1
        return True

    if change(12 if isinstance(tree, dict) else 4):
        return draw(_replaced(tree, names, depth, tricky))
    if isinstance(tree, list):
        branches = [draw(changed(each, names, depth, tricky)) for each in tree]
        if change(2):
            branches = draw(st.permutations(branches))
        if change(3):
            branches = [*branches, draw(trees(names, 0, tricky))]
        if len(branches) > 1 and change(5):
            branches = branches[1:]
        return as_union(branches, tricky)
    if not isinstance(tree, dict) or "again" in tree or "logicalType" in tree:
        return copy.deepcopy(tree)
    made: dict[str, Any] = {**tree}
    for inner in ("items", "values"):
        if inner in made:
            made[inner] = draw(changed(made[inner], names, depth - 1, tricky))
    if "name" in made and change(4):
        made["name"] = names.next("N")
        if draw(st.booleans()):
            made["aliases"] = [tree["name"]]
    if made["type"] == "enum":
        if change(2):
            made["symbols"] = draw(st.lists(st.sampled_from("ABCDX"), min_size=1, unique=True))
        if draw(st.booleans()):
            made["default"] = made["symbols"][0]
    if made["type"] == "fixed" and change(3):
        made["size"] += 1
    if made["type"] == "record":
        made["fields"] = draw(_changed_fields(made["fields"], names, depth, tricky, change))
    return made


@st.composite
def _replaced(draw: st.DrawFn, tree: Any, names: Names, depth: int, tricky: bool) -> Any:
    way = draw(st.sampled_from(["promote", "promote", "other number", "optional", "other"]))
    if way == "other number" and tree in NUMBERS:
        return draw(st.sampled_from(NUMBERS))
    if way == "promote" and isinstance(tree, str):
        wider = {"int": NUMBERS[1:], "long": NUMBERS[2:], "float": NUMBERS[3:]}
        texts = {"string": ("bytes",), "bytes": ("string",)}
        return draw(st.sampled_from({**wider, **texts}.get(tree, PRIMITIVES)))
    if way == "optional" and not isinstance(tree, list):
        return as_union(["null", tree], tricky)
    if way == "promote" and isinstance(tree, list):
        return draw(st.sampled_from(tree))
    return draw(trees(names, max(depth - 1, 0), tricky))


@st.composite
def _changed_fields(
    draw: st.DrawFn,
    fields: list[Any],
    names: Names,
    depth: int,
    tricky: bool,
    change: Callable[[int], bool],
) -> Any:
    made = []
    for each in fields:
        way = draw(st.sampled_from(["drop", "rename", "lose"])) if change(4) else "keep"
        if way == "drop":
            continue
        field = {**each, "type": draw(changed(each["type"], names, depth - 1, tricky))}
        if way in ("rename", "lose"):
            field["name"] = names.next("n")
            field["aliases"] = [each["name"]] if way == "rename" else []
        made.append(field)
    if change(3):
        kind = draw(st.sampled_from(sorted(DEFAULTS)))
        added = {"name": names.next("a"), "type": kind}
        if draw(st.integers(0, 2)):
            added["default"] = DEFAULTS[kind]
        made.append(added)
    return draw(st.permutations(made)) if change(4) else made


def finish(tree: Any, seen: set[str] | None = None) -> Any:
    """Write every named type once."""
    seen = set() if seen is None else seen
    if isinstance(tree, list):
        return [finish(each, seen) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if "again" in tree:
        return tree["again"] if tree["again"] in seen else "int"
    made = {**tree}
    if "name" in made:
        if made["name"] in seen:
            return made["name"]
        seen.add(made["name"])
    for inner in ("items", "values"):
        if inner in made:
            made[inner] = finish(made[inner], seen)
    if "fields" in made:
        made["fields"] = [{**f, "type": finish(f["type"], seen)} for f in made["fields"]]
    return made


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any, bool]:
    """A schema, what may have become of it, and whether they may meet fastavro's deviations."""
    tricky = draw(st.integers(0, 3)) == 0
    names = Names()
    writer = draw(records(names, 3, tricky) if draw(st.integers(0, 3)) else trees(names, 3, tricky))
    if draw(st.integers(0, 19)) == 0:
        reader = draw(trees(names, 2, tricky))
    else:
        names.changes = draw(st.sampled_from([1, 1, 1, 2, 3]))
        reader = draw(changed(writer, names, 3, tricky))
    return finish(writer), finish(reader), tricky


def values(node: Node, depth: int = 4) -> list[Any]:
    """Values that together have every type of every union, every symbol, every field's values."""
    if isinstance(node, Union):
        return [(_tag(each), value) for each in node.branches for value in values(each, depth)]
    if isinstance(node, Enum):
        return list(node.symbols)
    if isinstance(node, Fixed):
        return [b"\x01" * node.size]
    if isinstance(node, Scalar):
        return list(_scalars(node))
    inner: list[Any] = []
    if isinstance(node, Array):
        inner = values(node.items, depth - 1)[:40] if depth > 0 else []
        return [[], *([each] for each in inner), inner[:2]]
    if isinstance(node, Map):
        inner = values(node.values, depth - 1)[:40] if depth > 0 else []
        return [{}, *({"k": each} for each in inner)]
    assert isinstance(node, Record)
    if depth < -8:
        return []
    each_field = {f.name: values(f.type, depth - 1) for f in node.fields}
    if not all(each_field.values()):
        return []
    first = {name: found[0] for name, found in each_field.items()}
    return [first, *({**first, n: v} for n, found in each_field.items() for v in found[1:])]


def _tag(node: Node) -> str:
    return node.name if isinstance(node, Named) else node.kind


def _scalars(node: Scalar) -> tuple[Any, ...]:
    from datetime import date, datetime, timezone
    from decimal import Decimal

    if node.logical == "date":
        return (date(1970, 1, 1), date(2024, 2, 29))
    if node.logical.startswith("timestamp"):
        return (datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=timezone.utc),)
    if node.logical == "decimal":
        return (Decimal("12.25"), Decimal("-0.01"))
    return SAMPLES[node.kind]
