"""What the registry knows of other jobs that matters to the start of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.errors import JobNotFound, StorageError
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, QueryStatus
from flinkish.registry.liveness import reconcile
from flinkish.spec.calls import KnownWriter


def known_writers(registry: Registry, own: str | None) -> tuple[KnownWriter, ...]:
    """Return the places that queries of jobs write to which have not ended, without ``own``."""
    here = os.uname().nodename
    claims = [claim for claim in registry.writers() if claim.job.job_id != own]
    jobs = {claim.job.job_id: claim.job for claim in claims}
    found = {job.job_id: job for job in reconcile(registry, jobs.values())}
    return tuple(
        KnownWriter(
            job_id=job.job_id,
            name=job.name,
            state=job.state.value,
            query=claim.query,
            place=claim.place,
            is_table=claim.is_table,
            elsewhere=job.driver is not None and job.driver.host != here,
        )
        for claim in claims
        if not (job := found[claim.job.job_id]).state.is_final
    )


@dataclass(frozen=True)
class Standing:
    """The newest run of a job's name, which has ended: where the job stands.

    Attributes
    ----------
    committed
        The newest committed batch of each query, by name; None for one without, or whose checkpoint
        is gone.
    """

    job: JobRecord
    queries: tuple[QueryStatus, ...]
    committed: Mapping[str, int | None]

    @property
    def batch(self) -> int | None:
        """The newest committed batch of all queries."""
        return max((n for n in self.committed.values() if n is not None), default=None)


def standing(registry: Registry, name: str, but: str | None = None) -> Standing | None:
    """Return where the job of a name stands; None if no run of it has committed a batch.

    Parameters
    ----------
    but
        A run that does not count.
    """
    jobs = [job for job in registry.jobs(name=name) if job.state.is_final and job.job_id != but]
    for job in sorted(jobs, key=lambda job: (job.end_time or 0.0, job.start_time), reverse=True):
        queries = registry.queries(job.job_id)
        committed = {query.name: _committed(query) for query in queries}
        if any(q.batch_id is not None or committed[q.name] is not None for q in queries):
            return Standing(job, tuple(queries), committed)
    return None


def came_from(registry: Registry, job: JobRecord) -> list[str]:
    """Return the ids of the jobs that a job has gone on from, the nearest first."""
    found: list[str] = []
    while job.launch.restore is not None:
        spec = job.launch.restore
        saved = registry.savepoints(include_disposed=True) if spec.job is None else ()
        origin = spec.job or next((each.job_id for each in saved if each.path == spec.path), None)
        if origin is None or origin in found:
            break
        found.append(origin)
        try:
            job = registry.job(origin)
        except JobNotFound:
            break
    return found


def _committed(query: QueryStatus) -> int | None:
    try:
        return newest_committed_batch(query.checkpoint_dir)
    except StorageError:
        return None
