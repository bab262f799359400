"""Convert stream-stream joins from one state format to another. Pure decisions.

Source: ``SymmetricHashJoinStateManager``; its ``V1`` has formats 1 and 2, its ``V2`` format 3. For
each side, formats 1 to 3 have ``keyToNumValues``, the number of rows of each key, and
``keyWithIndexToValue``, the rows by key and index. The indexes of a key are 0, 1, 2 ... Formats 1
and 2 have a store for each of these four, format 3 has one store with four column families. Format
1 lacks the last column of a row, which says whether the row was matched.

Format 4 (``SymmetricHashJoinStateManagerV4``) has one store, with two families for each side:
``keyWithTsToValues`` has a list of the rows of each key and time, ``tsWithKey`` a list of as many
empty rows, by time and key. The time is that of the join key where a join key is the event time of
either input, otherwise the row's event time. Where neither exists the time is a random number below
1024, and ``tsWithKey`` is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from flinkish.checkpoint.format.names import DEFAULT_STORE, HDFS, JOIN_STORES
from flinkish.engine.errors import CannotMigrate
from flinkish.engine.migration.migration_plan import (
    EventTime,
    FamilyMigration,
    JoinLayout,
    JoinRegrouping,
    RowForm,
    StoreMigration,
)
from flinkish.engine.rows.encodings import NO_PREFIX, TIMESTAMP_POSTFIX, TIMESTAMP_PREFIX

SIDES: Final = ("left", "right")
#: The column families of format 4, in Spark's order.
JOIN_FAMILIES_4: Final = tuple(
    f"{side}-{made.value}" for side in SIDES for made in (JoinLayout.LISTS, JoinLayout.TIMES)
)
_FORMATS: Final = ("1", "2", "3", "4")
_ENCODERS: Final = {
    JoinLayout.INDEXED: NO_PREFIX,
    JoinLayout.COUNTS: NO_PREFIX,
    JoinLayout.LISTS: TIMESTAMP_POSTFIX,
    JoinLayout.TIMES: TIMESTAMP_PREFIX,
}
#: Key that the watermark leaves in a column's metadata (``EventTimeWatermark.delayKey``).
_WATERMARK: Final = "spark.watermarkDelayMs"
_TIMES: Final = ("timestamp", "timestamp_ntz")


def _column(name: str, data_type: str) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": True, "metadata": {}}


_INDEX: Final = _column("index", "long")
_EVENT_TIME: Final = _column("__event_time", "long")
COUNT_VALUE: Final = {"type": "struct", "fields": [_column("value", "long")]}
TIMES_VALUE: Final = {"type": "struct", "fields": [_column("__dummy__", "void")]}


def is_join(name: str | None, families: Sequence[str]) -> bool:
    """Return whether an operator is a join, by Spark's name for it or by its stores or families."""
    return name == "symmetricHashJoin" or set(families) in ({*JOIN_STORES}, {*JOIN_FAMILIES_4})


def join_moves(
    stores: Sequence[StoreMigration], old: str, new: str, backend: str, what: str
) -> tuple[StoreMigration, ...]:
    """Return the migrations of a join's stores to another format.

    ``stores`` are the migrations of the stores within the old format, which already add or drop the
    flag that format 1 lacks.

    Raises CannotMigrate if a format is unknown or not possible in the backend, the state is not of
    the old format, the key's columns change together with a change from or to format 4, or the
    times that format 4 needs are unknown.
    """
    if old not in _FORMATS or new not in _FORMATS:
        raise CannotMigrate(
            f"joins of state format {old} cannot become format {new}: formats 1 to 4 exist"
        )
    if new in {"3", "4"} and backend == HDFS:
        raise CannotMigrate(f"joins of state format {new} need RocksDB")
    moves = {
        f.source if move.source == DEFAULT_STORE else move.source: (move.source, f)
        for move in stores
        for f in move.families
    }
    expected = set(JOIN_FAMILIES_4) if old == "4" else set(JOIN_STORES)
    if set(moves) != expected or (len(stores) > 1) != (old in {"1", "2"}):
        raise CannotMigrate(f"the state of {what} is not that of a join of format {old}")
    if "4" in (old, new):
        return _regrouped(moves, old, new, what)
    if {old, new} == {"1", "2"}:
        return tuple(stores)
    return tuple(
        _store(moves[name][0], name, new, replace(moves[name][1], target=name))
        for name in JOIN_STORES
    )


def _store(source: str, name: str, new: str, family: FamilyMigration) -> StoreMigration:
    if new in {"1", "2"}:
        return StoreMigration(source, name, (family,))
    encoder = family.after.encoder or _encoder(NO_PREFIX)
    after = replace(family.after, encoder=encoder)
    return StoreMigration(source, DEFAULT_STORE, (replace(family, target=name, after=after),))


def _regrouped(
    moves: Mapping[str, tuple[str, FamilyMigration]], old: str, new: str, what: str
) -> tuple[StoreMigration, ...]:
    wanted = (
        (JoinLayout.COUNTS, JoinLayout.INDEXED)
        if old == "4"
        else (JoinLayout.LISTS, JoinLayout.TIMES)
    )
    if any(family.after.key != family.before.key for _, family in moves.values()):
        raise CannotMigrate(
            f"the key columns of {what} cannot change together with its state format, from {old} "
            f"to {new}: change one after the other"
        )
    rows = JoinLayout.LISTS.value if old == "4" else JoinLayout.INDEXED.value
    migrations = []
    for side in SIDES:
        store, family = moves[f"{side}-{rows}"]
        time = None if old == "4" else event_time(family.before, f"the {side} input of {what}")
        for kind in wanted:
            regroup = JoinRegrouping(kind, family.before, time)
            target = f"{side}-{kind.value}"
            migrations.append(_store(store, target, new, _regroup(family, target, regroup)))
    return tuple(migrations)


def _regroup(family: FamilyMigration, target: str, regroup: JoinRegrouping) -> FamilyMigration:
    """Return the migration of the family ``target``, which is made from the rows of ``family``."""
    layout = regroup.layout
    fields = list(family.before.key["fields"][:-1])
    last = {JoinLayout.INDEXED: [_INDEX], JoinLayout.COUNTS: []}.get(layout, [_EVENT_TIME])
    key = {**family.before.key, "fields": [*fields, *last]}
    form = RowForm(key, COUNT_VALUE, _encoder(_ENCODERS[layout]), framed=True)
    if layout in (JoinLayout.COUNTS, JoinLayout.TIMES):
        value = COUNT_VALUE if layout is JoinLayout.COUNTS else TIMES_VALUE
        before = replace(form, value=value)
        after = replace(before, framed=family.after.framed)
        return FamilyMigration(
            family.source, target, before, after, family.partition_by, regroup=regroup
        )
    before = replace(form, value=family.before.value)
    after = replace(form, value=family.after.value, framed=family.after.framed)
    return replace(family, target=target, before=before, after=after, regroup=regroup)


def _encoder(kind: str) -> dict[str, Any]:
    return {"keyStateEncoderType": kind}


def event_time(rows: RowForm, what: str) -> EventTime:
    """Return the place of the event time in the buffered rows of one side, for format 4.

    The schemas say which column of the rows has a watermark, but not whether a join key is an event
    time too. In that case Spark looks up rows only by the time of that key
    (``StreamingSymmetricHashJoinHelper.findJoinKeyOrdinalForWatermark``). A join key that can be an
    event time must therefore equal the event time of each row, so that both times are the same.

    Raises CannotMigrate if several columns have watermarks, or if a join key can be an event time
    and no column has a watermark.
    """
    fields = rows.value["fields"]
    marked = [i for i, field in enumerate(fields) if _WATERMARK in (field.get("metadata") or {})]
    keys = tuple(i for i, field in enumerate(rows.key["fields"][:-1]) if _is_time(field["type"]))
    if len({fields[i]["name"] for i in marked}) > 1:
        raise CannotMigrate(f"joins of state format 4 have one event time, and {what} has several")
    if keys and not marked:
        names = ", ".join(str(i + 1) for i in keys)
        raise CannotMigrate(
            f"{what} has no event time of its own, and the state does not record whether its join "
            f"key {names} is one: joins of state format 4 store their rows by that time"
        )
    if not marked:
        return EventTime(None, window=False, keys=())
    return EventTime(marked[0], not isinstance(fields[marked[0]]["type"], str), keys)


def _is_time(data_type: Any) -> bool:
    """Return whether a type is a timestamp, or a window: a struct of two timestamps."""
    if isinstance(data_type, str):
        return data_type in _TIMES
    fields = data_type.get("fields", ())
    return len(fields) == 2 and all(f["type"] in _TIMES for f in fields)
