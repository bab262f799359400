"""Start programs: run one as a job, plan or rehearse its restore, or export checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from flinkish.client import submission
from flinkish.client.checking import Plan, check
from flinkish.client.context import Context
from flinkish.client.job import Job
from flinkish.client.reporter import Reporter
from flinkish.client.savepoints import Savepoint
from flinkish.client.submission import RunRequest
from flinkish.client.waiting import wait_until_started
from flinkish.config import Config
from flinkish.launch.restoring import settings
from flinkish.messages.launch import Program
from flinkish.messages.rehearsals import RehearsalLimits
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from flinkish.registry.jobs import JobRecord

if TYPE_CHECKING:
    from flinkish.client.exporting import ExportResult
    from flinkish.client.rehearsal import RehearsalResult

#: A program, or only the path of its file.
AnyProgram = str | os.PathLike[str] | Program
#: A path, a URL, or a savepoint.
Location = str | os.PathLike[str] | Savepoint


class ProgramRunner:
    """The use cases of :class:`flinkish.client.client.Client` that start a program."""

    def __init__(self, options: Mapping[str, str], reporter: Reporter | None) -> None:
        self._options = dict(options)
        self._context = Context(Config.load(flags=self._options), reporter)

    def run(
        self,
        program: AnyProgram | None = None,
        *,
        name: str | None = None,
        from_savepoint: Location | None = None,
        restore: RestoreOptions = NO_OPTIONS,
        plan: Plan | str | os.PathLike[str] | None = None,
        parallelism: int | None = None,
        if_not_running: bool = False,
        resume: bool = False,
        wait: bool = True,
    ) -> Job:
        """Start a job from an unchanged PySpark program.

        Parameters
        ----------
        program : Program or path, optional
            The program, or only its file; may be omitted with ``plan``.
        name : str, optional
            The job's name, which no other unfinished job may have. Default: the program's name,
            which several jobs may have.
        from_savepoint : path or Savepoint, optional
            The savepoint, or the plain Spark checkpoint, to restore.
        restore : RestoreOptions
            How the savepoint is restored.
        plan : Plan or path, optional
            The result of :meth:`check` of a savepoint, to be carried out exactly. It excludes
            ``from_savepoint``, ``parallelism``, ``resume``, and ``restore`` but for the claim mode.
        parallelism : int, optional
            Number of state partitions.
        if_not_running : bool
            Whether to start no job if a job with this name (without ``name``: the program's) has
            not ended, and to return that job instead.
        resume : bool
            Whether to resume from the newest committed batch of the newest job with this name that
            has committed a batch, if there is such a job; needs ``name``.
        wait : bool
            Whether to wait until the job runs or ends; a program that fails then raises its error.

        Returns
        -------
        Job
            The started job; with ``if_not_running``, the job that has not ended, if there is one.

        Raises
        ------
        UsageError
            There is no such program, an argument is invalid, or arguments are mutually exclusive.
        NameTaken, Locked
            Another job that has not ended has the name, or an unfinished upgrade has it.
        Superseded, WrongState
            A job of another name has continued from the job to be resumed, a process of that job
            does not end, or the runs of this name never started from their savepoint.
        LaunchFailed
            Spark, Java or a Python interpreter is missing, or no process can be started.
        SavepointNotFound, Corrupt, UnsupportedFormat, StorageError
            The savepoint is missing, incomplete or not readable; or the log cannot be written.
        Incompatible, ConsentNeeded
            The program cannot be restored from the savepoint, or only with consent.
        FlinkishError
            The error with which the program failed.
        """
        request = submission.planned(
            RunRequest(
                program=program_of(program),
                savepoint=None if from_savepoint is None else location_of(from_savepoint),
                restore=restore,
                parallelism=parallelism,
                name=name,
                if_not_running=if_not_running,
                resume=resume,
            ),
            plan,
        )
        context = self._with(request.settings())
        job = submission.run(context, request).job
        assert job is not None
        if wait:
            job = wait_until_started(context, job)
        return Job.of(self._context, job)

    def check(
        self,
        job_or_savepoint: Location | Job,
        program: AnyProgram,
        *,
        restore: RestoreOptions = NO_OPTIONS,
        parallelism: int | None = None,
    ) -> Plan:
        """Plan the restore of a savepoint or a job with a program, without doing it.

        The program runs to its end, but its queries are only planned: they read and write nothing.

        Parameters
        ----------
        job_or_savepoint : path, Savepoint or Job
            The savepoint, or a plain Spark checkpoint; or a job that runs or has ended, to plan
            what the program would do if it resumed from the job's newest committed batches. A text
            that is neither a URL nor an existing path is the id or the name of a job.
        program : Program or path
            The program, or only its file.
        restore : RestoreOptions
            How the savepoint or the job would be restored.
        parallelism : int, optional
            Number of state partitions.

        Returns
        -------
        Plan
            Returned even when its verdict is negative.

        Raises
        ------
        UsageError, LaunchFailed
            The program cannot be run.
        JobNotFound, AmbiguousJob
            No job, or several, match.
        WrongState, NoCommittedBatch, NotSavepointable
            The job has no state to resume from.
        SavepointNotFound, Corrupt, UnsupportedFormat, StorageError
            The savepoint, or the job's checkpoint, cannot be read.
        FlinkishError
            The error with which the submission of the program would end.
        """
        job, savepoint = self._origin(job_or_savepoint)
        context = self._with(settings(savepoint, restore, parallelism))
        return check(context, program_of(program), savepoint, restore, job=job)

    def rehearse(
        self,
        job_or_savepoint: Location | Job,
        program: AnyProgram,
        *,
        restore: RestoreOptions = NO_OPTIONS,
        parallelism: int | None = None,
        batches: int = 3,
        max_rows: int | None = None,
        timeout: float = 300.0,
        drop_output: bool = False,
    ) -> RehearsalResult:
        """Run a few batches of a program on a copy of the state of a savepoint or a job.

        Parameters
        ----------
        job_or_savepoint : path, Savepoint or Job
            As for :meth:`check`.
        batches : int
            How many batches each query runs.
        max_rows : int, optional
            Start no further batch of a query after this many input rows.
        timeout : float
            Seconds that all batches of a query may take.
        drop_output : bool
            Whether the output of all queries is discarded. Without this the output of file sinks
            goes into a temporary directory. Of other sinks only console, memory and noop may run.
        program : Program or path
            The program, or only its file.
        restore : RestoreOptions
            How the savepoint or the job would be restored.
        parallelism : int, optional
            Number of state partitions.

        Returns
        -------
        RehearsalResult
            Returned even when a query failed.

        Raises
        ------
        FlinkishError
            Those of :meth:`check`, and:
        UsageError
            A sink cannot be redirected.
        Incompatible, ConsentNeeded
            The program cannot resume from that state, or only with consent.
        """
        from flinkish.client.rehearsal import rehearse

        job, savepoint = self._origin(job_or_savepoint)
        return rehearse(
            self._with(settings(savepoint, restore, parallelism)),
            program_of(program),
            savepoint,
            restore,
            job=job,
            limits=RehearsalLimits(batches, max_rows, timeout),
            drop_output=drop_output,
        )

    def export(
        self,
        job_or_savepoint: Location | Job,
        directory: str | os.PathLike[str] | None = None,
        program: AnyProgram | None = None,
        *,
        restore: RestoreOptions = NO_OPTIONS,
        parallelism: int | None = None,
        query: str | None = None,
        in_place_of: str | os.PathLike[str] | None = None,
    ) -> ExportResult:
        """Make plain Spark checkpoints, from which programs continue without flinkish.

        Parameters
        ----------
        job_or_savepoint : path, Savepoint or Job
            As for :meth:`check`; a job must have ended.
        directory : path, optional
            The new directory, with a subdirectory for each query; needed without ``in_place_of``.
        program : Program or path, optional
            The program that is to continue. Without it the state stays as it is.
        restore : RestoreOptions
            How the savepoint would be restored.
        parallelism : int, optional
            Number of state partitions; needs the program.
        query : str, optional
            The only query to be exported.
        in_place_of : path, optional
            A program's old checkpoint, which the new one replaces. The old one is kept beside it.

        Returns
        -------
        ExportResult
            The checkpoints.

        Raises
        ------
        FlinkishError
            Those of :meth:`check`, and:
        UsageError
            Neither or both of ``directory`` and ``in_place_of`` are given; there is no such query;
            an option needs the program; or a table would have to be rolled back.
        StorageError
            The directory is not empty, or cannot be written.
        WrongState
            The job, or a job on the checkpoint to be replaced, has not ended.
        Incompatible, ConsentNeeded
            The program cannot resume from that state, or only with consent, or a sink is ahead.
        """
        from flinkish.client.exporting import export

        job, savepoint = self._origin(job_or_savepoint)
        return export(
            self._with(settings(savepoint, restore, parallelism)),
            None if program is None else program_of(program),
            savepoint,
            None if directory is None else os.fspath(directory),
            restore,
            job=job,
            parallelism=parallelism,
            query=query,
            replaces=None if in_place_of is None else os.fspath(in_place_of),
        )

    def _origin(self, start: Location | Job) -> tuple[JobRecord | None, str | None]:
        """Return the job that an argument refers to, or else the location of the savepoint."""
        if isinstance(start, Job):
            return start.refresh().record, None
        origin = self._context.find_origin(start) if isinstance(start, str) else location_of(start)
        return (None, origin) if isinstance(origin, str) else (origin, None)

    def _with(self, options: Mapping[str, str | None]) -> Context:
        """Return a context with the settings of one call, and with this client's registry."""
        flags = {**self._options, **{k: v for k, v in options.items() if v is not None}}
        return self._context.with_config(Config.load(flags=flags))


def program_of(program: AnyProgram | None) -> Program:
    """Return an argument as a Program, which is empty for None."""
    if program is None or isinstance(program, Program):
        return program or Program()
    return Program(os.fspath(program))


def location_of(path: Location) -> str:
    """Return the path or the URL of a location."""
    return path.path if isinstance(path, Savepoint) else os.fspath(path)
