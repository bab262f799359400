"""Whether an ended job can be started again in place, and from which batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.client.context import Context
from flinkish.config import MASK
from flinkish.errors import ExternalJob, NonRestoredState, UsageError, WrongState
from flinkish.launch.secret_settings import without_secrets
from flinkish.messages.launch import Launch, Program
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import reconcile
from flinkish.registry.purging import why_purged
from flinkish.registry.statements import name_taken, superseded
from flinkish.units import counted

#: Keeps the recorded Spark, settings and Pythons.
NO_CHANGES = Program()


@dataclass(frozen=True)
class Restart:
    """A job that can be started again in place, or was (:mod:`.restarts`).

    Parameters
    ----------
    job : JobRecord
        The ended job, with the secrets that were given again; or the started one.
    batches : mapping
        The batch that each query continues from; None for a query that starts from the beginning.
    savepoint : str or None
        The savepoint from which a new job starts instead.
    """

    job: JobRecord
    batches: Mapping[str, int | None] = field(default_factory=dict)
    savepoint: str | None = None


def plan_restart(context: Context, job: JobRecord, changes: Program = NO_CHANGES) -> Restart:
    """Check that an ended job can be started again in place, from its newest committed batch.

    Parameters
    ----------
    context : Context
        Has the registry.
    job : JobRecord
        The job.
    changes : Program, optional
        Has the unrecorded secret settings and arguments. Other settings must be as recorded.

    Returns
    -------
    Restart
        What will be started.

    Raises
    ------
    ExternalJob
        Another launcher has started the job.
    WrongState
        The job has not ended or was purged, another job has continued from its state or has its
        name, its program or a checkpoint is gone, it never took over from the job that it was to
        replace, or it was refused because it would leave state behind.
    Locked
        An unfinished upgrade continues from the job, or has its name.
    UsageError
        Secrets are missing, or cannot be given; or a setting or the number of secret arguments is
        not as recorded.
    """
    check_ours(job, "restarted")
    job = check_ended(context, job)
    who = f"job {job.name} ({job.job_id})"
    purged = why_purged(job)
    if purged is not None:
        raise purged
    if job.launch.restore is not None and job.launch.restore.is_awaited:
        raise WrongState(
            f"{who} was meant to take over from another job, but never did",
            hint="upgrade the other job again",
            job_id=job.job_id,
            state=job.state.value,
        )
    failure = job.failure or {}
    if failure.get("id") == NonRestoredState.id:
        raise WrongState(
            f"{who} was refused because state would have been left behind: "
            f"{failure.get('message')}",
            hint=f"start the program with flinkish run; {failure.get('hint')}",
            job_id=job.job_id,
            state=job.state.value,
        )
    queries = context.registry.queries(job.job_id)
    check_alone(context.registry, job)
    launch = with_secrets(job.launch, changes.conf, changes.secret_arguments or None)
    _check_same_settings(job, launch)
    if launch.application is not None and not os.path.exists(launch.application):
        raise WrongState(
            f"the program of {who} no longer exists: {launch.application}",
            hint="put it back, or run another program",
        )
    batches = {query.name: newest_committed_batch(query.checkpoint_dir) for query in queries}
    for query in queries:
        if query.batch_id is not None and batches[query.name] is None:
            raise WrongState(
                f"query '{query.name}' of {who} had committed batch {query.batch_id}, but "
                f"its checkpoint {query.checkpoint_dir} no longer exists",
                hint="start the program from a savepoint instead",
            )
    return Restart(replace(job, launch=launch), batches)


def check_ours(job: JobRecord, what: str) -> None:
    """Raise an error if another launcher, and not flinkish, starts the driver of a job. Pure.

    Parameters
    ----------
    job : JobRecord
        The job.
    what : str
        What would be done with the job, as a participle.

    Raises
    ------
    ExternalJob
        Another launcher has started the job.
    """
    if job.launch.external is None:
        return
    stop = "" if job.state.is_final else f"stop it with a savepoint: flinkish stop {job.job_id}; "
    raise ExternalJob(
        f"job {job.name} ({job.job_id}) cannot be {what}: its launcher "
        f"({job.launch.external.name}) starts it, and flinkish cannot",
        hint=f"{stop}have its launcher start the program again, from a savepoint with "
        "FLINKISH_FROM_SAVEPOINT=PATH",
        job_id=job.job_id,
        state=job.state.value,
    )


def check_ended(context: Context, job: JobRecord) -> JobRecord:
    """Return a job as it is now; raise WrongState when it has not ended."""
    (job,) = reconcile(context.registry, [job])
    if not job.state.is_final:
        raise WrongState(
            f"job {job.name} ({job.job_id}) is {job.state.value}: only a job that has "
            "ended can be restarted",
            hint=f"end it first, with: flinkish stop {job.job_id}",
            job_id=job.job_id,
            state=job.state.value,
        )
    return job


def check_alone(registry: Registry, job: JobRecord) -> None:
    """Raise an error if another job or an unfinished upgrade continues from the state of ``job``.

    If a user gave the job's name, no other unfinished job or upgrade may have that name either.

    Raises
    ------
    NameTaken, Locked, Superseded
        As in :meth:`.job_registry.Registry.restart`, which checks this again.
    """
    if job.has_given_name:
        check_name_free(registry, job)
    registry.check_not_in_upgrade(name=job.name if job.has_given_name else None, job=job)
    while (successor := registry.successor(job)) is not None:
        (current,) = reconcile(registry, [successor])
        if current.state.is_final == successor.state.is_final:
            raise superseded(job, current)


def check_name_free(registry: Registry, job: JobRecord) -> None:
    """Raise NameTaken if another job has the name of ``job`` and runs; dead jobs do not count."""
    for other in reconcile(registry, registry.jobs(name=job.name)):
        if not other.state.is_final and other.job_id != job.job_id:
            raise name_taken(other)


def with_secrets(
    launch: Launch, conf: Mapping[str, str], secret_args: Sequence[str] | None
) -> Launch:
    """Return a recorded launch with the secrets that were given again. Pure.

    Raises
    ------
    UsageError
        A secret is missing, or no option can give a masked argument of the program.
    """
    complete = replace(launch, conf={**launch.conf, **conf})
    if secret_args is not None:
        complete = replace(complete, secret_arguments=tuple(secret_args))
    # Name only the keys: "KEY=..." would be masked as a secret where it is printed.
    missing = [key for key, value in complete.conf.items() if value == MASK]
    flags = [f"--conf {key}" for key in missing]
    if MASK in complete.secret_arguments:
        missing.append("secret arguments")
        flags.append("--secret-args FILE")
    if missing:
        raise UsageError(
            "the registry does not have the job's secrets, which a restart needs: "
            f"{', '.join(missing)}",
            hint=f"pass them again: {', '.join(flags)}",
        )
    if any(MASK in word for word in complete.arguments):
        raise UsageError(
            "the registry does not have a secret argument of the program",
            hint="start the program with flinkish run, with its secret arguments in --secret-args",
        )
    return complete


def _check_same_settings(job: JobRecord, launch: Launch) -> None:
    """Raise UsageError if a launch changes the job's settings or number of secret arguments."""
    recorded, number = len(job.launch.secret_arguments), len(launch.secret_arguments)
    if recorded != number:
        raise UsageError(
            "a restart in place keeps the job's arguments: it was started with "
            f"{counted(recorded, 'secret argument')}, not {number}",
            hint="pass the same secret arguments, one per line of the file of --secret-args"
            if recorded
            else "omit --secret-args; or start the program with flinkish run",
        )
    kept = without_secrets(launch).conf
    changed = [key for key, value in kept.items() if job.launch.conf.get(key) != value]
    if changed:
        raise UsageError(
            f"a restart in place keeps the job's settings, and {', '.join(changed)} would change",
            hint=f"start a new job with them: flinkish restart {job.job_id} --from SAVEPOINT "
            "--conf KEY=VALUE; or flinkish run --resume, which continues from the newest batch",
        )
