"""The filtered list of the registry's jobs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from flinkish.client.context import Context
from flinkish.client.failures import unacknowledged
from flinkish.registry.jobs import ACTIVE_STATES, JobRecord, JobState
from flinkish.registry.liveness import reconcile
from flinkish.registry.statements import name_matches


@dataclass(frozen=True)
class JobFilter:
    """Which jobs are wanted; the conditions add up.

    Attributes
    ----------
    states
        Only jobs in these states; None means all.
    name
        Only jobs whose name matches; ``*`` and ``?`` are wildcards.
    since
        Only jobs that were started then or later, in seconds since the epoch.
    failed
        Only jobs that ran and failed, and that nobody has acknowledged.
    """

    states: Collection[JobState] | None = None
    name: str | None = None
    since: float | None = None
    failed: bool = False

    def takes(self, job: JobRecord) -> bool:
        """Return whether a job is wanted, except that it may be acknowledged. Pure."""
        return (
            (self.states is None or job.state in self.states)
            and (self.name is None or name_matches(job.name, self.name))
            and (self.since is None or job.start_time >= self.since)
        )


def find_jobs(context: Context, wanted: JobFilter) -> list[JobRecord]:
    """Return the wanted jobs by start time; a job whose process is gone is FAILED from now on.

    ``wanted``: which jobs.
    """
    if wanted.failed:
        jobs = unacknowledged(context)
    else:
        # Select by state before checking the processes, and filter after: a dead job is not
        # running, it has failed.
        registry, states = context.registry, wanted.states
        if states is not None and JobState.FAILED in states:
            states = ACTIVE_STATES.union(states)
        jobs = reconcile(registry, registry.jobs(states=states))
    return [job for job in jobs if wanted.takes(job)]
