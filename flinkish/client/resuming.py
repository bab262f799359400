"""Where the job of a name stands: what ``run --resume`` continues from."""

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
    """Refuse options that contradict resuming the job of a name (UsageError)."""
    if not name:
        raise UsageError(
            f"{_FLAG} resumes the job of a name, but no name was given",
            hint=f"name the job: flinkish run --name NAME {_FLAG} APP.py",
        )
    others = [
        ("a savepoint", "-s", savepoint is not None),
        ("a plan", "--plan", has_plan),
        ("a claim mode", "-cm (--claimMode)", options.claim_mode is not None),
    ]
    for what, flag, value in others:
        if value:
            raise UsageError(
                f"{what} and {_FLAG} are mutually exclusive: {_FLAG} uses the job's checkpoints",
                hint=f"omit {flag} or {_FLAG}",
            )


def run_to_resume(context: Context, name: str) -> JobRecord | None:
    """Return the ended run that the job of a name continues; None if none has committed a batch.

    Raises
    ------
    Superseded
        A job of another name has continued from its state.
    WrongState
        A process of it does not end, or its newest run ended before it began with a savepoint,
        and none has committed a batch.
    """
    newest = standing(context.registry, name)
    if newest is None:
        meant = meant_to_begin(context.registry, name)
        if meant is not None and meant.launch.restore is not None:
            raise _never_began(meant, meant.launch.restore.path)
        return None
    _check_newest(context, newest)
    wait_until_gone(context.registry, newest.job)
    return newest.job


def _never_began(job: JobRecord, savepoint: str) -> WrongState:
    """Return the refusal to start from the beginning what was to go on from a savepoint."""
    return WrongState(
        f"job {job.name} ({job.job_id}), which is {job.state.value}, ended before it began with "
        f"{savepoint}, and no run of that name has committed a batch: it would start from the "
        "beginning",
        hint=f"start it again from there with: flinkish restart {job.job_id}, or: flinkish run "
        f"--name {quoted(job.name)} -s {quoted(savepoint)}; or from the beginning without {_FLAG}",
        job_id=job.job_id,
        state=job.state.value,
    )


def _check_newest(context: Context, standing: Standing) -> None:
    """Raise Superseded when a job of another name has continued from a run."""
    job, registry = standing.job, context.registry
    for query in standing.queries:
        committed = standing.committed[query.name]
        for other, status in registry.find_query(query.query_id):
            if other.name == job.name:
                continue
            (now,) = reconcile(registry, [other])
            batch = newest_batch(status)
            after = now.end_time is None or now.end_time > (job.end_time or job.start_time)
            further = batch is not None and (committed is None or batch > committed)
            if not now.state.is_final or (after and further):
                raise Superseded(
                    f"job {job.name} ({job.job_id}) is at batch {committed} of query "
                    f"'{query.name}', but job {now.name} ({now.job_id}), which is "
                    f"{now.state.value}, has continued from its state to batch {batch}",
                    hint=f"resume that one with: flinkish run --name {quoted(now.name)} "
                    f"{_FLAG}; or start from a savepoint with -s PATH",
                    job_id=now.job_id,
                    state=now.state.value,
                )
