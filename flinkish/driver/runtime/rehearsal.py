"""Run batches of a query on a copy of a job's state, without its sink.

The query gets a checkpoint of its own, made as a restore makes it, from the newest committed batch
of the job, which goes on. Its output goes nowhere (Spark's ``noop`` sink), so code in
``foreachBatch`` does not run. Its sources are read from the job's positions on. Listeners of the
program's session see the query.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from flinkish import storage
from flinkish.checkpoint.cut import FilesVanished, newest_committed_batch
from flinkish.driver.log import log
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.restore.restorer import Restorer
from flinkish.driver.runtime.naming import directory_name
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.driver.spark.settings import configured
from flinkish.errors import Corrupt, ProgramFailed
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.spec.calls import JobOrigin
from flinkish.spec.launch import RestoreSpec

_POLL = 0.05
#: Seconds that a query without input gets to find some.
_NO_INPUT = 1.0
#: Attempts to copy the state of a job that trims its checkpoint meanwhile.
_ATTEMPTS = 3


def rehearse(
    registry: Registry,
    job: JobRecord,
    origin: JobOrigin,
    spec: RestoreSpec,
    options: Mapping[str, str],
    *,
    name: str,
    writer: Any,
    facts: WriterFacts,
    directory: str,
    patience: float,
    is_over: Callable[[], bool],
) -> bool:
    """Run a batch of a query that is about to be started; return whether there was one.

    Parameters
    ----------
    job
        The job of this driver.
    origin
        The job whose state is copied.
    directory
        Where the copy is made; it is removed again.
    patience
        Seconds that the batch may take; a longer one is given up, which is no error.
    is_over
        Whether this job was canceled meanwhile.

    Raises
    ------
    ProgramFailed
        The batch failed.
    FlinkishError
        The query could not go on from the job: a refusal of the restore.
    """
    session = writer._spark
    target = storage.join(directory, directory_name(name))
    planning = Planning(options)
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            restorer = Restorer(registry, job.job_id, spec, planning.hasher, origin)
            planned, _ = planning.plan_to_run(name, writer, facts, restorer.settings_for(name))
            try:
                restored = restorer.restore(name, planned, facts, session, target)
                break
            except (Corrupt, FilesVanished) as error:
                if attempt == _ATTEMPTS:
                    raise
                log(f"copying the state again, as the job has gone on: {error.message}")
        if restored.batch_id is None:
            return False
        with configured(session, restorer.session_settings()):
            jsq = (
                writer._df._jdf.writeStream()
                .format("noop")
                .outputMode(facts.output_mode or "append")
                .option("checkpointLocation", storage.for_spark(target))
                .start()
            )
        try:
            return _run(jsq, name, target, restored.batch_id, patience, is_over)
        finally:
            jsq.stop()
    finally:
        if storage.is_directory(directory):
            storage.remove_tree(*storage.split(directory))


def _run(
    jsq: Any,
    name: str,
    checkpoint: str,
    restored: int,
    patience: float,
    is_over: Callable[[], bool],
) -> bool:
    """Wait until the query has committed a batch, or has no input, or has taken too long."""
    begun = time.monotonic()
    idle: float | None = None
    while True:
        error = spark_jvm.error_of(jsq)
        if error is not None:
            raise ProgramFailed(
                f"query '{name}' failed in a batch on a copy of the job's state: {error[:400]}"
            )
        if (newest_committed_batch(checkpoint) or 0) > restored:
            return True
        now = time.monotonic()
        idle = (idle or now) if spark_jvm.waits_for_input(jsq) else None
        if (idle is not None and now - idle > _NO_INPUT) or now - begun > patience or is_over():
            return False
        time.sleep(_POLL)
