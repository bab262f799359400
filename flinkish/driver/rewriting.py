"""The engine's work on one query, in the words of savepoints: what is wanted, and its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinkish import storage
from flinkish.engine.avro_schemas import spark_struct
from flinkish.engine.checkpoints import (
    PROVIDER_PIN,
    CheckpointState,
    OperatorState,
    backend_of,
    read_checkpoint,
)
from flinkish.engine.directories import Source, Target
from flinkish.engine.errors import EngineError
from flinkish.engine.files import CANONICAL
from flinkish.engine.pipeline import Progress
from flinkish.engine.planning import FamilyChange, TargetState
from flinkish.engine.rewrite import rewrite_checkpoint
from flinkish.engine.type_json import struct_json
from flinkish.errors import UsageError
from flinkish.restore.migration import StateRewrite
from flinkish.savepoint.enginewords import in_our_words
from flinkish.savepoint.model import QueryRecord
from flinkish.savepoint.statedir import StorageDirectory


def rewrite_query(
    context: Any,
    source: Source,
    target: Target,
    query: QueryRecord,
    wanted: Mapping[str, Any],
    progress: Progress,
) -> list[dict[str, Any]]:
    """Make a checkpoint of a saved query whose state is what is wanted.

    Parameters
    ----------
    context: a ``SparkContext``.
    source: the query's files; ``target``: the new checkpoint.
    wanted: the fields of ``flinkish.jobs.migrator.Migration``.

    Returns facts of each operator: uid, ordinal, partitions, rows, digests. Raises Incompatible,
    UnsupportedFormat, Corrupt, UsageError (a schema for a state that there is not).
    """
    with in_our_words(query.name):
        found = read_checkpoint(source, query.batch_id)
        result = rewrite_checkpoint(
            *(context, source, target, _target(wanted, found)),
            batch=query.batch_id,
            each=_changes(found, query, wanted.get("schemas") or ()),
            progress=progress,
        )
    uids = {operator.ordinal: operator.uid for operator in query.operators}
    return [
        {
            "query": query.name,
            "uid": uids.get(written.ordinal),
            "ordinal": written.ordinal,
            "bytes": written.size,
            **written.digest.to_json(),
        }
        for written in result.operators
    ]


def _native_backend(found: CheckpointState) -> str:
    """The backend that the state came from, whatever it is in now."""
    return backend_of(found.pins.get(PROVIDER_PIN, "HDFSBackedStateStoreProvider"))


def _target(wanted: Mapping[str, Any], found: CheckpointState) -> TargetState:
    version = wanted.get("checkpoint_format")
    backend = wanted.get("backend")
    if wanted.get("type") == "canonical":
        backend, version = CANONICAL, 1
    elif backend is None and wanted.get("type") == "native":
        backend = _native_backend(found)
    if version is None and backend == "hdfs":
        version = 1  # HDFS-backed stores have no unique ids
    return TargetState(
        partitions=wanted.get("partitions"),
        backend=backend,
        compression=wanted.get("compression"),
        unique_ids=None if version is None else version == 2,
        formats=dict(wanted.get("formats") or {}),
    )


def _changes(
    found: CheckpointState, query: QueryRecord, schemas: Sequence[Mapping[str, Any]]
) -> dict[int, TargetState]:
    """By ordinal what Spark calls an operator, and the changes of values that the Avro schemas for
    this query ask for.

    ``schemas`` are the fields of ``flinkish.jobs.migrator.NewSchema``.
    """
    result: dict[int, dict[tuple[str, str], FamilyChange]] = {}
    for asked in schemas:
        if asked["query"] != query.name:
            continue
        operator = next(o for o in found.operators if o.ordinal == asked["ordinal"])
        place = _family(operator, asked["name"], asked["state"])
        try:
            value = struct_json(spark_struct(asked["schema"]))
        except (EngineError, ValueError, KeyError) as error:
            raise UsageError(
                f"the schema for {asked['name']} is no Avro schema of a state: {error}",
                hint="a record, as in the files of a canonical savepoint, or as `savepoint show` "
                "writes it",
            ) from error
        result.setdefault(operator.ordinal, {})[place] = FamilyChange(value=value)
    names = {operator.ordinal: operator.kind for operator in query.operators}
    return {
        ordinal: TargetState(changes=result.get(ordinal, {}), name=names.get(ordinal))
        for ordinal in {*names, *result}
    }


def _family(operator: OperatorState, asked: str, name: str) -> tuple[str, str]:
    places = [(s.name, f.name) for s in operator.stores for f in s.families]
    if not name and len(places) == 1:
        return places[0]
    for place in places:
        if name and name in place:
            return place
    names = ", ".join(sorted({f for _, f in places}))
    uid = asked.removesuffix(f"/{name}") if name else asked
    raise UsageError(
        f"the operator {uid!r} has several states: {names}"
        if not name
        else f"the operator {uid!r} has no state {name!r}; it has: {names}",
        hint=f"name one: --schema {uid}/{places[0][1]}=FILE.avsc",
    )


def rewrite_restored(context: Any, staging: str, final: str, rewrite: StateRewrite) -> int:
    """Make the checkpoint ``final`` of the one at ``staging``; the number of rows of state.

    Raises Incompatible, UnsupportedFormat, Corrupt.
    """
    source, target = StorageDirectory(staging), StorageDirectory(final)
    root = f"file:{final}" if storage.is_local(final) else storage.for_spark(final)
    with in_our_words():
        found = read_checkpoint(source)
        each = {
            operator.ordinal: TargetState(changes=_by_place(operator, values))
            for operator in found.operators
            if (values := rewrite.values.get(operator.ordinal))
        }
        backend = None
        if rewrite.canonical:
            backend = backend_of(rewrite.provider) if rewrite.provider else _native_backend(found)
        wanted = TargetState(partitions=rewrite.partitions, backend=backend)
        result = rewrite_checkpoint(context, source, target, wanted, each=each, root=root)
    return sum(written.digest.rows for written in result.operators)


def _by_place(
    operator: OperatorState, values: Mapping[str, Mapping[str, Any]]
) -> dict[tuple[str, str], FamilyChange]:
    return {
        (store.name, family.name): FamilyChange(value=value)
        for store in operator.stores
        for family in store.families
        for name, value in values.items()
        if name in (store.name if len(store.families) == 1 else family.name, family.name)
    }
