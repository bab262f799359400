"""Restart ended jobs: one on demand, or after a reboot all that request it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.client.check_origin import check_restorable
from flinkish.client.context import Context
from flinkish.client.program import pinned, with_spark
from flinkish.client.waiting import wait_until_started
from flinkish.config import MASK
from flinkish.errors import (
    ConsentNeeded,
    DriverLost,
    ExternalJob,
    FlinkishError,
    NonRestoredState,
    UsageError,
    WrongState,
)
from flinkish.launch import launcher, spark_submit
from flinkish.launch.notifier import supervisor_environment
from flinkish.launch.restart_strategy import name_of
from flinkish.launch.secret_settings import without_secrets
from flinkish.launch.termination import wait_until_gone
from flinkish.messages.launch import Launch, Program, RestoreSpec
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState
from flinkish.registry.liveness import is_alive, reconcile
from flinkish.registry.purging import why_purged
from flinkish.registry.statements import name_taken, superseded
from flinkish.restore.plan.starts import with_options_of_run

#: No change of Spark, master and Pythons.
SAME_SPARK = Program()


@dataclass(frozen=True)
class Restart:
    """A job that can be started again (:func:`carry_out`), or was (:func:`restart`).

    Parameters
    ----------
    job : JobRecord
        The ended job, with the secrets that were given again; or the started one.
    batches : mapping
        The batch that each query continues from; None for one that starts from the beginning.
    savepoint : str or None
        The savepoint from which a new job starts instead.
    """

    job: JobRecord
    batches: Mapping[str, int | None] = field(default_factory=dict)
    savepoint: str | None = None


def restart(
    context: Context,
    job: JobRecord,
    savepoint: str | None = None,
    *,
    conf: Mapping[str, str] | None = None,
    secret_args: Sequence[str] | None = None,
    sink_ahead: str | None = None,
    accept_lost_rows: bool = False,
    spark: Program = SAME_SPARK,
    dry_run: bool = False,
    wait: bool = True,
) -> Restart:
    """Start an ended job again in place, or its program as a new job from a savepoint.

    With another Spark, master or Python it is a new job, by default from the savepoint that the job
    was stopped with. Parameters and errors are those of :func:`plan_restart` and
    :func:`restart_from`. With ``wait`` it returns once the job runs, see
    :func:`.waiting.wait_until_started`.
    """
    if savepoint is None and _is_another(spark):
        savepoint = _own_savepoint(context, _ended(context, job))
    if savepoint is None:
        begun = plan_restart(context, job, conf=conf, secret_args=secret_args)
    else:
        begun = Restart(job, savepoint=savepoint)
    if dry_run:
        return begun
    if savepoint is None:
        started = carry_out(context, begun)
    else:
        started = restart_from(
            context,
            job,
            savepoint,
            conf=conf,
            secret_args=secret_args,
            sink_ahead=sink_ahead,
            accept_lost_rows=accept_lost_rows,
            spark=spark,
        )
    if not wait:
        return replace(begun, job=started)
    if savepoint is None:
        return replace(begun, job=wait_until_started(context, started))
    return replace(begun, job=wait_until_restored(context, started, savepoint))


def wait_until_restored(context: Context, job: JobRecord, savepoint: str) -> JobRecord:
    """Wait as :func:`.waiting.wait_until_started`; a refusal names the options of ``run -s``."""
    try:
        return wait_until_started(context, job)
    except ConsentNeeded as refusal:
        with_options_of_run(refusal, savepoint)
        raise


def ended_by(registry: Registry, job: JobRecord) -> Request | None:
    """Return the stop, or the cancel with a savepoint, by which a job ended; None without one."""
    ended = [
        request
        for request in registry.requests(job.job_id)
        if request.kind is not RequestKind.SAVEPOINT and request.savepoint is not None
    ]
    if not ended or ended[-1].state is not RequestState.COMPLETED:
        return None
    return None if has_run_since(registry, ended[-1]) else ended[-1]


def has_run_since(registry: Registry, request: Request) -> bool:
    """Return whether the job of a completed stop has been restarted in place since."""
    return any(
        change.state is JobState.RESTARTING and change.time >= (request.finished or 0.0)
        for change in registry.state_history(request.job_id)
    )


def _is_another(spark: Program) -> bool:
    """Return whether a Spark, a master or a Python is named, not only settings."""
    named = (spark.master, spark.spark_home, spark.python, spark.client_python)
    return any(name is not None for name in named)


def _own_savepoint(context: Context, job: JobRecord) -> str:
    """Return the savepoint that a job was stopped with; WrongState without one."""
    request = ended_by(context.registry, job)
    if request is None or request.result is None or request.result.savepoint is None:
        raise WrongState(
            f"job {job.name} ({job.job_id}) did not end with a savepoint, and another Spark or "
            "master starts only from one",
            hint=f"take one with: flinkish savepoint {job.job_id} TARGET, and name it with --from",
            job_id=job.job_id,
            state=job.state.value,
        )
    return request.result.savepoint.path


def plan_restart(
    context: Context,
    job: JobRecord,
    *,
    conf: Mapping[str, str] | None = None,
    secret_args: Sequence[str] | None = None,
) -> Restart:
    """Check that an ended job can be started again in place, from its newest committed batch.

    Parameters
    ----------
    context : Context
        Has the registry.
    job : JobRecord
        The job.
    conf : mapping, optional
        Spark settings in place of recorded ones: the secret ones, which are not recorded.
    secret_args : sequence of str, optional
        The secret arguments of the program, which are not recorded.

    Returns
    -------
    Restart
        What will be started.

    Raises
    ------
    ExternalJob
        Another launcher has started it.
    WrongState
        The job has not ended, another job has continued from its state or has its name, its program
        is gone, or its checkpoints are, or it was refused for state that it leaves behind.
    Locked
        An unfinished upgrade continues from it, or has its name.
    UsageError
        Secrets are missing, or there are none; or a setting is not the recorded one.
    """
    check_ours(job, "restarted")
    job = _ended(context, job)
    who = f"job {job.name} ({job.job_id})"
    purged = why_purged(job)
    if purged is not None:
        raise purged
    if job.launch.restore is not None and job.launch.restore.is_awaited:
        raise WrongState(
            f"{who} was meant to take over from another job, but never did",
            hint="upgrade that job again",
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
    launch = with_secrets(job.launch, conf or {}, secret_args)
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
    """Refuse to start the driver of a job that another launcher has started. Pure.

    Parameters
    ----------
    job : JobRecord
        The job.
    what : str
        What would be done with it, as a participle.

    Raises
    ------
    ExternalJob
        It was attached by its program.
    """
    if job.launch.external is None:
        return
    stop = "" if job.state.is_final else f"stop it with a savepoint: flinkish stop {job.job_id}; "
    raise ExternalJob(
        f"job {job.name} ({job.job_id}) cannot be {what}: that is the business of its launcher "
        f"({job.launch.external.name}), of which flinkish knows nothing",
        hint=f"{stop}have its launcher start the program again, from a savepoint with "
        "FLINKISH_FROM_SAVEPOINT=PATH",
        job_id=job.job_id,
        state=job.state.value,
    )


def _ended(context: Context, job: JobRecord) -> JobRecord:
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
    """Raise when another job has the name of ``job`` and runs, or continues from its state.

    Raises
    ------
    NameTaken, Locked, Superseded
        As :meth:`.job_registry.Registry.restart`, which asks again.
    """
    named = registry.jobs(name=job.name) if job.has_given_name else ()
    for other in reconcile(registry, named):
        if not other.state.is_final and other.job_id != job.job_id:
            raise name_taken(other)
    registry.check_not_in_upgrade(name=job.name if job.has_given_name else None, job=job)
    while (successor := registry.successor(job)) is not None:
        (current,) = reconcile(registry, [successor])
        if current.state.is_final == successor.state.is_final:
            raise superseded(job, current)
        # Dead, as it turns out: it counts only if it had a query.


def with_secrets(
    launch: Launch, conf: Mapping[str, str], secret_args: Sequence[str] | None
) -> Launch:
    """Return a recorded launch with the secrets that were given again. Pure.

    Raises
    ------
    UsageError
        A secret is missing, or an argument of the program is masked that no option can give.
    """
    complete = replace(launch, conf={**launch.conf, **conf})
    if secret_args is not None:
        complete = replace(complete, secret_arguments=tuple(secret_args))
    # "KEY=..." would be masked as a secret where it is printed.
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
    """Raise UsageError if a launch has settings that the job was not started with."""
    kept = without_secrets(launch).conf
    changed = [key for key, value in kept.items() if job.launch.conf.get(key) != value]
    if changed:
        raise UsageError(
            f"a restart in place keeps the job's settings, and {', '.join(changed)} would change",
            hint=f"start a new job with them: flinkish restart {job.job_id} --from SAVEPOINT "
            "--conf KEY=VALUE; or flinkish run --resume, which continues from the newest batch",
        )


def carry_out(context: Context, restart: Restart, reason: str = "restart requested") -> JobRecord:
    """Start a job again in place; return it.

    Raises
    ------
    WrongState
        The job has changed since it was checked, or its last driver does not end.
    StorageError, LaunchFailed
        No process can be started.
    """
    registry = context.registry
    wait_until_gone(registry, restart.job)
    environ = supervisor_environment(context.config, os.environ)
    launcher.restart_job(registry, context.config.registry_url(), restart.job, reason, environ)
    return registry.job(restart.job.job_id)


def restart_from(
    context: Context,
    job: JobRecord,
    savepoint: str,
    *,
    conf: Mapping[str, str] | None = None,
    secret_args: Sequence[str] | None = None,
    sink_ahead: str | None = None,
    accept_lost_rows: bool = False,
    spark: Program = SAME_SPARK,
) -> JobRecord:
    """Start the program of an ended job as a new job that begins with a savepoint; return that.

    Parameters are those of :func:`plan_restart`; ``savepoint`` is a location, ``spark`` names what
    changes of Spark, master and Pythons (:func:`.program.with_spark`), and the others are consents
    as in :class:`.RestoreOptions`: what ``run -s`` asks is asked here too.

    Raises
    ------
    WrongState
        The job has not ended.
    NameTaken
        Another job has the name that somebody gave this one.
    Locked
        An unfinished upgrade continues from it, or has the name.
    UsageError
        Secrets are missing.
    SavepointNotFound, Corrupt, UnsupportedFormat, Incompatible
        The savepoint cannot be restored.
    """
    from flinkish.storage import locate

    check_ours(job, "restarted")
    job = _ended(context, job)
    context.registry.check_not_in_upgrade(job=job)
    launch = with_secrets(job.launch, {**spark.conf, **(conf or {})}, secret_args)
    if _is_another(spark):
        launch, _ = pinned(with_spark(launch, spark))
    agreed = job.launch.restore.options.accept_partial if job.launch.restore is not None else ()
    options = RestoreOptions(
        sink_ahead=sink_ahead, accept_lost_rows=accept_lost_rows, accept_partial=agreed
    )
    launch = replace(launch, restore=RestoreSpec(locate(savepoint), options))
    # As in place: only a name that somebody gave is held unique.
    new = launch_in_place_of(context, job, launch, unique_name=job.has_given_name)
    context.registry.acknowledge([job.job_id])
    return new


def launch_in_place_of(
    context: Context,
    job: JobRecord,
    launch: Launch,
    *,
    unique_name: bool,
    job_id: str | None = None,
) -> JobRecord:
    """Start a new job with the name of another, its checkpoints beside those; return it.

    Parameters
    ----------
    job : JobRecord
        The other job.
    launch : Launch
        With its secrets, and with a restore.
    unique_name : bool
        Whether no job that has not ended may have the name.
    job_id : str, optional
        The id of the new job.

    Raises
    ------
    SavepointNotFound, Corrupt, UnsupportedFormat, Incompatible
        The savepoint cannot be restored.
    NameTaken
        Another job has the name.
    """
    assert launch.restore is not None
    registry = context.registry
    installation = spark_submit.resolve(launch, os.environ)
    version = spark_submit.spark_version(installation.spark_home)
    if not launch.restore.is_awaited:
        check_restorable(context, launch.restore, version)
    new = launcher.new_job(
        job.name,
        launch,
        checkpoints=os.path.dirname((job.checkpoint_dir or "").rstrip("/")),
        environ=os.environ,
        now=registry.now(),
        job_id=job_id,
    )
    url = context.config.registry_url()
    environ = supervisor_environment(context.config, os.environ)
    launcher.launch_job(registry, url, new, environ, unique_name=unique_name)
    return new


@dataclass(frozen=True)
class Recovery:
    """The outcome for one job in :func:`recover`.

    Parameters
    ----------
    job : JobRecord
        The job as it was found.
    restart : Restart or None
        How it is started again.
    error : FlinkishError or None
        Why it is not.
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
    """Restart the jobs of this host that died with their processes and request restarts.

    After a reboot these are all jobs that ran, as nobody could record an end. A job that somebody
    has acknowledged is left alone, and so is one without a restart strategy.

    Parameters
    ----------
    context : Context
        Has the registry.
    dry_run : bool
        Only find out what would be started.
    on_recovery : callable, optional
        Called with each job as it is started.

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
    """Return the jobs whose processes are gone and that request a restart.

    Parameters
    ----------
    context : Context
        Has the registry.
    host : str, optional
        Only jobs that ran there. Default: this host.
    """
    registry = context.registry
    reconcile(registry, [job for job in registry.jobs() if not job.state.is_final])
    here = host or os.uname().nodename
    return [
        job
        for job in registry.unacknowledged()
        if (job.failure or {}).get("id") == DriverLost.id
        and name_of(job.launch.options) != "none"
        and not (job.supervisor is not None and is_alive(job.supervisor))  # which does it itself
        and here in {ref.host for ref in (job.supervisor, job.driver) if ref is not None}
    ]
