"""Run a job: the checks before it, and the launch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinkish.client.checking import Plan
from flinkish.client.context import Context
from flinkish.client.program import (
    asked_partitions,
    checkpoint_directory,
    find_spark,
    launch_of,
    note_old_hasher,
)
from flinkish.client.resuming import check_resume, run_to_resume
from flinkish.config import working_directory
from flinkish.config.secrets import MASK
from flinkish.errors import NameTaken, UsageError
from flinkish.launch import launcher
from flinkish.launch import spark_submit as programs
from flinkish.launch.deploy_mode import check_deploy_mode, is_cluster_mode
from flinkish.launch.job_logs import state_directory
from flinkish.launch.job_origin import record_origin, resumed_origin
from flinkish.launch.notifier import supervisor_environment
from flinkish.launch.restart_strategy import strategy_of
from flinkish.launch.restoring import RECOVERY_PATH, given, restore_spec, settings
from flinkish.launch.secret_settings import without_secrets
from flinkish.launch.spark_submit import Installation
from flinkish.messages.launch import Launch, Program, RestoreSpec
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ACTIVE_STATES, JobRecord
from flinkish.registry.liveness import reconcile
from flinkish.registry.statements import name_taken

if TYPE_CHECKING:
    from flinkish.client.planfile import PlanFile


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The job that ``run`` is to start.

    ``savepoint``: the savepoint to start from. ``parallelism``: requested number of state
    partitions. ``plan``: the saved plan that the restore must match; see :func:`planned`. ``name``:
    the job's name, which no other job that has not ended may have. Default: the program's name,
    which other jobs may have. ``if_not_running``: whether to return a job of that name (given or
    default) that has not ended, instead of starting a new one. ``resume``: whether the job
    continues from the newest run of that name that has committed a batch, if there is such a run.
    """

    program: Program
    savepoint: str | None = None
    restore: RestoreOptions = NO_OPTIONS
    parallelism: int | None = None
    plan: PlanFile | None = None
    name: str | None = None
    if_not_running: bool = False
    resume: bool = False

    def settings(self) -> dict[str, str | None]:
        """Return the options that are also settings, by key, for loading the configuration."""
        return settings(self.savepoint, self.restore, self.parallelism)


@dataclass(frozen=True)
class Submitted:
    """The outcome of a request to run a job.

    ``job``: the job; None if a dry run would start one. ``is_new``: whether the job was started, or
    would be; otherwise it is the unfinished job of that name. ``command``: the ``spark-submit``
    command line of a new job, without secrets. ``carried``: in cluster mode, the file with which a
    new job is shipped to its driver, as the launch would write it.
    """

    name: str
    job: JobRecord | None
    is_new: bool = True
    command: Sequence[str] = ()
    carried: str | None = None


@dataclass(frozen=True)
class Submission:
    """A job that has been checked and can be launched (:func:`launch`).

    ``installation``: the Spark that runs it. ``unique_name``: whether another unfinished job with
    its name is an error.
    """

    name: str
    launch: Launch
    installation: Installation
    unique_name: bool = False

    def command(self, carried: str | None = None) -> list[str]:
        """Return the ``spark-submit`` command line, without secrets; see :class:`Submitted`."""
        return programs.build_command(
            without_secrets(self.launch),
            self.installation,
            name=self.name,
            driver_main=programs.driver_main(),
            carried=carried,
        )


def run(context: Context, request: RunRequest, *, dry_run: bool = False) -> Submitted:
    """Check a job, register it and start its driver, without waiting for it.

    ``context``: its configuration was loaded with :meth:`RunRequest.settings`. ``dry_run``: only
    check the job. With ``if_not_running``, the unfinished job of that name is returned, if any.

    Raises NameTaken if another job has the name; Locked if an upgrade that is not finished has it;
    UsageError if there is no such program or deploy mode, if a setting is invalid, or if options
    contradict each other or ``resume``; Superseded if a job of another name has continued from the
    job to be resumed; WrongState if that job's processes do not end, or the runs of the name never
    started from their savepoint; LaunchFailed if Spark, Java or a Python is missing, or no process
    can be started; SavepointNotFound, Corrupt, UnsupportedFormat or StorageError if the savepoint
    is missing, incomplete or not readable; Incompatible if this Spark cannot resume the savepoint,
    or something has changed since the plan; ConsentNeeded if the plan lacks a consent that it
    needs; StorageError if the job's log cannot be written.
    """
    try:
        submission = prepare(context, request, dry_run=dry_run)
        job = None if dry_run else launch(context, submission)
    except NameTaken as taken:
        if not request.if_not_running:
            raise
        holder = context.registry.job(str(taken.data["job_id"]))
        return Submitted(holder.name, holder, is_new=False)
    carried = _carried(context, submission.launch)
    return Submitted(submission.name, job, command=submission.command(carried), carried=carried)


def _carried(context: Context, launch: Launch) -> str | None:
    """Return the file with which a job is shipped to its driver; None in client mode."""
    if not is_cluster_mode(launch):
        return None
    from flinkish.launch.carried_job import example_of

    logs = os.path.join(state_directory(os.environ), "logs")
    return example_of(launch, checkpoint_directory(context.config), logs)


def prepare(context: Context, request: RunRequest, *, dry_run: bool = False) -> Submission:
    """Check everything that can be checked before a job is launched; for errors see :func:`run`."""
    savepoint, options, plan = request.savepoint, request.restore, request.plan
    name, resume = request.name, request.resume
    if resume:
        check_resume(savepoint, options, name, has_plan=plan is not None)
    launch = launch_of(request.program, context.config, working_directory())
    note_old_hasher(context)
    chosen = name or launch.default_name
    unique = name is not None or request.if_not_running
    if unique:
        # The registry need not exist yet: its first job may have a name too.
        _check_name(context.registry_or_empty if dry_run else context.writable_registry, chosen)
    partitions = asked_partitions(launch)
    if resume:
        spec = _resumed(context, options, chosen, partitions)
    else:
        spec = restore_spec(savepoint, options, context.config, parallelism=partitions)
    strategy_of(launch.options)  # refuses wrong settings
    check_deploy_mode(launch, context.config.registry_url())
    installation = find_spark(launch)
    launch = programs.pinned(launch, installation)
    spark = programs.spark_version(installation.spark_home)
    if plan is not None and spec is not None:
        from flinkish.client.planfile import check_unchanged

        check_unchanged(plan, launch, spark)
        spec = plan.restore_spec(spec.options.claim_mode)
    launch = replace(launch, restore=spec, resumes=resume, named=name is not None)
    if spec is None:
        launch = replace(launch, sink_ahead=options.sink_ahead)
    else:
        from flinkish.restore.check.version_check import check_restorable
        from flinkish.restore.origin.restore_origin import open_origin

        resumed = None if spec.job is None else context.registry.job(spec.job)
        origin = None if resumed is None else resumed_origin(context.registry, resumed)
        context.report(check_restorable(open_origin(spec, origin, verify=spec.verify), spark))
    return Submission(chosen, launch, installation, unique)


def _resumed(
    context: Context, options: RestoreOptions, name: str, partitions: int | None
) -> RestoreSpec | None:
    """Return the restore of a job from the checkpoints of its newest run; None for a first run.

    A first run starts as it would without ``--resume``: from a savepoint that the configuration
    names, whose restore is then returned, or from the beginning.
    """
    job = run_to_resume(context, name)
    if job is None:
        if context.config.get(RECOVERY_PATH) is not None:
            return restore_spec(None, options, context.config, parallelism=partitions)
        context.reporter.note(
            f"no run of job {name} in the registry {context.registry.url_masked} has committed a "
            "batch, so the job starts as a first run"
        )
        return None
    where = job.checkpoint_dir or job.job_id
    spec = restore_spec(None, options, context.config, parallelism=partitions, checkpoints=where)
    assert spec is not None
    return replace(spec, job=job.job_id)


def launch(context: Context, submission: Submission) -> JobRecord:
    """Register a job and start its driver; the errors are those of :func:`.launcher.launch_job`."""
    registry = context.writable_registry
    job = launcher.new_job(
        submission.name,
        submission.launch,
        checkpoints=checkpoint_directory(context.config),
        environ=os.environ,
        now=registry.now(),
    )
    url, unique = context.config.registry_url(), submission.unique_name
    environ = supervisor_environment(context.config, os.environ)
    record_origin(registry, job.launch.restore)
    while True:
        try:
            launcher.launch_job(registry, url, job, environ, unique_name=unique)
        except NameTaken:
            _check_name(registry, job.name)  # raises nothing if the holder of the name is dead
        else:
            return job


def _check_name(registry: Registry, name: str) -> None:
    """Raise NameTaken if a job of that name has not ended, and Locked if it is being upgraded.

    A job whose driver has died has ended, unless its supervisor restarts it.
    """
    jobs = reconcile(registry, registry.jobs(states=ACTIVE_STATES, name=name))
    holders = [job for job in jobs if not job.state.is_final]
    if holders:
        raise name_taken(holders[-1])
    registry.check_not_in_upgrade(name=name)


def planned(request: RunRequest, plan: Plan | str | os.PathLike[str] | None) -> RunRequest:
    """Return a request with what a plan says: the savepoint, the parallelism, the program.

    ``plan``: a plan, or the file to which it was saved; with None, the request is returned as it
    is. ``request``: with a plan, it may have no savepoint, no parallelism, and no option of the
    restore but the claim mode. Its program, if it names one, replaces the plan's.

    Raises UsageError if the file is not a plan, if the plan is that of a job, if other options are
    given with the plan, or if the plan masks secret arguments and the request names no program;
    StorageError if access to the file is denied.
    """
    if plan is None:
        return request
    refused = [*([("a savepoint", "-s")] if request.savepoint else []), *given(request.restore)]
    if request.parallelism is not None:
        refused.append(("a parallelism", "-p"))
    for name, flag in refused:
        raise UsageError(
            f"a plan and {name} are mutually exclusive: the plan says how to restore",
            hint=f"omit {flag}, or make another plan with: flinkish check -o FILE",
        )
    if isinstance(plan, Plan):
        saved = plan.file()
    else:
        from flinkish.client.planfile import load

        saved = load(os.fspath(plan))
    program = request.program
    if not (program.application or program.module):
        if any(MASK in word for word in saved.arguments):
            raise UsageError(
                "the plan omits a secret argument of its program",
                hint="name the program again: flinkish run --plan FILE APP.py ARGS...",
            )
        program = replace(
            program, application=saved.application, module=saved.module, arguments=saved.arguments
        )
    return replace(
        request,
        program=program,
        savepoint=saved.savepoint,
        parallelism=saved.parallelism,
        plan=saved,
    )
