"""Operators: each starts, saves, stops or upgrades a job as a command of flinkish does.

A task ends, but a streaming job runs on. So a job is not a child of the task that has started it:
killing the task leaves the job alone, and a retry finds what the earlier try has done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from airflow.sdk import BaseOperator

from flinkish.airflow.access import Access, begin_stop, program_of, upgraded
from flinkish.airflow.triggers import (
    JobTrigger,
    RegistryTrigger,
    SavepointTrigger,
    answer_of,
    is_deferrable,
)
from flinkish.annotations import public_evolving
from flinkish.client import PendingSavepoint, Program, RestoreOptions
from flinkish.client.program import absolute
from flinkish.client.wait_goals import GoalKind, parse_goal
from flinkish.config import working_directory
from flinkish.errors import UsageError
from flinkish.messages.restore_options import NO_OPTIONS
from flinkish.messages.upgrades import Health, UpgradeKind
from flinkish.upgrade.target import NO_PROGRAM, Changes, NewVersion


@public_evolving
class FlinkishOperator(BaseOperator):
    """What all operators have in common.

    Parameters
    ----------
    registry : str, optional
        URL of the job registry. Default: that of the configuration (``FLINKISH_REGISTRY`` in the
        environment of workers and triggerer).
    conn_id : str, optional
        An Airflow connection of type ``postgres`` instead of a URL; Airflow keeps the password.
    options : mapping, optional
        Other settings of flinkish's configuration, by key.
    deferrable : bool, optional
        Whether to wait in the triggerer. Default: Airflow's ``operators.default_deferrable``.
    poll_interval : float
        Seconds between two looks into the registry, when deferred.
    """

    def __init__(
        self,
        *,
        registry: str | None = None,
        conn_id: str | None = None,
        options: Mapping[str, str] | None = None,
        deferrable: bool | None = None,
        poll_interval: float = 10.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.registry, self.conn_id, self.options = registry, conn_id, dict(options or {})
        self.deferrable = is_deferrable(deferrable)
        self.poll_interval = poll_interval

    def access(self) -> Access:
        """Return how this task reaches its jobs."""
        return Access.of(self.registry, self.conn_id, self.options)

    def _polling(self) -> dict[str, Any]:
        """Return the arguments that all triggers have; the registry is that of this worker."""
        return {**vars(self.access().resolved()), "poll_interval": self.poll_interval}

    def _wait(self, trigger: RegistryTrigger, seconds: float | None = None) -> NoReturn:
        """Wait in the triggerer."""
        timeout = self.execution_timeout if seconds is None else timedelta(seconds=seconds)
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)
        raise AssertionError("a task that is deferred goes on in execute_complete")


@public_evolving
class FlinkishRunOperator(FlinkishOperator):
    """Starts a job, as ``flinkish run -d``; its XCom is the job's id.

    Parameters
    ----------
    program : str, optional
        The program's file; may be omitted for a module, which ``spark`` names.
    arguments : sequence of str
        The program's arguments.
    spark : Program, optional
        Master, Spark, Pythons, settings, accompanying files and secret arguments of the program.
        Airflow does not show it, because it is not a template field.
    name : str, optional
        The job's name. Default: the program's.
    from_savepoint : str, optional
        The savepoint, or the plain Spark checkpoint, to restore; an empty text means none.
    restore, parallelism, resume : optional
        As for :meth:`flinkish.Client.run`.
    if_not_running : bool, optional
        Whether to use an unfinished job of the same name instead of starting another, so that a
        retry does not start a second job. Default: true if ``name`` is given; otherwise false,
        because the name is then the program's, and other tasks may run the same program.
    until : str, optional
        What to wait for: ``running`` (a program that has finished by then is fine), ``batch=N``,
        ``batch=+N`` (not when deferred), ``idle`` or ``ended``; None waits for nothing.

    Raises
    ------
    UsageError
        ``until`` is none of these, or is ``batch=+N`` when deferred.
    """

    template_fields: Sequence[str] = ("program", "arguments", "name", "from_savepoint")

    def __init__(
        self,
        *,
        program: str | None = None,
        arguments: Sequence[str] = (),
        spark: Program = NO_PROGRAM,
        name: str | None = None,
        from_savepoint: str | None = None,
        restore: RestoreOptions = NO_OPTIONS,
        parallelism: int | None = None,
        if_not_running: bool | None = None,
        resume: bool = False,
        until: str | None = "running",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.program, self.arguments, self.spark = program, arguments, spark
        self.name, self.from_savepoint, self.restore = name, from_savepoint, restore
        self.parallelism, self.resume = parallelism, resume
        self.if_not_running, self.until = if_not_running, until
        if until is not None and parse_goal(until).more and self.deferrable:
            raise UsageError(
                f"a deferred task may forget its earlier looks, so it cannot wait for {until}",
                hint="wait for batch=N, or set deferrable=False",
            )

    def execute(self, context: Any) -> str:
        """Start the job, and wait for what is asked for."""
        is_named = self.name is not None
        with self.access().client(self.log) as client:
            job = client.run(
                program_of(self.spark, self.program, self.arguments),
                name=self.name,
                from_savepoint=self.from_savepoint or None,
                restore=self.restore,
                parallelism=self.parallelism,
                if_not_running=is_named if self.if_not_running is None else self.if_not_running,
                resume=self.resume,
                wait=False,
            )
            self.log.info("job %s (%s) is %s", job.name, job.job_id, job.state.value)
            if self.until is not None and not self.deferrable:
                starts = parse_goal(self.until).kind is GoalKind.RUNNING
                job.wait_until_started() if starts else job.wait(until=self.until)
        if self.until is not None and self.deferrable:
            polling = self._polling()
            self._wait(JobTrigger(job=job.job_id, until=self.until, launched=True, **polling))
        return job.job_id

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> str:
        """Return the job's id; if the trigger has an error instead, raise that error."""
        return str(answer_of(event)["job_id"])


@public_evolving
class FlinkishSavepointOperator(FlinkishOperator):
    """Takes a savepoint of a job, which continues; the XCom is the savepoint's path.

    Parameters
    ----------
    job : str
        The id of the job, a unique prefix of an id, or a name that exactly one job has. The
        savepoint of a job that has ended is taken from the checkpoints that the job left.
    directory : str, optional
        The parent of the savepoint's own directory. Default:
        ``execution.checkpointing.savepoint-dir``.
    format : str
        ``native`` or ``canonical``.
    full : bool
        Whether the savepoint shares no files with an earlier one.
    timeout : float, optional
        Seconds to wait. Default: ``client.timeout``; when deferred, ``execution_timeout``.
    """

    template_fields: Sequence[str] = ("job", "directory")

    def __init__(
        self,
        *,
        job: str,
        directory: str | None = None,
        format: str = "native",
        full: bool = False,
        timeout: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job, self.directory, self.format = job, directory, format
        self.full, self.timeout = full, timeout

    def execute(self, context: Any) -> str:
        """Take the savepoint."""
        with self.access().client(self.log) as client:
            job = client.job(self.job)
            if job.is_final or not self.deferrable:
                saved = job.savepoint(
                    self.directory, format=self.format, full=self.full, timeout=self.timeout
                )
                return saved.path
            pending = job.begin_savepoint(self.directory, format=self.format, full=self.full)
        return self._wait_for(pending)

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> str:
        """Return the savepoint's path; if the trigger has an error instead, raise that error."""
        return str(answer_of(event)["savepoint"])

    def _wait_for(self, pending: PendingSavepoint) -> NoReturn:
        trigger = SavepointTrigger(request_id=pending.request_id, **self._polling())
        self._wait(trigger, self.timeout)


@public_evolving
class FlinkishStopOperator(FlinkishSavepointOperator):
    """Stops a job with a savepoint; its XCom is the savepoint's path.

    A job that an earlier try of the task has stopped, or is stopping, is not an error.

    Parameters
    ----------
    job, directory, format, timeout
        As for :class:`FlinkishSavepointOperator`.
    drain : bool
        Whether the job first emits what waits for the watermark; use it only to end a job for good.
    """

    def __init__(self, *, drain: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.full:
            hint = "take one before the stop, with FlinkishSavepointOperator(full=True)"
            raise UsageError("a stop takes no full savepoint", hint=hint)
        self.drain = drain

    def execute(self, context: Any) -> str:
        """Stop the job."""
        with self.access().context(self.log) as flinkish:
            pending = begin_stop(
                flinkish,
                self.job,
                self.directory,
                format=self.format,
                drain=self.drain,
                is_retry=is_retry(context),
            )
            if not self.deferrable:
                return pending.result(self.timeout).path
        return self._wait_for(pending)


@public_evolving
class FlinkishUpgradeOperator(FlinkishOperator):
    """Upgrades a running job, as ``flinkish upgrade in-place``; its XCom is the new job's id.

    The task's process carries out the upgrade, and the rollback if the upgrade fails, so the task
    is never deferred. If that process dies, a retry finishes the upgrade. If the upgrade is already
    finished, a retry returns the same id, or raises the failure if the upgrade was rolled back.

    Parameters
    ----------
    job : str
        The id of the job, a unique prefix of an id, or a name that exactly one job has.
    program : str, optional
        The file of the new program. Default: the job's program.
    arguments : sequence of str
        Its arguments. Default: those of the job.
    spark : Program, optional
        Another master, Spark or Python, and settings that are added.
    directory : str, optional
        The parent of the savepoint's own directory. Default: as configured.
    restore, parallelism : optional
        As for :meth:`flinkish.Client.run`.
    handover : bool
        Whether the new driver starts before the job is stopped.
    rehearsed : bool
        Whether some batches run on a copy of the state first.
    health : Health
        What the new program must commit, and in what time; otherwise the old one is started again.
    """

    template_fields: Sequence[str] = ("job", "program", "arguments", "directory")

    def __init__(
        self,
        *,
        job: str,
        program: str | None = None,
        arguments: Sequence[str] = (),
        spark: Program = NO_PROGRAM,
        directory: str | None = None,
        restore: RestoreOptions = NO_OPTIONS,
        parallelism: int | None = None,
        handover: bool = False,
        rehearsed: bool = False,
        health: Health | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job, self.program, self.arguments, self.spark = job, program, arguments, spark
        self.directory, self.restore, self.parallelism = directory, restore, parallelism
        self.handover, self.rehearsed, self.health = handover, rehearsed, health or Health()

    def execute(self, context: Any) -> str:
        """Upgrade the job; finish the upgrade that an earlier try has begun."""
        # The start of a task is that of its latest try; the DAG run started before all tries.
        since = context["dag_run"].start_date.timestamp() if is_retry(context) else None
        kind = UpgradeKind.HANDOVER if self.handover else UpgradeKind.IN_PLACE
        with self.access().context(self.log) as flinkish:
            result = upgraded(
                flinkish, self.job, self._version(), kind, rehearsed=self.rehearsed, since=since
            )
        for warning in result.warnings:
            self.log.warning("%s", warning)
        if result.failure is not None:
            raise result.failure
        return str(result.job_id)

    def _version(self) -> NewVersion:
        here = working_directory(instead="/")
        program = absolute(program_of(self.spark, self.program, self.arguments), here)
        return NewVersion(
            changes=Changes(
                program,
                parallelism=self.parallelism,
                working_directory=None if program.application is None else here,
            ),
            restore=self.restore,
            target=self.directory,
            health=self.health,
        )


def is_retry(context: Any) -> bool:
    """Return whether an earlier try of the task may have done something."""
    return bool(context["ti"].try_number > 1)
