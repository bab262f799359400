"""What ``run --resume`` continues from: the newest job of that name that has committed a batch."""

from __future__ import annotations

from flinkish.client.context import Context
from flinkish.errors import Superseded, UsageError, WrongState, quoted
from flinkish.launch.known_jobs import Standing, meant_to_begin, standing
from flinkish.launch.termination import wait_until_gone
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import reconcile
from flinkish.restore.plan.query_id import newest_batch

_FLAG = "--resume"


def check_resume(
    savepoint: str | None, options: RestoreOptions, name: str | None, *, has_plan: bool
) -> None:
    """Raise UsageError for options that contradict ``--resume``."""
    if not name:
        raise UsageError(
            f"{_FLAG} needs the name of the job that it resumes",
            hint=f"name the job: flinkish run --name NAME {_FLAG} APP.py",
        )
    others = [
        ("a plan", "--plan", has_plan),  # first, because a plan names a savepoint
        ("a savepoint", "-s", savepoint is not None),
        ("a claim mode", "-cm (--claimMode)", options.claim_mode is not None),
    ]
    for what, flag, value in others:
        if value:
            raise UsageError(
                f"{what} and {_FLAG} are mutually exclusive: {_FLAG} uses the job's checkpoints",
                hint=f"omit {flag} or {_FLAG}",
            )


def run_to_resume(context: Context, name: str) -> JobRecord | None:
    """Return the ended run that a job of this name resumes; None if no run has committed a batch.

    Raises
    ------
    Superseded
        A job of another name has continued from that run's state.
    WrongState
        A process of that run does not end; or no run has committed a batch, and the newest one
        ended before it had started from its savepoint.
    """
    newest = standing(context.registry, name)
    if newest is None:
        unstarted = meant_to_begin(context.registry, name)
        if unstarted is not None and unstarted.launch.restore is not None:
            raise _never_began(unstarted, unstarted.launch.restore.path)
        return None
    _check_newest(context, newest)
    wait_until_gone(context.registry, newest.job)
    return newest.job


def _never_began(job: JobRecord, savepoint: str) -> WrongState:
    """Return the error for a name whose runs were to start from a savepoint but never did."""
    return WrongState(
        f"job {job.name} ({job.job_id}), which is {job.state.value}, ended before it had "
        f"started from {savepoint}, and no run of that name has committed a batch, so a new "
        "run would start from the beginning",
        hint=f"start it again from there with: flinkish restart {job.job_id}, or: flinkish run "
        f"--name {quoted(job.name)} -s {quoted(savepoint)}; or from the beginning without {_FLAG}",
        job_id=job.job_id,
        state=job.state.value,
    )


def _check_newest(context: Context, standing: Standing) -> None:
    """Raise Superseded if a job of another name has continued from the run."""
    job, registry = standing.job, context.registry
    for query in standing.queries:
        committed = newest_batch(query)  # also if its checkpoint is gone
        for other, status in registry.find_query(query.query_id):
            if other.name == job.name:
                continue
            (now,) = reconcile(registry, [other])
            batch = newest_batch(status)
            ended_later = now.end_time is None or now.end_time > (job.end_time or job.start_time)
            is_ahead = batch is not None and (committed is None or batch > committed)
            if not now.state.is_final or (ended_later and is_ahead):
                at = "has committed no batch" if committed is None else f"is at batch {committed}"
                to = "" if batch is None else f" to batch {batch}"
                raise Superseded(
                    f"job {job.name} ({job.job_id}) {at} of query '{query.name}', but job "
                    f"{now.name} ({now.job_id}), which is {now.state.value}, has continued from "
                    f"the state of that query{to}",
                    hint=f"resume that one with: flinkish run --name {quoted(now.name)} "
                    f"{_FLAG}; or start from a savepoint with -s PATH",
                    job_id=now.job_id,
                    state=now.state.value,
                )
