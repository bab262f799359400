"""Operators: each starts, saves, stops or upgrades a job as a command of flinkish does.

A task ends; a streaming job runs on. So a job is no child of the task that has started it: killing
the task leaves the job alone, and a retry finds what the try before has done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.sdk import BaseOperator

from flinkish.airflow.access import Access, stopped_with
from flinkish.airflow.triggers import JobTrigger, SavepointTrigger, answer_of, is_deferrable
from flinkish.annotations import public_evolving
from flinkish.client import PendingSavepoint, Program, RestoreOptions
from flinkish.client.program import absolute
from flinkish.config import working_directory
from flinkish.messages.restore_options import NO_OPTIONS
from flinkish.messages.upgrades import Health, UpgradeKind
from flinkish.upgrade import workflows
from flinkish.upgrade.preparation import Secrets
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
        Instead of a URL: an Airflow connection of the type ``postgres``, so that Airflow keeps the
        password.
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

    def _polling(self, access: Access) -> dict[str, Any]:
        """Return the arguments that all triggers have."""
        return {
            "registry": access.registry,
            "options": access.options,
            "poll_interval": self.poll_interval,
        }


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
        Master, Spark, Pythons, settings, accompanying files and secret arguments of the program. It
        is no template, so that Airflow does not show it.
    name : str, optional
        The job's name. Default: the program's.
    from_savepoint : str, optional
        The savepoint, or the plain Spark checkpoint, to restore; empty is none.
    restore, parallelism, resume : optional
        As for :meth:`flinkish.Client.run`.
    if_not_running : bool
        Whether a job of the name that has not ended is taken instead of starting another, so that
        a retry does not start a second one.
    until : str, optional
        What is waited for: ``running``, ``batch=N``, ``idle`` or ``ended``; None is nothing.
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
        if_not_running: bool = True,
        resume: bool = False,
        until: str | None = "running",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.program, self.arguments, self.spark = program, arguments, spark
        self.name, self.from_savepoint, self.restore = name, from_savepoint, restore
        self.parallelism, self.resume = parallelism, resume
        self.if_not_running, self.until = if_not_running, until

    def execute(self, context: Any) -> str:
        """Start the job, and wait for what is asked for."""
        access = self.access()
        with access.client(self.log) as client:
            job = client.run(
                program_of(self.spark, self.program, self.arguments),
                name=self.name,
                from_savepoint=self.from_savepoint or None,
                restore=self.restore,
                parallelism=self.parallelism,
                if_not_running=self.if_not_running,
                resume=self.resume,
                wait=False,
            )
            self.log.info("job %s (%s) is %s", job.name, job.job_id, job.state.value)
            if self.until is not None and not self.deferrable:
                job.wait(until=self.until)
        if self.until is not None and self.deferrable:
            self.defer(
                trigger=JobTrigger(job=job.job_id, until=self.until, **self._polling(access)),
                method_name="execute_complete",
            )
        return job.job_id

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> str:
        """Return the job's id; raise the job's error."""
        return str(answer_of(event)["job_id"])


@public_evolving
class FlinkishSavepointOperator(FlinkishOperator):
    """Takes a savepoint of a job, which goes on; its XCom is the savepoint's path.

    Parameters
    ----------
    job : str
        The id of the job, or the name of exactly one. One that has ended is saved from the
        checkpoints that it left.
    directory : str, optional
        The parent of the savepoint's own directory. Default:
        ``execution.checkpointing.savepoint-dir``.
    format : str
        ``native`` or ``canonical``.
    full : bool
        Whether it shares no files with an earlier savepoint.
    timeout : float, optional
        Seconds to wait when not deferred. Default: ``client.timeout``.
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
        access = self.access()
        with access.client(self.log) as client:
            job = client.job(self.job).refresh()
            if job.is_final or not self.deferrable:
                saved = job.savepoint(
                    self.directory, format=self.format, full=self.full, timeout=self.timeout
                )
                return saved.path
            pending = job.begin_savepoint(self.directory, format=self.format, full=self.full)
        return self._awaited(pending, access)

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> str:
        """Return the savepoint's path; raise the error of the request."""
        return str(answer_of(event)["savepoint"])

    def _awaited(self, pending: PendingSavepoint, access: Access) -> str:
        """Wait for a savepoint in the triggerer: ends this process's part of the task."""
        trigger = SavepointTrigger(request_id=pending.request_id, **self._polling(access))
        self.defer(trigger=trigger, method_name="execute_complete")
        return pending.request_id


@public_evolving
class FlinkishStopOperator(FlinkishSavepointOperator):
    """Stops a job with a savepoint; its XCom is the savepoint's path.

    A job that an earlier try of the task has stopped is not an error.

    Parameters
    ----------
    job, directory, format, timeout
        As for :class:`FlinkishSavepointOperator`.
    drain : bool
        Whether the job emits first what waits for event time; only to end a job for good.
    """

    def __init__(self, *, drain: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.drain = drain

    def execute(self, context: Any) -> str:
        """Stop the job."""
        access = self.access()
        with access.client(self.log) as client:
            job = client.job(self.job).refresh()
            if job.is_final and context["ti"].try_number > 1:
                stopped = stopped_with(client, job)
                if stopped is not None:
                    self.log.info("an earlier try has stopped job %s", job.job_id)
                    return stopped
            if not self.deferrable:
                return job.stop(
                    self.directory, format=self.format, drain=self.drain, timeout=self.timeout
                ).path
            pending = job.begin_stop(self.directory, format=self.format, drain=self.drain)
        return self._awaited(pending, access)


@public_evolving
class FlinkishUpgradeOperator(FlinkishOperator):
    """Upgrades a running job, as ``flinkish upgrade in-place``; its XCom is the new job's id.

    The process of the task carries it out, with the way back, so it is never deferred. If that
    process dies, a retry finishes the upgrade.

    Parameters
    ----------
    job : str
        The id of the job, or the name of exactly one.
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
        What the new program must commit, in which time; else the old one is started again.
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
        with self.access().context(self.log) as flinkish:
            job = flinkish.find_job(self.job, include_final=True)
            begun = [
                each.upgrade_id
                for each in flinkish.registry.upgrades_of(job.job_id)
                if not each.state.is_final and each.kind is not UpgradeKind.SHADOW
            ]
            if begun and context["ti"].try_number > 1:
                result = workflows.resume(flinkish, begun[-1], Secrets())
            else:
                kind = UpgradeKind.HANDOVER if self.handover else UpgradeKind.IN_PLACE
                result = workflows.upgrade(
                    flinkish, job, self._version(), kind, rehearsed=self.rehearsed
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


def program_of(spark: Program, file: str | None, arguments: Sequence[str]) -> Program:
    """Return a program of its Spark, its file and its arguments."""
    arguments = (*spark.arguments, *(str(each) for each in arguments))
    return replace(spark, application=file or spark.application, arguments=arguments)
