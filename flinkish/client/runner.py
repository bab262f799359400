"""Start programs: run one as a job, or plan its restore."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flinkish.client import submission
from flinkish.client.check_origin import find_origin
from flinkish.client.checking import Plan, check
from flinkish.client.context import Context
from flinkish.client.job import Job
from flinkish.client.program import Program
from flinkish.client.reporter import Reporter
from flinkish.client.restoring import Restore, check_uid_map
from flinkish.client.savepoints import Savepoint
from flinkish.client.set_offsets import Where
from flinkish.client.waiting import wait_until_started
from flinkish.config import Config
from flinkish.errors import NameTaken
from flinkish.messages.rehearsals import RehearsalLimits
from flinkish.registry.jobs import JobRecord

if TYPE_CHECKING:
    from flinkish.client.rehearsal import RehearsalResult

#: A path, a URL, or a savepoint.
Location = str | os.PathLike[str] | Savepoint


class ProgramRunner:
    """The use cases of :class:`flinkish.client.client.Client` that start a program."""

    def __init__(self, options: Mapping[str, str], reporter: Reporter | None) -> None:
        self._options = dict(options)
        self._context = Context(Config.load(flags=self._options), reporter)

    def run(
        self,
        app: str | os.PathLike[str] | None = None,
        args: Sequence[str] = (),
        *,
        module: str | None = None,
        name: str | None = None,
        from_savepoint: Location | None = None,
        plan: Plan | str | os.PathLike[str] | None = None,
        allow_non_restored: bool = False,
        claim: bool | None = None,
        fork: bool = False,
        uid_map: Mapping[str, str] | None = None,
        reset_sources: Sequence[str] = (),
        sink_ahead: str | None = None,
        accept_lost_rows: bool = False,
        accept_partial: Sequence[str] = (),
        offline: bool = False,
        set_offsets: Mapping[str, Where] | None = None,
        accept_repeated_rows: bool = False,
        parallelism: int | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        spark_home: str | None = None,
        python: str | None = None,
        client_python: str | None = None,
        py_files: Sequence[str] = (),
        archives: Sequence[str] = (),
        jars: Sequence[str] = (),
        packages: Sequence[str] = (),
        secret_args: Sequence[str] = (),
        if_not_running: bool = False,
        resume: bool = False,
        wait: bool = True,
    ) -> Job:
        """Start a job from an unchanged PySpark program.

        Parameters
        ----------
        app : path, optional
            The program; may be omitted with ``module`` and with ``plan``.
        args : sequence of str
            The program's arguments.
        module : str, optional
            The program as a module.
        name : str, optional
            The job's name, which no other job that has not ended may have. Default: the program's,
            which others may have.
        from_savepoint : path or Savepoint, optional
            The savepoint, or the plain Spark checkpoint, to restore.
        plan : Plan or path, optional
            The result of :meth:`check`, to be carried out exactly; replaces ``from_savepoint`` and
            the other options of the restore.
        allow_non_restored : bool
            Whether non-restored state, which no operator of the program takes, is dropped.
        claim : bool, optional
            Whether the job owns the savepoint and deletes it once it is not needed.
            Default: as configured, else no.
        fork : bool
            Whether the queries get new ids, so that the original job may continue.
        uid_map : mapping, optional
            Old uids (or operator ids) of the savepoint and the new uids that get their state.
        reset_sources : sequence of str
            Sources that start from scratch, by uid or by what they read.
        sink_ahead : str, optional
            For a sink that has later batches: ``rebase`` continues after them, ``accept`` drops
            output, ``rollback`` rolls its table back to the savepoint's version.
        accept_lost_rows : bool
            Whether rows that a Kafka source can no longer read are skipped.
        accept_partial : sequence of str
            Operators, by uid or name, whose results may be incomplete for existing keys
            and rows.
        offline : bool
            Whether the restore is planned without asking Kafka brokers.
        set_offsets : mapping, optional
            Sources, by uid or by what they read, and the offsets from which they resume:
            ``"earliest"``, ``"latest"``, ``"timestamp:TIME"``, a file with offsets in the source's
            own form as JSON, or these offsets.
        accept_repeated_rows : bool
            Whether rows may be read again, and counted again by the state.
        parallelism : int, optional
            Number of state partitions.
        master, spark_home, python, client_python : str, optional
            Spark's master, the Spark, Python of the executors and of the driver.
        conf : mapping, optional
            Spark's settings.
        py_files, archives, jars, packages : sequence of str
            Accompanying files: files for imports, archives, jars, Maven coordinates.
        secret_args : sequence of str
            Further arguments of the program, which are never shown.
        if_not_running : bool
            Whether a job of the name (also of the program's) that has not ended is returned
            instead of starting another.
        resume : bool
            Whether it resumes from the newest committed batch of the newest job of the name, if any
            has committed one; needs ``name``.
        wait : bool
            Whether to wait until the job runs (or has finished). If so, a program that fails raises
            its error.

        Returns
        -------
        Job
            The started job.

        Raises
        ------
        UsageError
            There is no such program, or arguments are mutually exclusive.
        NameTaken
            Another job that has not ended has the name.
        LaunchFailed
            Spark, Java or a Python is missing.
        SavepointNotFound, Corrupt, UnsupportedFormat
            The savepoint is missing, incomplete or not readable.
        Incompatible, ConsentNeeded
            The program cannot take the savepoint, or not without consent.
        FlinkishError
            The error with which the program failed.
        """
        restore = _restore(
            *(from_savepoint, allow_non_restored, claim, fork, uid_map, reset_sources),
            *(sink_ahead, accept_lost_rows, accept_partial, offline),
            *(set_offsets, accept_repeated_rows),
        )
        program = _program(
            *(app, module, args, secret_args),
            *(master, spark_home, python, client_python),
            *(py_files, archives, jars, packages),
            conf,
        )
        planned = submission.load_plan(plan, restore, parallelism)
        if planned is not None:
            restore, parallelism = submission.planned_restore(planned, restore)
            program = submission.planned_program(planned, program)
        context = self._with(restore.settings(), parallelism)
        try:
            ready = submission.prepare(
                *(context, program, restore),
                plan=planned,
                name=name,
                if_not_running=if_not_running,
                resume=resume,
            )
            job = submission.launch(context, ready)
        except NameTaken as taken:
            if not if_not_running:
                raise
            job = submission.holder_of(context, taken)
        if wait:
            job = wait_until_started(context, job)
        return Job.of(self._context, job)

    def check(
        self,
        job_or_savepoint: Location | Job,
        app: str | os.PathLike[str] | None = None,
        args: Sequence[str] = (),
        *,
        module: str | None = None,
        allow_non_restored: bool = False,
        fork: bool = False,
        uid_map: Mapping[str, str] | None = None,
        reset_sources: Sequence[str] = (),
        sink_ahead: str | None = None,
        accept_lost_rows: bool = False,
        accept_partial: Sequence[str] = (),
        offline: bool = False,
        set_offsets: Mapping[str, Where] | None = None,
        accept_repeated_rows: bool = False,
        parallelism: int | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        spark_home: str | None = None,
        python: str | None = None,
        client_python: str | None = None,
        py_files: Sequence[str] = (),
        archives: Sequence[str] = (),
        jars: Sequence[str] = (),
        packages: Sequence[str] = (),
        secret_args: Sequence[str] = (),
    ) -> Plan:
        """Plan the restore of a savepoint or a job with a program, without doing it.

        The program runs to its end, but its queries are only planned: nothing is read or written.

        Parameters
        ----------
        job_or_savepoint : path, Savepoint or Job
            The savepoint, or a plain Spark checkpoint; or a job that runs or has ended, to plan
            what the program would do if it resumed from the job's newest committed batches. A text
            that is neither a URL nor an existing path is the id or the name of a job.
        app, args, ...
            Those of :meth:`run`.

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
        restore = _restore(
            *(savepoint, allow_non_restored, None, fork, uid_map, reset_sources),
            *(sink_ahead, accept_lost_rows, accept_partial, offline),
            *(set_offsets, accept_repeated_rows),
        )
        program = _program(
            *(app, module, args, secret_args),
            *(master, spark_home, python, client_python),
            *(py_files, archives, jars, packages),
            conf,
        )
        return check(self._with(restore.settings(), parallelism), program, restore, job=job)

    def rehearse(
        self,
        job_or_savepoint: Location | Job,
        app: str | os.PathLike[str] | None = None,
        args: Sequence[str] = (),
        *,
        module: str | None = None,
        batches: int = 3,
        max_rows: int | None = None,
        timeout: float = 300.0,
        drop_output: bool = False,
        allow_non_restored: bool = False,
        uid_map: Mapping[str, str] | None = None,
        reset_sources: Sequence[str] = (),
        accept_lost_rows: bool = False,
        accept_partial: Sequence[str] = (),
        offline: bool = False,
        set_offsets: Mapping[str, Where] | None = None,
        accept_repeated_rows: bool = False,
        parallelism: int | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        spark_home: str | None = None,
        python: str | None = None,
        client_python: str | None = None,
        secret_args: Sequence[str] = (),
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
            goes into a directory that is removed, and other sinks are refused.
        app, args, ...
            Those of :meth:`run`.

        Returns
        -------
        RehearsalResult
            Also when a query failed.

        Raises
        ------
        FlinkishError
            Those of :meth:`check`, and:
        UsageError
            A sink cannot be redirected.
        Incompatible, ConsentNeeded
            The program cannot resume from that state.
        """
        from flinkish.client.rehearsal import rehearse

        job, savepoint = self._origin(job_or_savepoint)
        restore = _restore(
            *(savepoint, allow_non_restored, None, False, uid_map, reset_sources),
            *(None, accept_lost_rows, accept_partial, offline),
            *(set_offsets, accept_repeated_rows),
        )
        program = _program(
            *(app, module, args, secret_args),
            *(master, spark_home, python, client_python),
            *((), (), (), ()),
            conf,
        )
        return rehearse(
            self._with(restore.settings(), parallelism),
            program,
            restore,
            job=job,
            limits=RehearsalLimits(batches, max_rows, timeout),
            drop_output=drop_output,
        )

    def _origin(self, given: Location | Job) -> tuple[JobRecord | None, str | None]:
        """Return the job that is meant, or the location of the savepoint."""
        if isinstance(given, Job):
            return given.refresh().record, None
        found = find_origin(self._context, given) if isinstance(given, str) else location_of(given)
        return (None, found) if isinstance(found, str) else (found, None)

    def _with(self, settings: Mapping[str, str | None], parallelism: int | None) -> Context:
        """Return the context with the settings of one call; its registry is this client's."""
        count = None if parallelism is None else str(parallelism)
        flags = {
            **self._options,
            **{k: v for k, v in settings.items() if v is not None},
            **({} if count is None else {"parallelism.default": count}),
        }
        return self._context.with_config(Config.load(flags=flags))


def _program(
    app: str | os.PathLike[str] | None,
    module: str | None,
    args: Sequence[str],
    secret_args: Sequence[str],
    master: str | None,
    spark_home: str | None,
    python: str | None,
    client_python: str | None,
    py_files: Sequence[str],
    archives: Sequence[str],
    jars: Sequence[str],
    packages: Sequence[str],
    conf: Mapping[str, str] | None,
) -> Program:
    """Return the program of :meth:`ProgramRunner.run`'s arguments."""
    return Program(
        application=None if app is None else os.fspath(app),
        module=module,
        arguments=args,
        secret_arguments=secret_args,
        master=master,
        spark_home=spark_home,
        python=python,
        client_python=client_python,
        py_files=py_files,
        archives=archives,
        jars=jars,
        packages=packages,
        conf=dict(conf or {}),
    )


def _restore(
    savepoint: Location | None,
    allow_non_restored: bool,
    claim: bool | None,
    fork: bool,
    uid_map: Mapping[str, str] | None,
    reset_sources: Sequence[str],
    sink_ahead: str | None,
    accept_lost_rows: bool,
    accept_partial: Sequence[str],
    offline: bool,
    set_offsets: Mapping[str, Where] | None,
    accept_repeated_rows: bool,
) -> Restore:
    return Restore(
        savepoint=None if savepoint is None else location_of(savepoint),
        allow_non_restored=allow_non_restored,
        claim_mode=None if claim is None else "claim" if claim else "no_claim",
        fork=fork,
        uid_map=check_uid_map((uid_map or {}).items()),
        reset_sources=tuple(reset_sources),
        sink_ahead=sink_ahead,
        accept_lost_rows=accept_lost_rows,
        accept_partial=tuple(accept_partial),
        offline=offline,
        set_offsets=tuple((set_offsets or {}).items()),
        accept_repeated_rows=accept_repeated_rows,
    )


def location_of(path: Location) -> str:
    """Return the path or the URL of a location."""
    return path.path if isinstance(path, Savepoint) else os.fspath(path)
