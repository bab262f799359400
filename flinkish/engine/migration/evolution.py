"""Decide whether and how state of one schema becomes state of another, by Avro's rules.

The rules are those of the Avro specification 1.11, "Schema Resolution", on the schemas of
:mod:`flinkish.engine.avro.schemas`, extended to Spark's types that are finer than Avro's (a byte
may become a short), and to decimals that may grow. The verdicts are Flink's
(``TypeSerializerSchemaCompatibility``).

Fields are matched by name. Where a name repeats in a struct, the second is ``name_2`` (see
:func:`flinkish.engine.avro.schemas.unique_names`). A field's path consists of the names of the
fields around it and its own name, joined by dots, with ``element``, ``key`` and ``value`` for the
contents of arrays and maps. A name that is empty or contains a dot or a backquote is put in
backquotes, as in Spark's SQL.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flinkish.annotations import public_evolving
from flinkish.engine.avro.schemas import unique_names
from flinkish.engine.migration.evolution_steps import (
    CannotEvolve,
    Cast,
    FieldOrigin,
    ListSteps,
    MapSteps,
    Recode,
    Same,
    Step,
    StructSteps,
    added,
)
from flinkish.engine.rows.arrow_parts import list_parts, map_parts, null_mask
from flinkish.engine.rows.types import (
    Array,
    Bytes,
    DataType,
    Decimal,
    Field,
    Fixed,
    Map,
    Struct,
    Void,
    arrow_type,
    type_name,
)

#: A number may become any type to its right.
_NUMBERS: Final = ("byte", "short", "integer", "long", "float", "double")
#: Conversions that may make two different numbers equal.
_ROUNDS: Final = {("integer", "float"), ("long", "float"), ("long", "double")}


class EvolutionVerdict(enum.Enum):
    """Compatibility of a new schema with existing state, in Flink's terms."""

    #: The rows' bytes stay valid; names may still differ.
    AS_IS = "compatible as is"
    #: The rows must be rewritten.
    AFTER_MIGRATION = "compatible after migration"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True)
class Problem:
    """Why a schema is incompatible: the field's path, the reason, and advice."""

    path: str
    reason: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}. {self.advice}"


@dataclass(frozen=True)
class Resolution:
    """How rows of one schema become rows of another. Picklable if the defaults and recodes are.

    Attributes
    ----------
    verdict
        Whether the schemas are compatible.
    writer
        The schema of the existing rows.
    reader
        The new schema.
    problems
        The reasons for INCOMPATIBLE; otherwise empty.
    changes
        The changes, one line each.
    parts
        The steps to apply; internal.
    """

    verdict: EvolutionVerdict
    writer: Struct
    reader: Struct
    problems: tuple[Problem, ...]
    changes: tuple[str, ...]
    parts: StructSteps

    def apply(self, batch: Any) -> Any:
        """Convert rows to the reader's schema.

        Parameters
        ----------
        batch
            A ``pyarrow.RecordBatch`` of the writer's schema, its columns taken by position.

        Returns
        -------
        pyarrow.RecordBatch
            Columns that do not change are the same arrays.

        Raises
        ------
        CannotEvolve
            The schemas are incompatible, the batch is not of the writer's schema, or a value has no
            counterpart (a null that is not allowed, bytes that are not UTF-8).
        """
        if self.verdict is EvolutionVerdict.INCOMPATIBLE:
            raise CannotEvolve("; ".join(map(str, self.problems)))
        if batch.num_columns != self.parts.written:
            reason = f"{batch.num_columns} columns in place of {self.parts.written}"
            raise CannotEvolve(f"the rows do not have the declared schema: {reason}")
        none = np.zeros(batch.num_rows, bool)
        columns = self.parts.columns(list(batch.columns), none)
        if not columns:
            empty = pa.Array.from_buffers(pa.struct([]), batch.num_rows, [None], children=[])
            return pa.RecordBatch.from_struct_array(empty)
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(arrow_type(self.reader))))


@public_evolving
def resolve(
    writer: Struct,
    reader: Struct,
    *,
    renames: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    recodes: Mapping[str, Callable[[bytes], bytes]] | None = None,
    check_nulls: bool = False,
    keys: bool = False,
    places: Sequence[int | None] | None = None,
) -> Resolution:
    """Decide how rows of one schema become rows of another.

    Parameters
    ----------
    writer
        The schema of the existing rows.
    reader
        The new schema.
    renames
        Paths of the reader's fields, mapped to those of the writer's fields. A field stays in
        its struct: only the last name of its path may change.
    defaults
        Paths of added fields, and their value in existing rows, as ``pyarrow.array`` accepts it.
        Without a default, a nullable field becomes null, and any other field is a problem.
    recodes
        Paths of the reader's binary fields, and the picklable functions that rewrite their values.
    check_nulls
        Allow a nullable field to become one that is not nullable; a null in the field is an error
        when the rows are converted.
    keys
        The rows are keys, so a change that could make two of them equal is incompatible.
    places
        For each of the reader's fields the index of the writer's field that it comes from, None
        for an added one. With ``places``, the names of these fields mean nothing, and the names of
        nested fields are compared regardless of case, as in Spark.

    Returns
    -------
    Resolution
        For incompatible schemas, no error is raised; the verdict is INCOMPATIBLE.
    """
    resolver = _Resolver(
        dict(renames or {}),
        dict(defaults or {}),
        dict(recodes or {}),
        check_nulls,
        any_case=places is not None,
    )
    parts = resolver.struct(writer, reader, ("", ""), keys, places)
    resolver.unused()
    if resolver.problems:
        verdict = EvolutionVerdict.INCOMPATIBLE
    else:
        verdict = EvolutionVerdict.AFTER_MIGRATION if parts.rewrites else EvolutionVerdict.AS_IS
    problems, changes = tuple(resolver.problems), tuple(resolver.changes)
    return Resolution(verdict, writer, reader, problems, changes, parts)


def join_path(path: str, name: str) -> str:
    """Return the path of a field below another one, as described in the module."""
    if "." in name or "`" in name or not name:
        name = "`" + name.replace("`", "``") + "`"
    return f"{path}.{name}" if path else name


#: The paths of the reader's and the writer's field.
_Paths = tuple[str, str]


@dataclass
class _Resolver:
    """Walks through both schemas and collects problems and changes."""

    renames: dict[str, str]
    defaults: dict[str, Any]
    recodes: dict[str, Callable[[bytes], bytes]]
    check_nulls: bool
    any_case: bool = False
    problems: list[Problem] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)  # paths of settings that matched a field

    def struct(
        self,
        writer: Struct,
        reader: Struct,
        paths: _Paths,
        keys: bool,
        origin_indexes: Sequence[int | None] | None = None,
    ) -> StructSteps:
        """Return the steps for a struct: the origin of each of the reader's fields.

        ``origin_indexes`` are the indexes of the origins if they are not found by name.
        """
        written = unique_names(f.name for f in writer.fields)
        places = {join_path(paths[1], name): index for index, name in enumerate(written)}
        names = unique_names(f.name for f in reader.fields)
        paths_below = [join_path(paths[0], name) for name in names]
        origins = self._origins(paths_below, names, places, paths[1])
        if origin_indexes is not None:
            listed = list(places)
            origins = [None if index is None else listed[index] for index in origin_indexes]
        parts = []
        for path, place, target in zip(paths_below, origins, reader.fields, strict=True):
            if place is None:
                parts.append(self._added(path, target))
            else:
                index = places[place]
                parts.append(self._kept(writer.fields[index], target, index, (path, place), keys))
        used = {part.source for part in parts}
        for place, index in places.items():
            if index not in used:
                self._removed(place, keys)
        order = [part.source for part in parts if part.source is not None]
        if order != sorted(order):
            self.changes.append(f"{paths[0] or 'the row'}: fields in another order")
        return StructSteps(reader, tuple(parts), len(writer.fields))

    def _origins(
        self, paths: list[str], names: Sequence[str], places: Mapping[str, int], inside: str
    ) -> list[str | None]:
        """Return the path of the writer's field for each of the reader's, None for an added one."""
        renamed = self._renamed(paths, places)
        free = [place for place in places if place not in renamed.values()]
        same = [join_path(inside, name) for name in names]
        origins: list[str | None] = []
        for path, wanted in zip(paths, same, strict=True):
            place = renamed.get(path, wanted if wanted in free else None)
            if place is None and self.any_case:
                alike = [p for p in free if p.casefold() == wanted.casefold() and p not in same]
                # Each old field has one successor; a second new field like it is an added one.
                place = alike[0] if len(alike) == 1 and alike[0] not in origins else None
            origins.append(place)
        return origins

    def _renamed(self, names: list[str], places: Mapping[str, int]) -> dict[str, str]:
        """Return the reader's renamed fields, mapped to the writer's fields, by their paths."""
        renamed: dict[str, str] = {}
        for path in names:
            if path not in self.renames:
                continue
            self.seen.add(path)
            place = self.renames[path]
            if place not in places:
                there = ", ".join(places) or "none"
                reason = (
                    f"it is declared as renamed from {place}, which is not a field of its struct"
                )
                self._problem(path, reason, f"Name one of the existing fields: {there}")
            elif place in renamed.values():
                self._problem(path, f"{place} is renamed to another field too", "Rename it once")
            else:
                renamed[path] = place
                self.changes.append(f"{path}: renamed from {place}")
        return renamed

    def _removed(self, place: str, keys: bool) -> None:
        self.changes.append(f"{place}: removed")
        if keys:
            reason = "it is removed from a key, so that two keys may become equal"
            self._problem(place, reason, "Keep the field")

    def _added(self, path: str, target: Field) -> FieldOrigin:
        default = None
        if path in self.defaults:
            self.seen.add(path)
            default = self.defaults[path]
            self._check_default(path, target, default)
        elif not target.nullable:
            self._problem(
                path,
                "it is added and not nullable, but existing rows have no value for it",
                "Make it nullable, give it a default, or declare which field it was renamed from",
            )
        self.changes.append(f"{path}: added, {'null' if default is None else repr(default)}")
        return FieldOrigin(path, target.type, None, Same(), default)

    def _check_default(self, path: str, target: Field, default: Any) -> None:
        try:
            array = added(target.type, default, 1)
        except CannotEvolve as error:
            self._problem(path, str(error), f"Give a default of the type {type_name(target.type)}")
            return
        if (array.null_count and not target.nullable) or _null_below(target.type, array):
            reason = f"the default {default!r} has a null where none may be"
            self._problem(path, reason, "Give a default without it")

    def _kept(
        self, written: Field, target: Field, index: int, paths: _Paths, keys: bool
    ) -> FieldOrigin:
        path = paths[0]
        step = self.type(written.type, target.type, paths, keys)
        check = written.nullable and not target.nullable
        if check:
            self.changes.append(f"{path}: may no longer be null")
            if not self.check_nulls:
                self._problem(
                    path,
                    "it may be null in existing rows, but not in the new schema",
                    "Keep it nullable, or request a check of the rows if there are no nulls",
                )
        return FieldOrigin(path, target.type, index, step, check=check)

    def type(self, written: DataType, target: DataType, paths: _Paths, keys: bool) -> Step:
        """Return the step from one type to another; record a problem where there is none."""
        step = self._nested(written, target, paths, keys)
        if step is not None:
            same = not step.rewrites and arrow_type(written) == arrow_type(target)
            return Same() if same else step
        if paths[0] in self.recodes and written == target == Bytes(text=False):
            self.seen.add(paths[0])
            self.changes.append(f"{paths[0]}: its values are rewritten")
            return Recode(paths[0], self.recodes[paths[0]])
        if written == target:
            return Same()
        reason = _refused(written, target, keys)
        if reason is None:
            self.changes.append(f"{paths[0]}: {type_name(written)} becomes {type_name(target)}")
            return Cast(target, paths[0])
        advice = "Keep the type, or add a field of the new type under another name"
        self._problem(paths[0], reason, advice)
        return Same()

    def _nested(
        self, written: DataType, target: DataType, paths: _Paths, keys: bool
    ) -> Step | None:
        """Return the step between two structs, arrays or maps; None for everything else."""

        def below(name: str) -> _Paths:
            return f"{paths[0]}.{name}", f"{paths[1]}.{name}"

        if isinstance(written, Struct) and isinstance(target, Struct):
            return self.struct(written, target, paths, keys)
        if isinstance(written, Array) and isinstance(target, Array):
            step = self.type(written.element, target.element, below("element"), keys)
            return ListSteps(target, step)
        if isinstance(written, Map) and isinstance(target, Map):
            # The keys of a map must not become equal, wherever the map is.
            key = self.type(written.key, target.key, below("key"), True)
            value = self.type(written.value, target.value, below("value"), keys)
            return MapSteps(target, key, value)
        return None

    def unused(self) -> None:
        """Record a problem for each rename, default and recode that matches no field."""
        for path in self.renames:
            if path not in self.seen:
                reason = "it is declared as renamed, but is not a field of the new schema"
                self._problem(path, reason, "Name a field of the new schema by its whole path")
        for path in self.defaults:
            if path not in self.seen:
                reason = "it has a default, but is not an added field"
                self._problem(path, reason, "Leave the default out, or correct the path")
        for path in self.recodes:
            if path not in self.seen:
                reason = (
                    "its values should be rewritten, but it is not a binary field in both schemas"
                )
                self._problem(path, reason, "Name a binary field by its whole path")

    def _problem(self, path: str, reason: str, advice: str) -> None:
        self.problems.append(Problem(path, reason, f"{advice}."))


def _refused(written: DataType, target: DataType, keys: bool) -> str | None:
    """Return why values of one type cannot become values of another; None if they can."""
    both = f"{type_name(written)} cannot become {type_name(target)}"
    if isinstance(written, Void):
        return None  # there are only nulls
    if isinstance(written, Bytes) and isinstance(target, Bytes):
        return None
    if isinstance(written, Decimal) and isinstance(target, Decimal):
        more = target.scale - written.scale
        if more < 0:
            return f"{both}, which has fewer digits after the decimal point"
        if target.precision - written.precision < more:
            return f"{both}, which has fewer digits before the decimal point"
        return None
    if not isinstance(written, Fixed) or not isinstance(target, Fixed):
        return both
    if written.name not in _NUMBERS or target.name not in _NUMBERS:
        return both
    if _NUMBERS.index(written.name) > _NUMBERS.index(target.name):
        return f"{both}, which is narrower"
    if keys and (written.name, target.name) in _ROUNDS:
        return f"{both} in a key, as two of them may become equal"
    return None


def _null_below(data_type: DataType, array: Any) -> bool:
    """Return whether a struct within the values has a null in a field that is not nullable."""
    if isinstance(data_type, Array):
        return _null_below(data_type.element, list_parts(array)[1])
    if isinstance(data_type, Map):
        _, keys, items = map_parts(array)
        return _null_below(data_type.key, keys) or _null_below(data_type.value, items)
    if not isinstance(data_type, Struct):
        return False
    present = ~null_mask(array)
    for index, part in enumerate(data_type.fields):
        child = array.field(index)
        if not part.nullable and (null_mask(child) & present).any():
            return True
        if _null_below(part.type, child):
            return True
    return False
