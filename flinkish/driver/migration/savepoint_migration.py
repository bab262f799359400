"""A new savepoint made from another one, with its state rewritten by the engine.

Each query becomes a checkpoint with rewritten state in a scratch directory. The new savepoint is
taken from these checkpoints like any other, so it is sealed, digested and locked in the same
manner. The old savepoint is only read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flinkish import storage
from flinkish.checkpoint.format.names import DEFAULT_STORE, ROCKSDB
from flinkish.driver.log import log
from flinkish.errors import LaunchFailed
from flinkish.messages.migration import MigratedOperator, Migration
from flinkish.messages.requests import SavepointSummary
from flinkish.operators.identity import OperatorFacts
from flinkish.savepoint.format.contents import (
    FORMAT_NATIVE,
    Header,
    OperatorRecord,
    QueryRecord,
    QuerySource,
    SavepointJob,
)
from flinkish.savepoint.format.reader import OpenSavepoint
from flinkish.savepoint.reporter import SavepointReporter
from flinkish.savepoint.state.state_directories import saved_directory
from flinkish.savepoint.write.query_records import rewritten_source
from flinkish.savepoint.write.transfer import FileTransferer
from flinkish.savepoint.write.writer import write_savepoint
from flinkish.state.shipping import ship_package
from flinkish.storage.directory import StorageDirectory

#: Called with the rows and bytes of state written so far, from another thread; must not raise.
Progress = Callable[[int, int], None]


def write_rewritten(
    context: Any,
    savepoint: OpenSavepoint,
    migration: Migration,
    *,
    scratch: str,
    job: SavepointJob,
    trigger: str,
    reporter: SavepointReporter,
    progress: Progress,
    transferer: FileTransferer | None = None,
) -> tuple[SavepointSummary, list[MigratedOperator]]:
    """Write the new savepoint and return it with the new state of each operator.

    The checkpoints are written to the directory ``scratch``, which the caller removes afterwards.
    For ``job``, ``trigger`` and ``transferer`` see
    :func:`~flinkish.savepoint.write.writer.write_savepoint`.

    Raises the errors of :func:`~flinkish.driver.migration.query_migration.rewrite_query` and of
    ``write_savepoint``, and LaunchFailed if this interpreter lacks packages that the engine needs.
    """
    sources: list[QuerySource] = []
    written: list[MigratedOperator] = []
    reporter.phase("rewriting")
    for query in savepoint.queries:
        checkpoint = storage.join(scratch, str(len(sources)))
        log(f"rewriting the state of query {query.name}")
        operators = _rewrite(context, savepoint, query, checkpoint, migration, progress)
        by_ordinal = {each.ordinal: each for each in operators}
        facts = [_facts(query, op, by_ordinal.get(op.state.ordinal)) for op in query.operators]
        sources.append(rewritten_source(query, checkpoint, facts))
        written += operators
    info = write_savepoint(
        migration.target,
        job,
        sources,
        trigger=trigger,
        reporter=reporter,
        deadline=time.monotonic(),
        full=True,
        transferer=transferer,
        format_=_format(migration, savepoint.header),
    )
    return info, written


def _facts(
    query: QueryRecord, operator: OperatorRecord, new: MigratedOperator | None
) -> OperatorFacts:
    """Return what is known of an operator with its new state.

    RocksDB reports 0 rows if it does not count them, which must not pass for a count.
    """
    facts = operator.facts
    rows = facts.rows
    if query.backend == ROCKSDB and rows is not None and rows <= 0:
        has_one = {store.name for store in operator.state.stores} == {DEFAULT_STORE}
        rows = new.rows if new is not None and has_one else None
    return replace(facts, rows=rows, state_digest=None if new is None else new.content)


def _format(migration: Migration, header: Header) -> str:
    """Return the requested format, else native for a new backend, else the old savepoint's."""
    if migration.type is not None:
        return migration.type
    return FORMAT_NATIVE if migration.backend else header.format


def _rewrite(
    context: Any,
    savepoint: OpenSavepoint,
    query: QueryRecord,
    checkpoint: str,
    migration: Migration,
    progress: Progress,
) -> list[MigratedOperator]:
    """Write a checkpoint of a query with the migrated state; return the migrated operators."""
    try:
        from flinkish.driver.migration.query_migration import rewrite_query
    except ImportError as error:
        raise LaunchFailed(
            f"the driver's Python cannot import {error.name}, which rewriting state needs",
            hint="install flinkish there with its extra: pip install 'flinkish[engine]'",
        ) from error
    ship_package(context)
    return rewrite_query(
        context,
        saved_directory(savepoint, query),
        StorageDirectory(checkpoint),
        query,
        migration,
        progress,
    )
