"""Hold the new program of a handover before its first query, until the old job has been stopped.

``flinkish upgrade in-place --handover`` starts the driver of the new program while the old job
still runs. The slow steps are done in that time: the JVM, the session, the program up to its first
query, and a batch of that query on a copy of the old job's state. For this batch Spark loads its
classes and compiles the query. A query that removes its input (``cleanSource``) runs no such batch.
The job is then CREATED, and waits until the upgrade has written the path of the savepoint into the
job's record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from flinkish import storage
from flinkish.driver.log import log
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime.naming import Names
from flinkish.driver.runtime.rehearsal import Rehearsal, RemovesInput
from flinkish.errors import ProgramFailed, RegistryError, WrongState
from flinkish.launch.job_origin import job_origin
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.rehearsals import RehearsalLimits
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState

_POLL = 0.02
#: Seconds until a registry that was unavailable is asked again.
_UNAVAILABLE = 1.0
#: One batch on the copy. A batch that outlasts ``patience`` is given up, which is not a failure.
_LIMITS = RehearsalLimits(batches=1, patience=60.0)


def await_turn(
    registry: Registry,
    job_id: str,
    writer: Any,
    facts: WriterFacts,
    is_over: Callable[[], bool],
) -> RestoreSpec:
    """Prepare a query that is about to start, and wait for the savepoint that it restores.

    ``is_over`` returns whether the job was canceled meanwhile.

    Raises SystemExit if the job has ended, and FlinkishError if the registry has no upgrade for the
    job, if the query could not be restored from the old job, or if it fails in its batch on the
    copy. After a FlinkishError this job fails, and the old job continues.
    """
    job = registry.job(job_id)
    assert job.launch.restore is not None
    if job.launch.restore.is_awaited:  # else a resumed upgrade has named the savepoint
        _get_ready(registry, job, job.launch.restore, writer, facts, is_over)
    if is_over():
        raise SystemExit(0)
    registry.transition(job_id, JobState.CREATED, "its program is at its first query")
    log("the program is held at its first query until the old job is stopped")
    return _await_savepoint(registry, job_id, is_over)


def _get_ready(
    registry: Registry,
    job: JobRecord,
    spec: RestoreSpec,
    writer: Any,
    facts: WriterFacts,
    is_over: Callable[[], bool],
) -> None:
    before = [each for each in registry.upgrades_of(job.job_id) if each.new_job_id == job.job_id]
    if not before or job.checkpoint_dir is None:
        raise WrongState("the job is part of a handover, but the registry has no upgrade for it")
    old = registry.job(before[-1].job_id)
    name = str(facts.query_name or Names(job.checkpoint_dir).generate(None, None))
    directory = storage.join(job.checkpoint_dir, ".rehearsal")
    noop = writer._df._jdf.writeStream().format("noop").outputMode(facts.output_mode or "append")
    begun = time.monotonic()
    rehearsal = Rehearsal(spec, job_origin(registry, old), job.launch.options, directory)
    try:
        rehearsed = rehearsal.run(name, writer, facts, noop, _LIMITS, is_over)
    except RemovesInput as error:
        log(f"no batch is run on a copy of the state: {error.message}")
        return
    finally:
        rehearsal.close()
    if rehearsed.error is not None and not rehearsed.late:
        raise ProgramFailed(
            f"query '{name}' failed in a batch on a copy of the job's state: {rehearsed.error}"
        )
    what = "has run a batch" if rehearsed.batches else "has run no batch"
    log(f"the query {what} on a copy of the state, in {time.monotonic() - begun:.1f} s")


def _await_savepoint(registry: Registry, job_id: str, is_over: Callable[[], bool]) -> RestoreSpec:
    while True:
        try:
            job = registry.job(job_id)
        except RegistryError as error:
            log(f"registry: {error.message}")
            time.sleep(_UNAVAILABLE)
            continue
        assert job.launch.restore is not None
        if not job.launch.restore.is_awaited:
            return job.launch.restore
        if is_over() or job.state.is_final:
            raise SystemExit(0)
        time.sleep(_POLL)
