"""Submit a job: the checks before it, the launch, and how the job was restored."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkish.client.checking import Plan
from flinkish.client.context import Context
from flinkish.client.program import asked_partitions, find_spark, launch_of
from flinkish.client.restoring import given, restore_spec
from flinkish.client.resuming import check_resume, run_to_resume
from flinkish.config import Config, working_directory
from flinkish.config.secrets import MASK
from flinkish.errors import Locked, NameTaken, UsageError
from flinkish.launch import launcher
from flinkish.launch import spark_submit as programs
from flinkish.launch.deploy_mode import check_deploy_mode
from flinkish.launch.job_origin import resumed_origin
from flinkish.launch.restart_strategy import strategy_of
from flinkish.launch.secret_settings import without_secrets
from flinkish.launch.spark_submit import Installation
from flinkish.messages.codec import encode_fields
from flinkish.messages.launch import Launch, Program, RestoreSpec
from flinkish.messages.plan import RestorePlan
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import ACTIVE_STATES, JobRecord
from flinkish.registry.liveness import reconcile
from flinkish.registry.statements import name_taken

if TYPE_CHECKING:
    from flinkish.client.planfile import PlanFile
    from flinkish.restore.source.restore_source import RestoreSource


@dataclass(frozen=True)
class Submission:
    """A job that has been checked and can be launched (:func:`launch`).

    Parameters
    ----------
    name : str
        The job's name.
    launch : Launch
        The launch.
    installation : Installation
        The Spark that runs it.
    unique_name : bool
        Whether no other job that has not ended may have its name.
    """

    name: str
    launch: Launch
    installation: Installation
    unique_name: bool = False

    def command(self) -> list[str]:
        """Return the ``spark-submit`` command line, without secrets."""
        return programs.build_command(
            without_secrets(self.launch),
            self.installation,
            name=self.name,
            driver_main=programs.driver_main(),
        )


@dataclass(frozen=True)
class Start:
    """How a job has started.

    Parameters
    ----------
    restore_plan : RestorePlan or None
        The restore plan that was carried out; None without a restore.
    notes : sequence of str
        The driver's notes about the start of the queries.
    """

    restore_plan: RestorePlan | None
    notes: Sequence[str]

    @property
    def plan(self) -> Mapping[str, Any] | None:
        """The restore plan as plain data, as ``flinkish run --json`` prints it."""
        return None if self.restore_plan is None else encode_fields(self.restore_plan)


def prepare(
    context: Context,
    program: Program,
    savepoint: str | None,
    options: RestoreOptions,
    *,
    plan: PlanFile | None = None,
    name: str | None = None,
    if_not_running: bool = False,
    resume: bool = False,
) -> Submission:
    """Check everything that can be checked before a job is launched.

    Parameters
    ----------
    context : Context
        Its configuration was loaded with :func:`.restoring.settings`.
    program : Program
        The program to run; with a plan, the result of :func:`planned_program`.
    savepoint : str or None
        The savepoint to start from.
    options : RestoreOptions
        How it is restored.
    plan : PlanFile, optional
        The saved plan that the restore must match.
    name : str, optional
        The job's name, which no other job that has not ended may have. Default: the program's,
        which others may have.
    if_not_running : bool
        Whether no other such job may have the default name either.
    resume : bool
        Whether it goes on from where the job of the name stands, if any run of it has committed a
        batch.

    Returns
    -------
    Submission
        The job to be launched.

    Raises
    ------
    NameTaken
        Another job has the name; :func:`holder_of` returns it.
    Locked
        An upgrade that is not finished has it.
    UsageError
        There is no such program, no savepoint to restore from, or no such deploy mode; or options
        contradict ``resume``.
    Superseded
        A job of another name has gone on from the one to resume.
    LaunchFailed
        Spark, Java or a Python is missing.
    SavepointNotFound, Corrupt, UnsupportedFormat
        The savepoint is missing, incomplete or not readable.
    Incompatible
        This Spark cannot resume the savepoint, or something has changed since the plan.
    ConsentNeeded
        The plan needs a consent that it was made without.
    """
    if resume:
        check_resume(savepoint, options, name, has_plan=plan is not None)
    launch = launch_of(program, context.config, working_directory())
    chosen = name or launch.default_name
    unique = name is not None or if_not_running
    if unique:
        _check_name(context, chosen)
    partitions = asked_partitions(launch)
    if resume:
        spec = _resumed(context, options, chosen, partitions)
    else:
        spec = restore_spec(savepoint, options, context.config, parallelism=partitions)
    strategy_of(launch.options)  # refuses wrong settings
    check_deploy_mode(launch, context.config.registry_url())
    installation = find_spark(launch)
    spark = programs.spark_version(installation.spark_home)
    if plan is not None and spec is not None:
        from flinkish.client.planfile import check_unchanged

        check_unchanged(plan, launch, spark)
        spec = plan.restore_spec(spec.options.claim_mode)
    launch = replace(programs.pinned(launch, installation), restore=spec, resumes=resume)
    launch = replace(launch, named=name is not None)
    if spec is None:
        launch = replace(launch, sink_ahead=options.sink_ahead)
    elif spec.job is None:
        check_restorable(context, spec, spark)
    else:
        from flinkish.restore.source.job_source import open_job

        origin = resumed_origin(context.registry, context.registry.job(spec.job))
        source = open_job(origin, drops=spec.options.allow_non_restored)
        check_source(context, source, spark)
    return Submission(chosen, launch, installation, unique)


def _resumed(
    context: Context, options: RestoreOptions, name: str, partitions: int | None
) -> RestoreSpec | None:
    """Return the restore of a job from the checkpoints of its newest run; None for a first run."""
    job = run_to_resume(context, name)
    if job is None:
        return None
    where = job.checkpoint_dir or job.job_id
    spec = restore_spec(None, options, context.config, parallelism=partitions, checkpoints=where)
    assert spec is not None
    return replace(spec, job=job.job_id)


def launch(context: Context, submission: Submission) -> JobRecord:
    """Register a job and start its driver, without waiting for it.

    Raises
    ------
    NameTaken
        Another job got the name since it was checked.
    Locked
        An upgrade has it since.
    StorageError
        The job's log cannot be written.
    LaunchFailed
        No process can be started.
    """
    registry = context.writable_registry
    job = launcher.new_job(
        submission.name,
        submission.launch,
        checkpoints=checkpoint_directory(context.config),
        environ=os.environ,
        now=registry.now(),
    )
    url, unique = context.config.registry_url(), submission.unique_name
    while True:
        try:
            launcher.launch_job(registry, url, job, os.environ, unique_name=unique)
        except NameTaken:
            _drop_log(job)
            _check_name(context, job.name)  # no error: its holder turned out to be dead
        except Locked:
            _drop_log(job)
            raise
        else:
            return job


def holder_of(context: Context, taken: NameTaken) -> JobRecord:
    """Return the job that has the name that was refused."""
    return context.registry.job(str(taken.data["job_id"]))


def _drop_log(job: JobRecord) -> None:
    """Remove the log of a job that was not registered after all."""
    from flinkish import storage

    if job.log_path is not None:
        storage.remove_file(*storage.split(job.log_path))


def _check_name(context: Context, name: str) -> None:
    """Raise NameTaken when a job of that name has not ended, Locked when it is being upgraded.

    A job whose driver died has ended.
    """
    registry = context.writable_registry  # the first job of a registry may have a name too
    found = reconcile(registry, registry.jobs(states=ACTIVE_STATES, name=name))
    holders = [job for job in found if not job.state.is_final]
    if holders:
        raise name_taken(holders[-1])
    registry.check_not_in_upgrade(name=name)


def check_restorable(context: Context, spec: RestoreSpec, spark: str | None) -> None:
    """Check before the launch that a version of Spark can restore a savepoint.

    Parameters
    ----------
    context : Context
        Its reporter receives the warnings and notes of the version matrix.
    spec : RestoreSpec
        The savepoint, or a plain checkpoint, and how its files are checked.
    spark : str or None
        Version of the Spark that will run, None when it is not known.

    Raises
    ------
    SavepointNotFound, Corrupt, UnsupportedFormat
        The savepoint is missing, incomplete, damaged or not readable.
    Incompatible
        According to the version matrix, this Spark cannot resume the savepoint.
    """
    from flinkish.restore.source.restore_source import open_restore_source

    check_source(context, open_restore_source(spec.path, verify=spec.verify), spark)


def check_source(context: Context, source: RestoreSource, spark: str | None) -> None:
    """Check before the launch that a version of Spark can restore what is open already.

    Parameters and errors are those of :func:`check_restorable`.
    """
    from flinkish.messages.plan import RestoreOutcome
    from flinkish.restore.check.version_check import version_gate

    gate = version_gate(source, spark)
    if gate.error is not None:
        raise gate.error
    if gate.check.outcome is RestoreOutcome.WARNING:
        context.reporter.warning(gate.check.text)
    elif gate.check.outcome is not RestoreOutcome.OK:
        context.reporter.note(gate.check.text)


def start_of(context: Context, job: JobRecord) -> Start:
    """Return how a job has started: its restore plan and its driver's notes."""
    from flinkish.restore.plan.document import merged
    from flinkish.restore.plan.plan_text import of_query

    queries = context.registry.queries(job.job_id)
    plan = merged([query.plan for query in queries if query.plan is not None])
    notes = [of_query(query.name, note, len(queries)) for query in queries for note in query.notes]
    return Start(plan, notes)


def load_plan(
    plan: Plan | str | os.PathLike[str] | None,
    savepoint: str | None,
    options: RestoreOptions,
    parallelism: int | None,
) -> PlanFile | None:
    """Return the plan to be carried out, or None without one.

    Parameters
    ----------
    plan : Plan or path or None
        A plan, or the file it was saved to.
    savepoint : str or None
        Must be None, because a plan has it.
    options : RestoreOptions
        The other options of the restore; only the claim mode may be set.
    parallelism : int or None
        The requested state partitions; must be None, because a plan has them.

    Raises
    ------
    UsageError
        The file is not a plan, or other options are given with it.
    """
    if plan is None:
        return None
    refused = [*([("a savepoint", "-s")] if savepoint else []), *given(options)]
    if parallelism is not None:
        refused.append(("a parallelism", "-p"))
    for name, flag in refused:
        raise UsageError(
            f"a plan and {name} are mutually exclusive: the plan says how to restore",
            hint=f"omit {flag}, or make another plan with: flinkish check -o FILE",
        )
    if isinstance(plan, Plan):
        return plan.file()
    from flinkish.client.planfile import load

    return load(os.fspath(plan))


def planned_program(plan: PlanFile, program: Program) -> Program:
    """Return ``program`` if it names a program, else the program of the plan.

    Raises
    ------
    UsageError
        The plan masks secret arguments of its program, and the program is not named again.
    """
    if program.application or program.module:
        return program
    if any(MASK in word for word in plan.arguments):
        raise UsageError(
            "the plan omits a secret argument of its program",
            hint="name the program again: flinkish run --plan FILE APP.py ARGS...",
        )
    return replace(
        program, application=plan.application, module=plan.module, arguments=plan.arguments
    )


def checkpoint_directory(config: Config) -> str:
    """Return the directory below which jobs get their checkpoints, a path or a URL."""
    directory = config.get("execution.checkpointing.dir") or ""
    if directory.startswith("/"):
        return directory
    from flinkish.storage import locate

    return locate(directory)
