"""Evolutions of a schema, each said twice: as the engine takes it, and as SQL on the old rows.

:func:`evolve` walks a schema by rules that know nothing of the engine's own resolution and gives
both; Spark then tells whether they mean the same.
"""

from __future__ import annotations

import decimal
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flinkish.engine.avro.schemas import unique_names
from flinkish.engine.migration.evolution import join_path

WIDER: Final = "wider"
NESTED: Final = "nested"
NULLS: Final = "nulls"
ADDED: Final = "added"
DROPPED: Final = "dropped"
RENAMED: Final = "renamed"
#: name -> what changes.
RULES: Final[dict[str, frozenset[str]]] = {
    "wider": frozenset({WIDER, NESTED}),
    "columns": frozenset({ADDED, DROPPED, RENAMED}),
    "all": frozenset({WIDER, NESTED, ADDED, DROPPED, RENAMED}),
}
#: Of keys: what cannot make two of them equal.
KEY_RULE: Final = frozenset({WIDER, NULLS})
_WIDER: Final = {
    "byte": "short",
    "short": "integer",
    "integer": "long",
    "long": "double",
    "float": "double",
    "void": "string",
}
_SQL: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True)
class Evolved:
    """A struct's new schema, and what the rows there are become.

    Attributes:
        schema: JSON of the new ``StructType``.
        sql: the new struct as an expression over the old one.
        renames, defaults: as :class:`~flinkish.engine.migration.migration_planner.FamilyChange` has
        them.
    """

    schema: dict[str, Any]
    sql: str
    renames: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)


def evolve(
    schema: Mapping[str, Any],
    column: str,
    rule: frozenset[str],
    *,
    inside: str = "",
    keep: tuple[str, ...] = (),
) -> Evolved:
    """Evolve a struct.

    Args:
        schema: JSON of its ``StructType``.
        column: the column that has it, in SQL.
        rule: what changes; NULLS are columns that are added without a default.
        inside: only this field of it, a struct, changes.
        keep: fields that stay what they are; they come last where they did.
    """
    places = [f"c{i}" for i in range(len(schema["fields"]))]
    # Names may repeat: by a cast, which goes by place, they become names that do not.
    types = zip(places, schema["fields"], strict=True)
    numbered = ", ".join(f"{place}: {sql_type(f['type'])}" for place, f in types)
    walk = _Walk(rule)
    row = f"CAST({column} AS struct<{numbered}>)"
    fields = [f"{row}.{place}" for place in places]
    new, sql = walk.struct(schema, fields, ("", ""), inside, keep)
    return Evolved(new, sql, walk.renames, walk.defaults)


def sql_type(data_type: Any) -> str:
    """A type as SQL writes it."""
    if isinstance(data_type, str):
        return _SQL.get(data_type, data_type)
    if data_type["type"] == "struct":
        fields = (f"`{f['name']}`: {sql_type(f['type'])}" for f in data_type["fields"])
        return f"struct<{', '.join(fields)}>"
    if data_type["type"] == "array":
        return f"array<{sql_type(data_type['elementType'])}>"
    return f"map<{sql_type(data_type['keyType'])}, {sql_type(data_type['valueType'])}>"


def _field(name: str, data_type: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": {}}


#: name, type, nullable, default, the default in SQL; the first stands before the others' fields.
_NEW: Final[tuple[tuple[str, Any, bool, Any, str], ...]] = (
    ("note", "string", True, None, "CAST(NULL AS string)"),
    ("amount", "decimal(20,2)", True, decimal.Decimal("1.25"), "CAST(1.25 AS decimal(20,2))"),
    ("label", "string", False, "é€😀", "'é€😀'"),
    ("many", "long", False, -7, "-7L"),
    ("list", {"type": "array", "elementType": "integer", "containsNull": True}, True, [1, None],
     "array(1, CAST(NULL AS int))"),
)  # fmt: skip
_INNER: Final[tuple[tuple[str, Any, bool, Any, str], ...]] = (
    ("inner", "integer", True, 5, "5"),
    ("none", "double", True, None, "CAST(NULL AS double)"),
)
_New = tuple[dict[str, Any], str, int | None, Any]


class _Walk:
    def __init__(self, rule: frozenset[str]) -> None:
        self._rule = rule
        self._names: Iterator[int] = itertools.count()
        self.renames: dict[str, str] = {}
        self.defaults: dict[str, Any] = {}

    def struct(
        self,
        schema: Mapping[str, Any],
        columns: list[str],
        paths: tuple[str, str],
        inside: str,
        keep: tuple[str, ...],
    ) -> tuple[dict[str, Any], str]:
        """The outermost struct; ``columns`` are its fields in SQL."""
        fields = schema["fields"]
        if inside:
            return self._inside(schema, columns, inside)
        free = [i for i, f in enumerate(fields) if f["name"] not in keep]
        kept = [i for i in range(len(fields)) if i not in free]
        assert kept == sorted(kept)
        assert not kept or not free or free[-1] < kept[0]
        dropped = free[-1] if DROPPED in self._rule and len(free) > 2 else None
        new: list[_New] = []
        for index in free:
            if index != dropped:
                renamed = RENAMED in self._rule and index == free[0]
                name = fields[index]["name"] + ("_new" if renamed else "")
                new.append(({**fields[index], "name": name}, columns[index], index, None))
        if ADDED in self._rule:
            more = [(_field(n, t, null), sql, None, d) for n, t, null, d, sql in _NEW]
            new = [more[0], *new, *more[1:]]
        if NULLS in self._rule:
            new += [(_field(n, t, null), sql, None, d) for n, t, null, d, sql in _NEW if d is None]
        new += [(fields[i], columns[i], i, None) for i in kept]
        return self._built(fields, new, paths, frozenset(kept))

    def _inside(
        self, schema: Mapping[str, Any], columns: list[str], inside: str
    ) -> tuple[dict[str, Any], str]:
        fields, sqls = [], []
        for part, column in zip(schema["fields"], columns, strict=True):
            data_type, sql = part["type"], column
            if part["name"] == inside:
                below = [f"{column}.`{f['name']}`" for f in data_type["fields"]]
                data_type, made = self.struct(data_type, below, (inside, inside), "", ())
                sql = f"IF({column} IS NULL, NULL, {made})"
            fields.append({**part, "type": data_type})
            sqls.append((part["name"], sql))
        return {**schema, "fields": fields}, _named_struct(sqls)

    def _built(
        self,
        fields: list[dict[str, Any]],
        new: list[_New],
        paths: tuple[str, str],
        kept: frozenset[int] = frozenset(),
    ) -> tuple[dict[str, Any], str]:
        before = unique_names(f["name"] for f in fields)
        after = unique_names(f["name"] for f, *_ in new)
        made, sqls = [], []
        for name, (part, column, index, default) in zip(after, new, strict=True):
            path = join_path(paths[0], name)
            sql, data_type = column, part["type"]
            if index is None:
                if default is not None:
                    self.defaults[path] = default
            else:
                old = join_path(paths[1], before[index])
                if name != before[index]:
                    self.renames[path] = old
                if index not in kept:
                    data_type, sql = self._type(part["type"], column, (path, old))
            made.append({**part, "type": data_type})
            sqls.append((part["name"], sql))
        return {"type": "struct", "fields": made}, _named_struct(sqls)

    def _type(self, data_type: Any, column: str, paths: tuple[str, str]) -> tuple[Any, str]:
        if isinstance(data_type, str):
            wider = self._wider(data_type)
            return wider, column if wider == data_type else f"CAST({column} AS {sql_type(wider)})"

        def below(name: str) -> tuple[str, str]:
            return f"{paths[0]}.{name}", f"{paths[1]}.{name}"

        kind = data_type["type"]
        name = f"x{next(self._names)}"
        if kind == "struct":
            fields = data_type["fields"]
            new: list[_New] = [
                (f, f"{column}.`{f['name']}`", i, None) for i, f in enumerate(fields)
            ]
            if NESTED in self._rule:
                new += [(_field(n, t, null), sql, None, d) for n, t, null, d, sql in _INNER]
            made, sql = self._built(fields, new, paths)
            return made, f"IF({column} IS NULL, NULL, {sql})"
        if kind == "array":
            element, sql = self._type(data_type["elementType"], name, below("element"))
            return {**data_type, "elementType": element}, f"transform({column}, {name} -> {sql})"
        assert kind == "map", data_type
        # Of a map's keys only such as cannot become equal may change.
        value, sql = self._type(data_type["valueType"], name, below("value"))
        made = {**data_type, "valueType": value}
        return made, f"transform_values({column}, (k_{name}, {name}) -> {sql})"

    def _wider(self, name: str) -> str:
        if WIDER not in self._rule:
            return name
        number = _DECIMAL.fullmatch(name)
        if number:
            return f"decimal({min(38, int(number[1]) + 12)},{int(number[2]) + 2})"
        return _WIDER.get(name, name)


def _named_struct(fields: list[tuple[str, str]]) -> str:
    return f"named_struct({', '.join(f'{name!r}, {sql}' for name, sql in fields)})"
