"""The engine's work on one query: conversion of requests for the engine, and of its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any

from flinkish import storage
from flinkish.checkpoint.format.pins import PIN_PROVIDER, known_backend
from flinkish.engine.avro.schemas import unique_names
from flinkish.engine.migration.checkpoint_migration import rewrite_checkpoint
from flinkish.engine.migration.evolution import join_path
from flinkish.engine.migration.migration_planner import FamilyChange, TargetState
from flinkish.engine.migration.pipeline import Progress
from flinkish.engine.stores.checkpoints import (
    OperatorState,
    read_checkpoint,
)
from flinkish.engine.stores.files import StateSource, StateTarget
from flinkish.errors import FlinkishError, StorageError
from flinkish.messages.migration import MigratedOperator, Migration
from flinkish.restore.plan.query_restore import StateRewrite
from flinkish.restore.plan.state_evolution import StoreEvolution
from flinkish.savepoint.format.contents import QueryRecord
from flinkish.savepoint.format.digests import FileTable
from flinkish.savepoint.state.engine_errors import converted_errors
from flinkish.savepoint.state.migration_targets import changes_of, target_of
from flinkish.savepoint.state.state_directories import SavedDirectory
from flinkish.storage.directory import StorageDirectory

#: The last line of a Python traceback, and the first of a Java one.
_RAISED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception)\b.*)$", re.MULTILINE)
_JAVA = re.compile(r"^(?:Caused by)?: (.+)$", re.MULTILINE)
#: Marks of a storage error: an ``OSError`` of Python, an error of flinkish's storage, or one of
#: Java's errors of files. ``IOException`` is no mark: a Python worker that ended causes one too.
_STORAGE = re.compile(
    r"\[Errno |\bStorageError:|No space left on device|Permission denied|Mkdirs failed"
    r"|\bjava\.nio\.file\.\w+:|\borg\.apache\.hadoop\.(?:fs|security)\.\w+:"
)

REWRITE_FAILURE = "state could not be rewritten"


@contextmanager
def engine_work(query: str | None = None, failure: str = REWRITE_FAILURE) -> Iterator[None]:
    """Convert the errors that the engine, and Spark's jobs for the engine, raise in the block.

    For ``query`` and ``failure`` see :func:`told_by_spark`.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with converted_errors(*(() if query is None else (query,))):
        try:
            yield
        except (Py4JError, PySparkException) as error:
            raise told_by_spark(str(error), query, failure) from error


def told_by_spark(
    text: str, query: str | None = None, failure: str = REWRITE_FAILURE
) -> FlinkishError:
    """Return the error for a Spark job that failed. Pure.

    ``query`` is the query whose state was being used, if it is known; ``failure`` says what failed.
    ``text`` is that of PySpark's error: a Java stack trace, or only the failed Python worker's
    traceback. The last line of a traceback is its error, such as ``OSError: [Errno 28] No space
    left on device``. The traceback of an error's cause comes before that of the error.
    """
    reasons = _RAISED.findall(text) or _JAVA.findall(text) or text.strip().split("\n")
    reason = next(filter(_STORAGE.search, reasons), reasons[0])
    whose = "" if query is None else f"query {query}: "
    message = f"{whose}{failure}: {reason}"
    hint = "the driver's log has the whole trace"
    kind = StorageError if _STORAGE.search(reason) else FlinkishError
    return kind(message, hint=hint)


def rewrite_query(
    context: Any,
    source: StateSource,
    target: StateTarget,
    query: QueryRecord,
    migration: Migration,
    progress: Progress,
) -> list[MigratedOperator]:
    """Write a checkpoint of a saved query, with the state rewritten as a migration requests.

    Returns the size, rows and digests of each operator's new state.

    Raises Incompatible if the state cannot take the requested form, UnsupportedFormat if the engine
    does not read this state, Corrupt if a state file is damaged, UsageError if a schema of the
    migration is invalid, or is for a state that does not exist, and StorageError or FlinkishError
    if the Spark job fails.
    """
    with engine_work(query.name):
        checkpoint = read_checkpoint(source, query.batch_id)
        result = rewrite_checkpoint(
            context,
            source,
            target,
            target_of(migration, checkpoint),
            batch=query.batch_id,
            each=changes_of(checkpoint, query, migration.schemas),
            progress=progress,
        )
    uids = {operator.state.ordinal: operator.uid for operator in query.operators}
    return [
        MigratedOperator(
            query=query.name,
            uid=uids.get(written.ordinal),
            ordinal=written.ordinal,
            bytes=written.size,
            rows=written.digest.rows,
            keys=f"{written.digest.keys:016x}",
            content=f"{written.digest.content:016x}",
            shuffle=written.shuffle,
            native=written.native,
        )
        for written in result.operators
    ]


def rewrite_restored(
    context: Any,
    staging: str,
    final: str,
    rewrite: StateRewrite,
    recorded: FileTable,
    *,
    location: str | None = None,
) -> int:
    """Rewrite the checkpoint at ``staging`` into ``final`` and return the number of rows of state.

    The state files that are read must be as ``recorded``. ``location`` is where Spark will read the
    checkpoint, if not at ``final``. Raises Incompatible, UnsupportedFormat or Corrupt, and
    StorageError or FlinkishError if the Spark job fails.
    """
    source = SavedDirectory(staging, recorded=recorded)
    target = StorageDirectory(final)
    root = storage.for_spark(final if location is None else storage.locate(location))
    with engine_work():
        checkpoint = read_checkpoint(source)
        each = {
            operator.ordinal: TargetState(changes=_by_place(operator, evolutions))
            for operator in checkpoint.operators
            if (evolutions := rewrite.evolutions.get(operator.ordinal))
        }
        backend = None
        if rewrite.canonical:
            provider = {PIN_PROVIDER: rewrite.provider} if rewrite.provider else checkpoint.pins
            backend = known_backend(provider, "")
        target_state = TargetState(
            partitions=rewrite.partitions,
            backend=backend,
            formats=rewrite.fit.formats,
            unique_ids=False if rewrite.fit.checkpoint_format == 1 else None,
        )
        result = rewrite_checkpoint(context, source, target, target_state, each=each, root=root)
    return sum(written.digest.rows for written in result.operators)


def _by_place(
    operator: OperatorState, evolutions: Mapping[str, StoreEvolution]
) -> dict[tuple[str, str], FamilyChange]:
    return {
        (store.name, family.name): _change(evolution)
        for store in operator.stores
        for family in store.families
        for name, evolution in evolutions.items()
        if name in (store.name if len(store.families) == 1 else family.name, family.name)
    }


def _change(evolution: StoreEvolution) -> FamilyChange:
    fields = evolution.value["fields"] if evolution.value is not None else ()
    paths = [join_path("", name) for name in unique_names(field["name"] for field in fields)]
    return FamilyChange(
        key=evolution.key,
        value=evolution.value,
        defaults={paths[index]: value for index, value in evolution.begins.items()},
        places=evolution.places,
        key_places=evolution.key_places,
        # The plan has compared the nullability, so a column may lose it; a null is then an error.
        check_nulls=evolution.places is not None,
        recodes={reduce(join_path, path, ""): each for path, each in evolution.recodes.items()},
    )
