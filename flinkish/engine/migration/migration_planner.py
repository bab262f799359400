"""Plan how an operator's state becomes its target state: migrations of its rows.

This module reads only two small parts of state. The ``metadata`` of a RocksDB snapshot has the ids
of its column families, which are stored nowhere else. The headers of canonical files mark the
families that are internal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from flinkish.annotations import public_evolving
from flinkish.avro.container import COMPRESS
from flinkish.checkpoint.format.names import CANONICAL, DEFAULT_STORE, HDFS, JOIN_STORES, ROCKSDB
from flinkish.checkpoint.format.pins import (
    PIN_AGGREGATION_FORMAT,
    PIN_GROUP_FORMAT,
    PIN_JOIN_FORMAT,
    PIN_MERGE_OPERATOR,
    pinned,
)
from flinkish.checkpoint.format.schema_files import FamilySchemas
from flinkish.engine.errors import CannotMigrate, StateFormatError
from flinkish.engine.migration.evolution import EvolutionVerdict, Resolution, resolve
from flinkish.engine.migration.join_formats import is_join, join_moves
from flinkish.engine.migration.migration_plan import (
    FamilyMigration,
    JoinLayout,
    OperatorMigration,
    RowForm,
    StoreMigration,
)
from flinkish.engine.rows.spark_hash import check_hashable
from flinkish.engine.rows.types import parse_struct
from flinkish.engine.rows.value_formats import (
    Reshape,
    group_format,
    is_group_state,
    matched_flag,
    value_struct,
)
from flinkish.engine.stores.canonical import DEFAULT_CODEC, internal_families
from flinkish.engine.stores.checkpoints import OperatorState, StoreState, store_files
from flinkish.engine.stores.files import StateSource
from flinkish.engine.stores.partitioning import (
    has_one_partition,
    is_internal,
    key_encoder,
    partition_paths,
)
from flinkish.engine.stores.rocksdb_store import snapshot_families
from flinkish.engine.stores.rocksdb_writer import Families

_JOIN_ROWS: Final = (JoinLayout.INDEXED.value, JoinLayout.LISTS.value)
#: Spark's names for the operators whose state format :data:`PIN_GROUP_FORMAT` pins.
_GROUPED: Final = frozenset({"applyInPandasWithState", "flatMapGroupsWithState"})


@dataclass(frozen=True)
class FamilyChange:
    """Requested changes to the rows of a column family.

    ``key`` and ``value`` are JSON of the new ``StructType``; None keeps the old one. ``renames``
    maps paths in the new value to those in the old one; ``defaults`` has the values of new columns
    by path. ``places`` has for each column of the new value the index of the old column that it
    comes from, None for a new column; ``places`` is None where names decide. ``key_places`` is the
    same for the key; with it, rows get the partition of their new key, by which Spark looks them
    up. With ``check_nulls`` a nullable column may become not nullable; a null there is an error.
    ``recodes`` are picklable functions that make the new bytes of binary columns of the value, by
    path.
    """

    key: Mapping[str, Any] | None = None
    value: Mapping[str, Any] | None = None
    renames: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    places: tuple[int | None, ...] | None = None
    key_places: tuple[int | None, ...] | None = None
    check_nulls: bool = False
    recodes: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict)


@public_evolving
@dataclass(frozen=True)
class TargetState:
    """The requested state of an operator; None keeps what it has now.

    Attributes
    ----------
    ordinal
        Spark's operator id.
    partitions
        Spark's ``spark.sql.shuffle.partitions``. State that is always in one partition stays there.
    backend
        ``HDFS``, ``ROCKSDB`` or ``CANONICAL``.
    compression
        The codec by Spark's name; for canonical state by Avro's.
    unique_ids
        Whether files are named as in checkpoint format 2; canonical state has no ids.
    formats
        State formats by the settings that pin them (``PIN_JOIN_FORMAT`` ...).
    changes
        Changes of rows by (store, family).
    spark
        (major, minor) of the Spark that will use the state (see :func:`for_spark`); None means
        the newest.
    name
        Spark's name for the operator, where its state does not record it (Spark 3.5).
    """

    ordinal: int | None = None
    partitions: int | None = None
    backend: str | None = None
    compression: str | None = None
    unique_ids: bool | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[tuple[str, str], FamilyChange] = field(default_factory=dict)
    spark: tuple[int, int] | None = None
    name: str | None = None


def for_spark(target_state: TargetState, version: str) -> TargetState:
    """Return the target state with this Spark version filled in, unless it names one.

    The version decides whether an interval's days are hashed (:func:`hashes_interval_days`), the
    delimiter between a list's records (:func:`list_delimiter`), the version of archives
    (:func:`archive_version`), and whether the merge operator that Spark 4.2 pins must change.
    """
    if target_state.spark is not None:
        return target_state
    major, minor = (int(part) for part in re.findall(r"\d+", f"{version}.0")[:2])
    return replace(target_state, spark=(major, minor))


def hashes_interval_days(spark: tuple[int, int] | None) -> bool:
    """Return whether a Spark version hashes the days of calendar intervals (SPARK-58236).

    Measured: 3.5.9, 4.0.5, 4.1.4 and 4.2.1 do not, 4.3.0 does.
    """
    return spark is None or spark >= (4, 3)


def list_delimiter(spark: tuple[int, int] | None, pins: Mapping[str, str]) -> bytes:
    """Return the bytes that a Spark version expects between the records of a list in RocksDB.

    Up to 4.1 the delimiter is ",". From 4.2 on the offset log pins it: a query first started on 4.1
    keeps ",". Spark misreads a list with another delimiter without an error.
    """
    delimited = (spark is not None and spark < (4, 2)) or pinned(pins, PIN_MERGE_OPERATOR) == "1"
    return b"," if delimited else b""


def archive_version(spark: tuple[int, int] | None, *, unique_ids: bool) -> int:
    """Return the version that a Spark version expects in a snapshot's archive.

    4.0 expects the checkpoint format's number, all others 1 (``RocksDBCheckpointMetadata``). Each
    reads its own version only.
    """
    return 2 if unique_ids and spark == (4, 0) else 1


def plan_operator(
    source: StateSource, operator: OperatorState, target_state: TargetState
) -> OperatorMigration:
    """Plan how an operator's state becomes the target state.

    Raises CannotMigrate if the target state is not possible, and StateFormatError if a schema or a
    snapshot's metadata is damaged, missing or unknown, or a key cannot be hashed as in Spark.
    """
    operator = replace(operator, name=operator.name or target_state.name)
    backend = target_state.backend or operator.backend
    if backend not in {HDFS, ROCKSDB, CANONICAL}:
        raise CannotMigrate(f"there is no state store backend {backend!r}: hdfs, rocksdb or avro")
    partitions = operator.partitions
    if target_state.partitions is not None and not has_one_partition(operator):
        partitions = target_state.partitions
    if partitions < 1:
        raise CannotMigrate(f"state cannot have {partitions} partitions")
    stores = tuple(_store(operator, store, backend, target_state) for store in operator.stores)
    old, new = _format(operator, target_state, PIN_JOIN_FORMAT)
    if old != new and _is_join(operator):
        stores = join_moves(stores, old, new, backend, f"the join {_name(operator)}")
    regrouped = any(f.regroup is not None for move in stores for f in move.families)
    families = {}
    if any(store.schema_version == 3 for store in operator.stores):
        if backend == HDFS and not all(move.target in JOIN_STORES for move in stores):
            raise CannotMigrate(
                f"the operator {_name(operator)} keeps its state in column families, which only "
                "RocksDB has: it cannot be moved to the HDFS-backed state store"
            )
        if not regrouped:
            families = {s.name: _families(source, operator, s) for s in operator.stores}
    families = {
        name: families.get(name) or _new_families(stores, name)
        for name in {move.target for move in stores}
        if _has_families(operator, stores, name)
    }
    rearranged = regrouped or any(move.source != move.target for move in stores)
    rehashed = [f.after.key for move in stores for f in move.families if f.rehashed]
    every = [family.key for store in operator.stores for family in store.families]
    for key in rehashed if partitions == operator.partitions else [*rehashed, *every]:
        check_hashable(key)
    unique = bool(operator.unique_ids) and backend != CANONICAL
    if target_state.unique_ids is not None:
        unique = target_state.unique_ids
    if unique and backend != ROCKSDB:
        what = "HDFS-backed stores have" if backend == HDFS else "canonical state has"
        raise CannotMigrate(f"checkpoint format 2 needs RocksDB: {what} no ids")
    return OperatorMigration(
        operator=operator,
        ordinal=operator.ordinal if target_state.ordinal is None else target_state.ordinal,
        partitions=partitions,
        backend=backend,
        compression=_compression(operator, backend, target_state),
        unique_ids=unique,
        stores=stores,
        families=families,
        moved=rearranged or bool(rehashed) or partitions != operator.partitions,
        interval_days=hashes_interval_days(target_state.spark),
        delimiter=list_delimiter(target_state.spark, operator.pins) if families else b"",
        archive=archive_version(target_state.spark, unique_ids=unique),
    )


def _compression(operator: OperatorState, backend: str, target_state: TargetState) -> str:
    """Return Spark's codec, or Avro's for canonical state."""
    if backend != CANONICAL:
        return target_state.compression or operator.compression
    codec = target_state.compression or DEFAULT_CODEC
    if codec not in COMPRESS:
        raise CannotMigrate(
            f"canonical state does not support the codec {codec!r}, only {', '.join(COMPRESS)}"
        )
    return codec


def _name(operator: OperatorState) -> str:
    return f"{operator.ordinal} ({operator.name})" if operator.name else str(operator.ordinal)


def _store(
    operator: OperatorState, store: StoreState, backend: str, target_state: TargetState
) -> StoreMigration:
    moves = tuple(_family(operator, store, f, backend, target_state) for f in store.families)
    return StoreMigration(store.name, store.name, moves)


def _family(
    operator: OperatorState,
    store: StoreState,
    family: FamilySchemas,
    backend: str,
    target_state: TargetState,
) -> FamilyMigration:
    encoder = key_encoder(operator, store, family)
    before = RowForm(family.key, family.value, encoder, operator.backend == ROCKSDB)
    select, value_schema = _aggregation(operator, store, family, target_state)
    shape, value_schema = _reshape(operator, store, family, target_state, value_schema)
    change = target_state.changes.get((store.name, family.name), FamilyChange())
    what = f"{_name(operator)}, {store.name}"
    what += f"/{family.name}" if family.name != store.name else ""
    paths = partition_paths(operator, store, family)
    if change.key is not None and change.key_places is None:
        _check_partitioning(family, change, paths, what)
    key = _key_resolution(family.key, change, f"the key of {what}")
    value = _value_resolution(value_schema, change, f"the value of {what}", encoder)
    after = RowForm(
        change.key or family.key, change.value or value_schema, encoder, backend == ROCKSDB
    )
    return FamilyMigration(
        family.name,
        family.name,
        before,
        after,
        paths,
        key,
        value,
        select,
        shape,
        rehashed=key is not None and change.key_places is not None,
    )


def _key_resolution(old: Mapping[str, Any], change: FamilyChange, what: str) -> Resolution | None:
    if change.key is None or (change.key == old and change.key_places is None):
        return None
    before, after = parse_struct(old), parse_struct(change.key)
    resolution = resolve(
        before,
        after,
        check_nulls=change.check_nulls,
        keys=True,
        places=change.key_places,
    )
    return _possible(resolution, what)


def _value_resolution(
    old: Mapping[str, Any], change: FamilyChange, what: str, encoder: Mapping[str, Any] | None
) -> Resolution | None:
    new = old if change.value is None else change.value
    if new == old and change.places is None and not change.recodes:
        return None
    resolution = resolve(
        value_struct(old, encoder),
        value_struct(new, encoder),
        renames=change.renames,
        defaults=change.defaults,
        recodes=change.recodes,
        check_nulls=change.check_nulls,
        places=change.places,
    )
    return _possible(resolution, what)


def _possible(resolution: Resolution, what: str) -> Resolution | None:
    """Return the resolution, None if rows keep their bytes; raise CannotMigrate if incompatible."""
    if resolution.verdict is EvolutionVerdict.INCOMPATIBLE:
        problems = "; ".join(map(str, resolution.problems))
        raise CannotMigrate(f"{what} cannot be converted to the new schema: {problems}")
    return None if resolution.verdict is EvolutionVerdict.AS_IS else resolution


def _check_partitioning(
    family: FamilySchemas, change: FamilyChange, paths: tuple[tuple[int, ...], ...], what: str
) -> None:
    """Refuse changes to key columns that rows are partitioned (and found) by; others may change."""
    for path in paths:
        column = _column(family.key, path)
        if column is None or _column(change.key or family.key, path) != column:
            name = column[0] if column else path
            raise CannotMigrate(
                f"the column {name!r} of the key of {what} cannot change: Spark "
                "finds and partitions the state by it. Start the operator under another uid"
            )


def _column(schema: Mapping[str, Any], path: tuple[int, ...]) -> tuple[str, Any] | None:
    """Return a column's name, after those of its structs, and its type; None if it is absent."""
    data_type: Any = schema
    names = []
    for place in path:
        fields = data_type["fields"] if isinstance(data_type, Mapping) else ()
        if place >= len(fields):
            return None
        names.append(str(fields[place]["name"]))
        data_type = fields[place]["type"]
    return ".".join(names), data_type


def _aggregation(
    operator: OperatorState, store: StoreState, family: FamilySchemas, target_state: TargetState
) -> tuple[tuple[tuple[str, int], ...] | None, Mapping[str, Any]]:
    """Return the columns to select for another format of aggregations, and the value's new schema.

    Format 1 repeats the key's columns in the value, format 2 does not
    (``StreamingAggregationStateManager``).
    """
    old, new = _format(operator, target_state, PIN_AGGREGATION_FORMAT)
    if old == new or not _is_aggregation(operator, store, family, old):
        return None, family.value
    keys, values = family.key["fields"], family.value["fields"]
    if (old, new) == ("1", "2"):
        if not _repeats_key(family):
            raise CannotMigrate(
                f"the state of {_name(operator)} is not that of an aggregation of format 1"
            )
        places = range(len(keys), len(values))
        return tuple(("value", i) for i in places), {**family.value, "fields": values[len(keys) :]}
    if (old, new) == ("2", "1"):
        select = [("key", i) for i in range(len(keys))]
        select += [("value", i) for i in range(len(values))]
        return tuple(select), {**family.value, "fields": [*keys, *values]}
    raise CannotMigrate(f"aggregations of state format {old} cannot become format {new}")


def _is_aggregation(
    operator: OperatorState, store: StoreState, family: FamilySchemas, old: str
) -> bool:
    """Return whether the state is that of an aggregation.

    Spark's operator name decides; where it is unknown (Spark 3.5), the columns of format 1 do.
    """
    if operator.name is not None:
        return operator.name == "stateStoreSave"
    if not _is_plain(operator, store, family):
        return False
    if old == "1":
        return _repeats_key(family)
    raise _unknown_kind(operator, "an aggregation")


def _repeats_key(family: FamilySchemas) -> bool:
    """Return whether values begin with the key's columns, as in format 1 of aggregations."""
    names = [field["name"] for field in family.key["fields"]]
    return [field["name"] for field in family.value["fields"][: len(names)]] == names


def _reshape(
    operator: OperatorState,
    store: StoreState,
    family: FamilySchemas,
    target_state: TargetState,
    value: Mapping[str, Any],
) -> tuple[Reshape | None, Mapping[str, Any]]:
    """Return how a value's columns change for another format of grouped functions or joins.

    The second result is the value's new schema.
    """
    old, new = _format(operator, target_state, PIN_GROUP_FORMAT)
    if old != new and _is_grouped(operator, store, family):
        return group_format(value, old, new, _name(operator))
    old, new = _format(operator, target_state, PIN_JOIN_FORMAT)
    rows = (store.name, family.name)
    if old != new and _is_join(operator) and any(name.endswith(_JOIN_ROWS) for name in rows):
        return matched_flag(value, old, new)
    return None, value


def _is_grouped(operator: OperatorState, store: StoreState, family: FamilySchemas) -> bool:
    """Return whether the state is that of a grouped function.

    Spark's operator name decides; where it is unknown (Spark 3.5), the columns of either format do.
    """
    if operator.name is not None:
        return operator.name in _GROUPED
    if not _is_plain(operator, store, family):
        return False
    if is_group_state(family.value):
        return True
    raise _unknown_kind(operator, "a grouped function")


def _is_plain(operator: OperatorState, store: StoreState, family: FamilySchemas) -> bool:
    """Return whether the operator has one store with whole keys: no join, no session windows."""
    return len(operator.stores) == 1 and key_encoder(operator, store, family) is None


def _unknown_kind(operator: OperatorState, kind: str) -> CannotMigrate:
    return CannotMigrate(
        f"the kind of the operator {_name(operator)} is unknown, and so whether its state is "
        f"that of {kind}: give Spark's name for the operator"
    )


def _format(operator: OperatorState, target_state: TargetState, pin: str) -> tuple[str, str]:
    old = pinned(operator.pins, pin)
    return old, target_state.formats.get(pin, old)


def _is_join(operator: OperatorState) -> bool:
    names = [f.name for store in operator.stores for f in store.families]
    if len(operator.stores) > 1:
        names = [store.name for store in operator.stores]
    return is_join(operator.name, names)


def _has_families(operator: OperatorState, moves: tuple[StoreMigration, ...], name: str) -> bool:
    into = [move for move in moves if move.target == name]
    if any(move.source != name for move in into):
        return name == DEFAULT_STORE
    return any(store.name == name and store.schema_version == 3 for store in operator.stores)


def _families(source: StateSource, operator: OperatorState, store: StoreState) -> Families:
    """Return the column families of a store, with the ids in the snapshot of partition 0.

    Families that this snapshot lacks get new ids, as do all families of canonical state, which
    records no ids.
    """
    files = store_files(source, operator, 0, store)
    if operator.backend == CANONICAL:
        return _numbered([f.name for f in store.families], internal_families(files))
    families = snapshot_families(files)
    if not families.ids:
        raise StateFormatError(
            f"{operator.directory}/0/{store.directory}", None, "no snapshot names column families"
        )
    ids = dict(families.ids)
    internal = set(families.internal)
    for family in store.families:
        if family.name not in ids:
            ids[family.name] = max(ids.values()) + 1
            internal |= {family.name} if is_internal(family.name) else set()
    return Families(ids, frozenset(internal))


def _new_families(moves: tuple[StoreMigration, ...], name: str) -> Families:
    targets = [f.target for move in moves if move.target == name for f in move.families]
    return _numbered(targets, frozenset(family for family in targets if is_internal(family)))


def _numbered(names: list[str], internal: frozenset[str]) -> Families:
    """Return families with new ids, after the default family, which every store has."""
    numbers = enumerate(dict.fromkeys([DEFAULT_STORE, *names]), 1)
    ids = {name: number for number, name in numbers}
    return Families(ids, internal.intersection(ids))
