"""The savepoint of a job's queries for a request, and the queries that have nothing to save.

A savepoint covers the whole job. A query that ended before it committed a batch, or has found no
input for its first one, has no state, and the others are saved without it. If a query did commit
but its checkpoint no longer has a commit, the state that a savepoint must hold is lost: no
savepoint is made, and the error names the query and the reason.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish import __version__, storage
from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.connectors.sources import NewSource
from flinkish.driver.connectors.sinks import facts_at
from flinkish.driver.connectors.sources import identify
from flinkish.driver.log import log
from flinkish.driver.migration.file_transfer import SparkTransferer
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.planned_queries import operator_facts
from flinkish.driver.requests.canonical_savepoints import save_canonical
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.running_query import (
    ManagedQuery,
    reported_batch,
    sink_of,
    sources_of,
    status_of,
)
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import Corrupt, RegistryError, StorageError, WrongState
from flinkish.messages.requests import LeftOut, SavepointArguments, SavepointSummary
from flinkish.registry.jobs import Request
from flinkish.savepoint.format import digests
from flinkish.savepoint.format.contents import FORMAT_CANONICAL, QuerySource, SavepointJob
from flinkish.savepoint.reporter import Pace
from flinkish.savepoint.write.writer import write_savepoint


def write_job_savepoint(
    runtime: Runtime,
    request: Request,
    queries: Sequence[ManagedQuery],
    trigger: str,
    wanted: SavepointArguments,
    left: tuple[LeftOut, ...],
    *,
    deadline: float,
    distributed: str,
    give_up: Callable[[], None],
) -> SavepointSummary:
    """Write a savepoint of some queries, and record it.

    ``left`` are the queries not in it; ``give_up`` raises when a canonical one is no longer wanted.

    Raises RegistryError, with the savepoint's path, if only the record failed, and the errors of
    :func:`.write_savepoint` or :func:`.save_canonical`.
    """
    session = queries[0].session
    launch = runtime.launch
    saved = SavepointJob(
        job_id=runtime.job_id,
        name=runtime.name,
        spark_version=session.version,
        python_version=platform.python_version(),
        flinkish_version=__version__,
        program=digest_of_program(launch.application),
        restored_from=launch.restore.path if launch.restore else None,
        owner=request.requester,
        left_out=left,
        complete=runtime.start_phase.is_complete,
    )
    sources = [_source_of(query) for query in queries]
    reporter = RequestReporter(runtime, request)
    transferer = SparkTransferer(session, distributed)
    if wanted.format == FORMAT_CANONICAL:
        savepoint = save_canonical(
            session.sparkContext,
            wanted.target,
            saved,
            sources,
            trigger=trigger,
            reporter=reporter,
            deadline=deadline,
            transferer=transferer,
            give_up=give_up,
        )
    else:
        savepoint = write_savepoint(
            wanted.target,
            saved,
            sources,
            trigger=trigger,
            reporter=reporter,
            deadline=deadline,
            full=wanted.full,
            transferer=transferer,
        )
    savepoint = replace(savepoint, request_id=request.request_id)
    log(f"savepoint completed: {savepoint.path}")
    try:
        runtime.registry.add_savepoint(savepoint)
    except RegistryError as error:
        raise RegistryError(
            f"{error.message}; the savepoint is complete at {savepoint.path}",
            hint=error.hint,
            savepoint=savepoint.path,
        ) from error
    return savepoint


def check_writable(target: str) -> None:
    """Check that a target can be written, before any query is quiesced for it.

    Raises StorageError, which names the path.
    """
    directory = storage.locate(target)
    storage.make_directory(directory)
    probe = storage.temporary_name(storage.join(directory, "probe"))
    if storage.is_local(directory):
        storage.make_new_directory(probe)
        storage.remove_tree(*storage.split(probe))
        return
    storage.write_bytes(probe, b"")
    storage.remove_file(*storage.split(probe))


def digest_of_program(application: str | None) -> str | None:
    """Return the digest of the program's file, ``sha256:<hex>``.

    None if the program is not a file, or the file is gone or cannot be read.
    """
    if application is None:
        return None
    try:
        return digests.compute(storage.locate(application), digests.SHA256)
    except (FileNotFoundError, StorageError):
        return None


def _source_of(query: ManagedQuery) -> QuerySource:
    status = status_of(query)
    return QuerySource(
        name=query.name,
        checkpoint=query.checkpoint,
        run_id=query.run_id,
        source=with_topics(sources_of(query), query.planned, query.session),
        sink_at=lambda query_id, batch_id: _sink_at(query, query_id, batch_id),
        rows_batch=reported_batch(query.progress),
        operators=operator_facts(query.planned, status.operators),
    )


def _sink_at(query: ManagedQuery, query_id: str, batch_id: int) -> dict[str, Any]:
    """Describe the sink of a query, with the version that its table had at a batch."""
    table, problem = facts_at(query.facts.place, query.session, query_id, batch_id)
    if problem:
        log(f"query '{query.name}': the savepoint does not have its sink's version: {problem}")
    return {**sink_of(query), **table}


class RequestReporter:
    """Writes a savepoint's progress into its request; counts at most a few times a second."""

    _INTERVAL = 0.3

    def __init__(self, runtime: Runtime, request: Request) -> None:
        self._registry = runtime.registry
        self._request_id = request.request_id
        self._facts: dict[str, Any] = {}
        self._next = 0.0
        self._pace = Pace()

    def waits(self, for_what: str) -> None:
        """Report what the driver waits for, if that was not reported already."""
        if self._facts.get("phase") != for_what:
            self.phase(for_what)

    def phase(self, name: str) -> None:
        self._facts["phase"] = name
        self._pace = Pace()
        if name == "rewriting":  # the counts start again
            self._facts = {"phase": name}
        self._send(force=True)

    def files(self, done: int, total: int) -> None:
        self._facts.update(files=done, files_total=total)
        self._send()

    def bytes(self, done: int, total: int) -> None:
        self._facts.update(bytes=done, bytes_total=total, **self._pace.measure(done, total))
        self._send()

    def warning(self, text: str) -> None:
        log(f"warning: {text}")

    def rows(self, done: int, size: int) -> None:
        self._facts.update(rows=done, bytes=size)
        self._send()

    def _send(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now >= self._next:
            self._next = now + self._INTERVAL
            try:
                self._registry.progress(self._request_id, dict(self._facts))
            except RegistryError as error:  # the savepoint matters more
                log(f"registry: {error.message}")


def with_topics(
    records: Sequence[Mapping[str, Any]], planned: PlannedQuery | None, session: Any
) -> list[dict[str, Any]]:
    """Return the records of a query's sources, with the identities of their topics.

    From a topic's identity, a later restore sees that the topic was recreated
    (:mod:`.kafka.reading`). Identities are left out if the broker cannot be reached.
    """
    if planned is None:
        return [dict(record) for record in records]
    completed = []
    for record, source in zip(records, planned.sources, strict=True):
        asked = NewSource(
            source.entry,
            source.directory,
            source.signature,
            (),
            uid=source.uid,
            options=source.options,
        )
        completed.append({**record, **identify(session, asked)})
    return completed


def ended_without_commit(query: ManagedQuery) -> bool:
    """Return whether ``query`` has ended without a commit, and so has nothing to save.

    Raises Corrupt when its commits are lost.
    """
    return not has_committed(query) and spark_jvm.has_ended(query.jsq)


def has_committed(query: ManagedQuery) -> bool:
    """Return whether ``query`` has committed a batch.

    Raises Corrupt if it has, but its checkpoint has no commit.
    """
    if newest_committed_batch(query.checkpoint) is not None:
        return True
    progress = spark_jvm.last_progress(query.jsq)
    if progress is not None:
        query.progress = progress
    batch = _known_commit(query)
    if batch is None or newest_committed_batch(query.checkpoint) is not None:
        return batch is not None
    raise Corrupt(
        f"query '{query.name}' has committed batch {batch}, but its checkpoint "
        f"{query.checkpoint}, or the commits in it, were removed",
        hint="its state is lost, and the savepoint would lack it: end the job with a plain "
        "flinkish cancel and start it from an earlier savepoint, or put the checkpoint back",
        query=query.name,
        path=query.checkpoint,
    )


def _known_commit(query: ManagedQuery) -> int | None:
    """Return a batch that ``query`` is known to have committed, or None."""
    batch = reported_batch(query.progress)
    return query.restored_batch if batch is None else batch


def waits_for_input(query: ManagedQuery) -> bool:
    """Return whether ``query`` has looked for input, found none, and has committed nothing.

    Spark also reports a trigger that found no input, as one that added no batch
    (``ProgressReporter``); a query whose first batch still runs has reported no trigger.
    """
    progress = spark_jvm.last_progress(query.jsq)
    return (
        progress is not None
        and "addBatch" not in progress.get("durationMs", {})
        and not spark_jvm.has_input(query.jsq)
        and not has_committed(query)
    )


#: Why a query is not in the savepoint.
ENDED = "it ended before it committed a batch"
NO_INPUT = "it has committed no batch yet, because it has found no input"


def left_out(
    queries: Sequence[ManagedQuery], savable: Sequence[ManagedQuery]
) -> tuple[LeftOut, ...]:
    """Return the names of the queries that are not in the savepoint, with the reason.

    Raises WrongState if there is no query to save.
    """
    names = {query.name for query in savable}
    out = tuple(
        LeftOut(query.name, ENDED)
        # A query that flinkish has ended for this savepoint had no input until then.
        if spark_jvm.has_ended(query.jsq) and not query.quiesced
        else LeftOut(query.name, NO_INPUT, pending=True)
        for query in queries
        if query.name not in names
    )
    if not names:
        listed = ", ".join(f"'{each.query}'" for each in out)
        raise WrongState(
            f"no query of the job has committed a batch, and all have ended: {listed}",
            hint="there is nothing to save; end the job with: flinkish cancel JOB",
        )
    return out
