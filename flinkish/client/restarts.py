"""Restart an ended job in place, or its program as a new job from a savepoint."""

from __future__ import annotations

import os
from dataclasses import replace

from flinkish.client.context import Context
from flinkish.client.program import asked_partitions, find_spark, pinned, with_spark
from flinkish.client.restart_plan import (
    NO_CHANGES,
    Restart,
    check_alone,
    check_ended,
    check_name_free,
    check_ours,
    plan_restart,
    with_secrets,
)
from flinkish.client.waiting import wait_until_started
from flinkish.errors import ConsentNeeded, UsageError, WrongState
from flinkish.launch import launcher, spark_submit
from flinkish.launch.job_origin import record_origin
from flinkish.launch.notifier import supervisor_environment
from flinkish.launch.restoring import checked
from flinkish.launch.termination import wait_until_gone
from flinkish.messages.launch import Launch, Program, RestoreSpec
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState
from flinkish.restore.plan.starts import with_options_of_run


def restart(
    context: Context,
    job: JobRecord,
    savepoint: str | None = None,
    *,
    changes: Program = NO_CHANGES,
    options: RestoreOptions = NO_OPTIONS,
    dry_run: bool = False,
    wait: bool = True,
) -> Restart:
    """Start an ended job again in place, or its program as a new job from a savepoint.

    If ``changes`` names another Spark, master or Python, a new job starts, by default from the
    savepoint that the job was stopped with (WrongState if there is none, or if another job has
    continued from there). Parameters and errors are those of :func:`.plan_restart`,
    :func:`carry_out` and :func:`restart_from`, and UsageError for ``options`` without a savepoint.
    With ``wait`` the function returns once the job runs, see :func:`.waiting.wait_until_started`.
    """
    if savepoint is None and _is_another(changes):
        savepoint = _own_savepoint(context, check_ended(context, job))
    if savepoint is None and options != NO_OPTIONS:
        raise UsageError(
            "options of a restore need a savepoint: a job that starts again in place continues "
            "from its own checkpoints",
            hint="name a savepoint, or leave the options out",
        )
    started: JobRecord | None
    if savepoint is None:
        begun = plan_restart(context, job, changes)
        started = None if dry_run else carry_out(context, begun)
    else:
        begun = Restart(job, savepoint=savepoint)
        started = restart_from(
            context, job, savepoint, changes=changes, options=options, dry_run=dry_run
        )
    if started is None:
        return begun
    if not wait:
        return replace(begun, job=started)
    if savepoint is None:
        return replace(begun, job=wait_until_started(context, started))
    return replace(begun, job=wait_until_restored(context, started, savepoint))


def _is_another(changes: Program) -> bool:
    """Return whether another Spark, master or Python is named, not only settings."""
    named = (changes.master, changes.spark_home, changes.python, changes.client_python)
    return any(name is not None for name in named)


def _own_savepoint(context: Context, job: JobRecord) -> str:
    """Return the savepoint that a job was stopped with, and that no other job has continued.

    Raises WrongState without one, and the errors of :func:`.restart_plan.check_alone`.
    """
    check_alone(context.registry, job)
    request = _ended_by(context.registry, job)
    if request is None or request.result is None or request.result.savepoint is None:
        raise WrongState(
            f"job {job.name} ({job.job_id}) did not end with a savepoint, and a restart with "
            "another Spark, master or Python needs one",
            hint=f"take one with: flinkish savepoint {job.job_id} TARGET, and name it with --from",
            job_id=job.job_id,
            state=job.state.value,
        )
    return request.result.savepoint.path


def carry_out(context: Context, restart: Restart, reason: str = "restart requested") -> JobRecord:
    """Start a job again in place; return it.

    Raises
    ------
    WrongState
        The job has changed since it was checked, or its last driver does not end.
    NameTaken, Superseded, Locked
        As for :func:`.plan_restart`, if another job or an upgrade was faster.
    StorageError, UsageError, LaunchFailed
        The log cannot be written, the secrets cannot be passed, or no process can be started.
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
    changes: Program = NO_CHANGES,
    options: RestoreOptions = NO_OPTIONS,
    dry_run: bool = False,
) -> JobRecord | None:
    """Start the program of an ended job as a new job from a savepoint; return the new job.

    With ``dry_run`` all is checked that can be before the start, and None is returned.

    ``savepoint`` is a path or URL. ``changes`` has the secrets, as for :func:`.plan_restart`, new
    settings, and another Spark, master or Python (:func:`.program.with_spark`). ``options`` are
    those of ``run -s``; incomplete results that the job accepted at its restore are accepted again.

    Raises
    ------
    ExternalJob
        Another launcher has started the job.
    WrongState
        The job has not ended.
    NameTaken
        Another job has the name that a user gave this job.
    Locked
        An unfinished upgrade continues from the job, or has its name.
    UsageError
        Secrets are missing, or cannot be given; or the options contradict each other.
    LaunchFailed
        Spark, Java or a Python interpreter is missing, or no process can be started.
    SavepointNotFound, Corrupt, UnsupportedFormat, Incompatible, StorageError
        The savepoint cannot be restored; StorageError also if the log cannot be written.
    """
    from flinkish.savepoint.directory.places import savepoint_meant

    check_ours(job, "restarted")
    job = check_ended(context, job)
    # As for a restart in place, only a name that a user gave must be unique.
    unique = job.has_given_name
    context.registry.check_not_in_upgrade(name=job.name if unique else None, job=job)
    launch = with_secrets(job.launch, changes.conf, changes.secret_arguments or None)
    if _is_another(changes):
        launch, _ = pinned(with_spark(launch, changes))
    agreed = job.launch.restore.options.accept_partial if job.launch.restore is not None else ()
    accepted = replace(options, accept_partial=(*agreed, *options.accept_partial))
    # The savepoint has the recorded number of partitions; only ``changes`` can request another.
    partitions = asked_partitions(replace(launch, conf=changes.conf))
    restore = RestoreSpec(savepoint_meant(savepoint), checked(accepted), partitions)
    launch = replace(launch, restore=restore)
    if dry_run:
        _check_start(context, job, launch, unique_name=unique)
        return None
    new = launch_in_place_of(context, job, launch, unique_name=unique)
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
    """Start a new job with the name of ``job``, and checkpoints beside those of ``job``; return it.

    Parameters
    ----------
    job : JobRecord
        The old job.
    launch : Launch
        With its secrets, and with a restore.
    unique_name : bool
        Whether another unfinished job with the name is an error.
    job_id : str, optional
        The id of the new job.

    Raises
    ------
    SavepointNotFound, Corrupt, UnsupportedFormat, Incompatible, StorageError
        The savepoint cannot be restored; StorageError also if the log cannot be written.
    NameTaken, Locked
        With ``unique_name``: another job has the name, or an unfinished upgrade has it.
    UsageError, LaunchFailed
        Secrets cannot be passed; or Spark, Java or Python is missing, or no process can be started.
    """
    registry = context.registry
    _check_start(context, job, launch, unique_name=unique_name)
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
    record_origin(registry, launch.restore)
    launcher.launch_job(registry, url, new, environ, unique_name=unique_name)
    return new


def _check_start(context: Context, job: JobRecord, launch: Launch, *, unique_name: bool) -> None:
    """Check what :func:`launch_in_place_of` needs: the name, a Spark, a savepoint to restore."""
    assert launch.restore is not None
    if unique_name:
        check_name_free(context.registry, job)
    installation = find_spark(launch)
    spark_submit.worker_settings(launch, installation.spark_home)  # refuses secret options
    if launch.restore.is_awaited:
        return
    from flinkish.restore.check.version_check import check_restorable
    from flinkish.restore.origin.restore_origin import open_origin

    offers = open_origin(launch.restore, verify=launch.restore.verify)
    version = spark_submit.spark_version(installation.spark_home)
    context.report(check_restorable(offers, version))


def wait_until_restored(context: Context, job: JobRecord, savepoint: str) -> JobRecord:
    """Wait as in :func:`.waiting.wait_until_started`; a refusal names the options of ``run -s``."""
    try:
        return wait_until_started(context, job)
    except ConsentNeeded as refusal:
        with_options_of_run(refusal, savepoint)
        raise


def _ended_by(registry: Registry, job: JobRecord) -> Request | None:
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
