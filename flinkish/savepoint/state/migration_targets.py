"""Conversion of a requested migration into the engine's targets.

A dry run and the driver that performs the migration both use this conversion. Spark is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkish.checkpoint.format.names import CANONICAL
from flinkish.checkpoint.format.pins import known_backend
from flinkish.checkpoint.format.schema_files import DEFAULT_FAMILY
from flinkish.engine.avro.schemas import spark_struct
from flinkish.engine.errors import EngineError
from flinkish.engine.migration.checkpoint_migration import plan_operators
from flinkish.engine.migration.migration_plan import OperatorMigration
from flinkish.engine.migration.migration_planner import FamilyChange, TargetState
from flinkish.engine.rows.types import struct_json
from flinkish.engine.stores.checkpoints import CheckpointState, OperatorState, read_checkpoint
from flinkish.errors import UsageError
from flinkish.messages.migration import Migration, NewSchema
from flinkish.savepoint.format.contents import QueryRecord
from flinkish.savepoint.format.reader import OpenSavepoint, check_files
from flinkish.savepoint.state.engine_errors import converted_errors
from flinkish.savepoint.state.state_directories import saved_directory


@dataclass(frozen=True)
class PlannedRewrite:
    """The planned rewrite of one operator's state.

    ``partitions`` and ``backend`` are the values before and after. ``shuffle`` is why rows go
    through a Spark shuffle, or None. ``changes`` has one line for each changed field.
    """

    query: str
    uid: str | None
    ordinal: int
    kind: str | None
    partitions: tuple[int, int]
    backend: tuple[str, str]
    shuffle: str | None
    changes: tuple[str, ...]


def plan_rewrite(savepoint: OpenSavepoint, migration: Migration) -> list[PlannedRewrite]:
    """Plan a migration operator by operator; only logs, schemas and metadata are read.

    Raises Incompatible, UnsupportedFormat, Corrupt and UsageError, as the migration itself would.
    """
    check_files(savepoint)
    rewrites = []
    for query in savepoint.queries:
        source = saved_directory(savepoint, query)
        with converted_errors(query.name):
            state = read_checkpoint(source, query.batch_id)
            each = changes_of(state, query, migration.schemas)
            moves = plan_operators(source, state.operators, target_of(migration, state), each)
        rewrites += [_planned(query, move) for move in moves]
    return rewrites


def _planned(query: QueryRecord, move: OperatorMigration) -> PlannedRewrite:
    saved = {operator.state.ordinal: operator for operator in query.operators}
    record = saved.get(move.operator.ordinal)
    changes = []
    for store in move.stores:
        for family in store.families:
            name = family.source if len(store.families) > 1 else store.source
            prefix = f"{name}: " if len(move.stores) + len(store.families) > 2 else ""
            changes += [
                f"{prefix}{line}" for line in (family.value.changes if family.value else ())
            ]
    return PlannedRewrite(
        query=query.name,
        uid=record.uid if record is not None else None,
        ordinal=move.ordinal,
        kind=record.state.kind if record is not None else move.operator.name,
        partitions=(move.operator.partitions, move.partitions),
        backend=(move.operator.backend, move.backend),
        shuffle=move.shuffle,
        changes=tuple(changes),
    )


def native_backend(state: CheckpointState) -> str:
    """Return the backend that originally wrote the state, regardless of its present form."""
    return known_backend(state.pins, "")


def target_of(migration: Migration, state: CheckpointState) -> TargetState:
    """Return the target state of all operators for a migration, in the engine's form."""
    version = migration.checkpoint_format
    backend = migration.backend
    if migration.type == "canonical":
        backend, version = CANONICAL, 1
    elif backend is None and migration.type == "native":
        backend = native_backend(state)
    if version is None and backend == "hdfs":
        version = 1  # HDFS-backed stores have no unique ids
    return TargetState(
        partitions=migration.partitions,
        backend=backend,
        compression=migration.compression,
        unique_ids=None if version is None else version == 2,
        formats=dict(migration.formats),
    )


def changes_of(
    state: CheckpointState, query: QueryRecord, schemas: Sequence[NewSchema]
) -> dict[int, TargetState]:
    """Return Spark's name for each operator and the changes of its values, by ordinal.

    The changes are those that the requested Avro schemas for this query require. Raises UsageError
    if a schema is not that of a state, or if it names a state that does not exist, or names none
    although the operator has several.
    """
    result: dict[int, dict[tuple[str, str], FamilyChange]] = {}
    for asked in schemas:
        if asked.query != query.name:
            continue
        operator = next(o for o in state.operators if o.ordinal == asked.ordinal)
        place = _family(operator, asked.name, asked.state)
        if place in result.get(operator.ordinal, {}):
            raise UsageError(
                f"{asked.name} names a state that another --schema gives a schema already",
                hint="give each state one --schema, with all its fields",
            )
        try:
            value = struct_json(spark_struct(asked.schema))
        except (EngineError, ValueError, KeyError) as error:
            raise UsageError(
                f"the schema for {asked.name} is not an Avro schema of a state: {error}",
                hint="give an Avro record schema, as in the files of a canonical savepoint",
            ) from error
        result.setdefault(operator.ordinal, {})[place] = FamilyChange(value=value)
    names = {operator.state.ordinal: operator.state.kind for operator in query.operators}
    return {
        ordinal: TargetState(changes=result.get(ordinal, {}), name=names.get(ordinal))
        for ordinal in {*names, *result}
    }


def _family(operator: OperatorState, asked: str, name: str) -> tuple[str, str]:
    places = {  # by the names that `state show` has
        store.name if family.name == DEFAULT_FAMILY else family.name: (store.name, family.name)
        for store in operator.stores
        for family in store.families
    }
    state = next(iter(places)) if not name and len(places) == 1 else name
    if state in places:
        return places[state]
    names = ", ".join(sorted(places))
    uid = asked.removesuffix(f"/{name}") if name else asked
    raise UsageError(
        f"the operator {uid!r} has several states: {names}"
        if not name
        else f"the operator {uid!r} has no state {name!r}; it has: {names}",
        hint=f"name one: --schema {uid}/{next(iter(places))}=FILE.avsc",
    )
