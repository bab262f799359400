"""Whether a program that another launcher starts again goes on from its last driver.

A launcher that restarts a program (a pod, a task's next try) starts it with the same settings, also
with the savepoint that it was first started from. It must not be restored again: the program goes
on where its last driver ended. That is in its own checkpointLocation, unless what was there before
was in the way of the restored checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from flinkish.driver.log import log
from flinkish.errors import Locked
from flinkish.messages.launch import Launch
from flinkish.messages.queries import QueryStatus
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import STALE, reconcile

#: Seconds to wait for a last driver whose end has not been noticed.
_PATIENCE = STALE + 15.0
_LOOK = 1.0


def goes_on_from(jobs: Sequence[JobRecord], launch: Launch) -> JobRecord | None:
    """Return the job whose driver is started again, or None for a new job. Pure.

    ``jobs`` are those of the name, oldest first. Only a job that was restored counts: the others go
    on in the locations that the program names.
    """
    for job in reversed(jobs):
        if job.launch.external is None or not _same_program(job.launch, launch):
            continue
        before, now = job.launch.restore, launch.restore
        if before is None:
            return None
        return job if now is None or now.path == before.path else None
    return None


def _same_program(one: Launch, other: Launch) -> bool:
    if one.named or other.named:
        return one.named and other.named
    return (one.application, one.module) == (other.application, other.module)


def has_committed(queries: Sequence[QueryStatus]) -> bool:
    """Return whether a restored job has a checkpoint to go on in. Pure."""
    return any(query.restored_batch is not None for query in queries)


def earlier_job(registry: Registry, name: str, launch: Launch) -> JobRecord | None:
    """Return the ended job that a program continues, or None.

    Raises Locked if it still runs.
    """
    deadline = time.monotonic() + _PATIENCE
    has_said = False
    while True:
        job = goes_on_from(registry.jobs(name=name), launch)
        if job is None:
            return None
        (job,) = reconcile(registry, [job])
        if job.state.is_final:
            return job if has_committed(registry.queries(job.job_id)) else None
        if launch.restore is None:
            return None
        if time.monotonic() > deadline:
            raise Locked(
                f"job {job.name} ({job.job_id}), which was restored from the same savepoint, is "
                f"{job.state.value}",
                hint=f"stop it with: flinkish stop {job.job_id}; or give this one another name",
                job_id=job.job_id,
            )
        if not has_said:
            has_said = True
            log(f"waiting for the end of job {job.job_id}, from which this program goes on")
        time.sleep(_LOOK)
