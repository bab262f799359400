"""After a reboot: restart the lost jobs of this host that have a restart strategy."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from flinkish.client.context import Context
from flinkish.client.restart_plan import Restart, plan_restart
from flinkish.client.restarts import carry_out
from flinkish.errors import FlinkishError
from flinkish.launch.restart_strategy import is_undecided, may_restart, name_in
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import is_alive, reconcile
from flinkish.registry.statements import is_guess


@dataclass(frozen=True)
class Recovery:
    """The outcome for one job in :func:`recover`.

    Parameters
    ----------
    job : JobRecord
        The job as it was found.
    restart : Restart or None
        How the job is started again.
    error : FlinkishError or None
        Why the job is not started again.
    """

    job: JobRecord
    restart: Restart | None = None
    error: FlinkishError | None = None


def recover(
    context: Context,
    *,
    dry_run: bool = False,
    on_recovery: Callable[[Recovery], None] | None = None,
) -> list[Recovery]:
    """Restart the jobs of this host whose processes are gone, if they have a restart strategy.

    After a reboot, these are all jobs with a strategy that were running, because nobody could
    record their ends. A job whose failure somebody has acknowledged is left alone.

    Parameters
    ----------
    context : Context
        Has the registry.
    dry_run : bool
        Only find out what would be started.
    on_recovery : callable, optional
        Called with each outcome as soon as it is known.

    Returns
    -------
    list of Recovery
        One for each such job, by start time.
    """
    recoveries = []
    for job in lost_jobs(context):
        try:
            restart = plan_restart(context, job)
            if not dry_run:
                carry_out(context, restart, "recovered: its processes were gone")
            recovery = Recovery(job, restart)
        except FlinkishError as error:
            recovery = Recovery(job, error=error)
        recoveries.append(recovery)
        if on_recovery is not None:
            on_recovery(recovery)
    return recoveries


def lost_jobs(context: Context, host: str | None = None) -> list[JobRecord]:
    """Return jobs whose processes are gone, if they have a restart strategy.

    Jobs whose failure somebody has acknowledged are left out.

    Parameters
    ----------
    context : Context
        Has the registry.
    host : str, optional
        Only jobs that ran on this host are returned. Default: the host of this process.
    """
    registry = context.registry
    reconcile(registry, [job for job in registry.jobs() if not job.state.is_final])
    here = host or os.uname().nodename
    return [
        job
        for job in registry.unacknowledged()
        if name_in(job.launch.options) != "none"  # plan_restart refuses those of other launchers
        and not (job.supervisor is not None and is_alive(job.supervisor))  # it restarts the job
        and _ran_on(job, here)
        and (
            is_guess(job.failure)
            # Its driver left it to a supervisor that no longer ran to restart it.
            or (
                may_restart(job.failure, has_run=True)
                and is_undecided(job, registry.state_history(job.job_id))
            )
        )
    ]


def _ran_on(job: JobRecord, host: str) -> bool:
    """Return whether a job ran on a host.

    A restart that was cut off leaves no process in the record: then the job ran where its log is.
    """
    hosts = {ref.host for ref in (job.supervisor, job.driver) if ref is not None}
    if not hosts and host == os.uname().nodename:
        return job.log_path is not None and os.path.exists(job.log_path)
    return host in hosts
