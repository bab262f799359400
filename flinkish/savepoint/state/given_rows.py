"""Writing a savepoint whose state is given as rows, in one process and so for small state only."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish import storage
from flinkish.checkpoint.format.log_rewrites import with_state_ids
from flinkish.checkpoint.format.logs import StateIds, parse_commit
from flinkish.checkpoint.format.names import COMMITS, STATE
from flinkish.engine.migration.pipeline import WrittenOperator
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.tables.bootstrap_state import write_rows
from flinkish.errors import UsageError
from flinkish.messages.requests import SavepointSummary
from flinkish.operators.identity import OperatorFacts
from flinkish.savepoint.format.contents import OperatorRecord, QueryRecord, QuerySource
from flinkish.savepoint.format.operator_lookup import find_operator
from flinkish.savepoint.format.reader import OpenSavepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.state.engine_errors import converted_errors
from flinkish.savepoint.state.state_directories import saved_directory, scratch_directory
from flinkish.savepoint.write.query_records import rewritten_source
from flinkish.savepoint.write.writer import write_savepoint
from flinkish.storage.directory import StorageDirectory

#: The rows of states: ``key`` and ``value`` of each as JSON data.
Rows = Sequence[Mapping[str, Any]]


def with_rows(
    savepoint: OpenSavepoint, states: Mapping[str, Rows], directory: str
) -> SavepointSummary:
    """Write a copy of a savepoint that has other rows in some states.

    ``states`` has the rows by ``[QUERY/]UID[/STATE]``, as ``flinkish state show --raw --json``
    shows them. ``directory`` is the parent of the new savepoint's directory.

    Raises UsageError if no or several operators match, or a state is given twice; Incompatible if
    there is no such state, or rows are not of its form; Corrupt or UnsupportedFormat if the state
    cannot be read; and the errors of :func:`~flinkish.savepoint.write.writer.write_savepoint`.
    """
    chosen: dict[str, dict[int, dict[str, Rows]]] = {}
    for name, rows in states.items():
        query, operator, state = find_operator(savepoint, name)
        states_rows = chosen.setdefault(query.name, {}).setdefault(operator.state.ordinal, {})
        if state in states_rows:
            raise UsageError(f"the state {name!r} is given twice", hint="give each state once")
        states_rows[state] = rows
    job = savepoint.header.job
    with scratch_directory(directory, job.job_id, job.owner) as scratch:
        sources = [
            _source(
                savepoint, query, storage.join(scratch, str(number)), chosen.get(query.name, {})
            )
            for number, query in enumerate(savepoint.queries)
        ]
        return write_savepoint(
            directory,
            job,
            sources,
            trigger="migrate",
            reporter=SilentSavepointReporter(),
            deadline=time.monotonic(),
            full=True,
            format_=savepoint.header.format,
        )


def _source(
    savepoint: OpenSavepoint,
    query: QueryRecord,
    checkpoint: str,
    chosen: Mapping[int, Mapping[str, Rows]],
) -> QuerySource:
    """Write a query's checkpoint with the given rows of its states; return it as a source."""
    source, target = saved_directory(savepoint, query), StorageDirectory(checkpoint)
    index = savepoint.queries.index(query)
    replaced = tuple(f"{STATE}/{ordinal}/" for ordinal in chosen)
    with converted_errors(query.name):
        for record in savepoint.iter_files():
            if record.query == index and not record.path.startswith(replaced):
                with source.open(record.path) as old, target.create(record.path) as new:
                    shutil.copyfileobj(old, new)
        operators = read_checkpoint(source, query.batch_id).operators
        spark = savepoint.header.job.spark_version
        root = storage.for_spark(checkpoint)
        written = {
            operator.ordinal: write_rows(
                chosen[operator.ordinal], source, operator, target, root=root, spark=spark
            )
            for operator in operators
            if operator.ordinal in chosen
        }
        new_ids = {n: each.unique_ids for n, each in written.items() if each.unique_ids is not None}
        if new_ids:
            _put_ids(target, f"{COMMITS}/{query.batch_id}", new_ids)
    facts = [_facts(op, written.get(op.state.ordinal)) for op in query.operators]
    return rewritten_source(query, checkpoint, facts)


def _put_ids(target: StorageDirectory, name: str, new: Mapping[int, StateIds]) -> None:
    """Put the ids of new state files into an entry of the commit log."""
    with target.open(name) as file:
        entry = file.read()
    ids = {**(parse_commit(entry, name).state_ids or {}), **new}
    with target.create(name) as file:
        file.write(with_state_ids(entry, name, ids=ids))


def _facts(operator: OperatorRecord, written: WrittenOperator | None) -> OperatorFacts:
    if written is None:
        return operator.facts
    counts = {store: digest.rows for store, digest in written.digests.items()}
    # A store with several column families has one digest, so the rows of each are not known.
    is_counted = counts.keys() >= {store.name for store in operator.state.stores}
    rows = operator.rows_of_spark(counts) if is_counted else None
    return replace(operator.facts, rows=rows, state_digest=f"{written.digest.content:016x}")
