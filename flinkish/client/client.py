"""The entry point for Python programs: jobs, savepoints, restores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flinkish.annotations import public
from flinkish.client import all_jobs, migration, offline
from flinkish.client.all_jobs import JobOutcome
from flinkish.client.context import accept, refuse
from flinkish.client.job import Job, PendingSavepoint, opened
from flinkish.client.reporter import Reporter
from flinkish.client.runner import Location, ProgramRunner, location_of
from flinkish.client.savepoints import Savepoint, copy_savepoint, open_savepoint
from flinkish.config import working_directory
from flinkish.messages.launch import Program
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from flinkish.registry.jobs import ACTIVE_STATES
from flinkish.registry.liveness import reconcile

if TYPE_CHECKING:
    from flinkish.client.metrics import Metric
    from flinkish.client.pruning import PruneResult
    from flinkish.client.purge import PurgeResult
    from flinkish.client.together import StartedAgain
    from flinkish.messages.results import SavepointCopy


@public
class Client(ProgramRunner):
    """The functions of the command line, for Python programs. A context manager.

    :meth:`run` starts a job; :meth:`check` says whether a program can be restored from a savepoint.
    Settings come from the same places as for the command line: the environment, ``flinkish.toml``
    in the working directory, and the user's configuration.

    Parameters
    ----------
    registry : str, optional
        The job registry: ``sqlite:///PATH``, a path, or ``postgresql://USER@HOST/DATABASE``.
        Default: that of the configuration.
    options : mapping, optional
        Configuration keys that override all other places.
    reporter : Reporter, optional
        Receives notices, warnings and progress. Default: they are dropped.

    Raises
    ------
    InvalidConfiguration
        A value is not valid for its key.
    """

    def __init__(
        self,
        registry: str | None = None,
        *,
        options: Mapping[str, str] | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        named = {} if registry is None else {"registry.url": registry}
        super().__init__({**(options or {}), **named}, reporter)

    def close(self) -> None:
        """Close the registry."""
        self._context.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def jobs(self, *, name: str | None = None, include_final: bool = False) -> list[Job]:
        """Return the registry's jobs, the oldest first; one whose driver died is FAILED or FAILING.

        Parameters
        ----------
        name : str, optional
            Only jobs with this name.
        include_final : bool
            Whether jobs that have ended are returned too.

        Raises
        ------
        RegistryError
            The registry cannot be read.
        """
        registry = self._context.registry
        listed = registry.jobs(states=None if include_final else ACTIVE_STATES)
        records = reconcile(registry, [job for job in listed if name is None or job.name == name])
        jobs = [Job.of(self._context, job) for job in records]
        return [job for job in jobs if include_final or not job.is_final]

    def job(self, reference: str) -> Job:
        """Return one job.

        Parameters
        ----------
        reference : str
            The id of the job, a unique prefix of an id, or a name that exactly one job has. A name
            refers to a job that has not ended, if there is one.

        Raises
        ------
        JobNotFound, AmbiguousJob, UsageError
            No job, or several, match; or the reference is blank, or has 32 characters but is no id.
        """
        return Job.of(self._context, self._context.find_job(reference, include_final=True))

    def pending(self, request_id: str) -> PendingSavepoint:
        """Return a savepoint or a stop that was requested earlier, by any process.

        Raises
        ------
        RequestNotFound
            The registry has no such request.
        UsageError
            It is a cancel without a savepoint.
        """
        from flinkish.errors import UsageError

        request = self._context.registry.request(request_id)
        if request.savepoint is None:
            raise UsageError(
                f"request {request_id} is a {request.kind.value} without a savepoint",
                hint="wait for the job's end with Job.wait()",
            )
        return PendingSavepoint(request.request_id, request.job_id, self._context)

    def metrics(self) -> list[Metric]:
        """Return the numbers of the registry for Prometheus; see :mod:`flinkish.client.metrics`.

        Raises
        ------
        RegistryError
            The registry cannot be read.
        """
        from flinkish.client.metrics import measure

        return measure(self._context)

    def savepoint(self, path: Location) -> Savepoint:
        """Open a savepoint like :meth:`Savepoint.open`; the registry records its disposal."""
        return open_savepoint(self._context, location_of(path))

    def save_all(
        self,
        directory: str | None = None,
        *,
        name: str | None = None,
        format: str = "native",
        full: bool = False,
        timeout: float | None = None,
    ) -> list[JobOutcome]:
        """Take a savepoint of every running job, all at the same time.

        Parameters
        ----------
        directory, format, full : optional
            As for :meth:`Job.savepoint`.
        name : str, optional
            Only jobs whose name matches; ``*`` and ``?`` are wildcards.
        timeout : float, optional
            Seconds for all of them together. Default: ``client.timeout``.

        Returns
        -------
        list of JobOutcome
            The outcome for each job, failures included. NoSavepointDirectory is still raised.
        """
        context = self._context
        asked = all_jobs.jobs_to_save(context, directory, name)
        saved = all_jobs.save_all(context, asked, timeout=timeout, full=full, format_=format)
        return list(saved.outcomes)

    def stop_all(
        self,
        directory: str | None = None,
        *,
        name: str | None = None,
        format: str = "native",
        timeout: float | None = None,
    ) -> list[JobOutcome]:
        """Stop every job with a savepoint, all at the same time, and wait until they have ended.

        If the newest earlier call still stops jobs, or has stopped only some, none of which was
        started again, this call continues it, and :meth:`restart_all` starts the jobs of both.

        Parameters
        ----------
        directory, format, timeout : optional
            As for :meth:`save_all`.
        name : str, optional
            Only jobs whose name matches; ``*`` and ``?`` are wildcards.

        Returns
        -------
        list of JobOutcome
            The outcome for each job. Failures are part of the outcomes, not raised.

        Raises
        ------
        NoSavepointDirectory
            No directory is given or configured.
        """
        from flinkish.client import together

        context = self._context
        asked = all_jobs.jobs_to_save(context, directory, name, states=together.STOPPABLE)
        stopped = together.stop_all(context, asked, timeout=timeout, format_=format)
        return list(stopped.outcomes)

    def restart_all(
        self,
        *,
        name: str | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        spark_home: str | None = None,
        python: str | None = None,
        client_python: str | None = None,
        restore: RestoreOptions = NO_OPTIONS,
        dry_run: bool = False,
    ) -> list[StartedAgain]:
        """Start the jobs of the newest :meth:`stop_all` again, as new jobs; wait until they run.

        Each continues from the savepoint that it was stopped with. Jobs that run again already are
        skipped, so another call continues with the jobs that have not come up.

        Parameters
        ----------
        name : str, optional
            Only jobs whose name matches; ``*`` and ``?`` are wildcards.
        master, conf, spark_home, python, client_python : optional
            Another Spark for all of them, as for :meth:`run`. Default: what each job had.
        restore : RestoreOptions
            The consents that the restores need, as for :meth:`Job.restart`.
        dry_run : bool
            Only find out what would be started.

        Returns
        -------
        list of StartedAgain
            The outcome for each job; empty if nothing was stopped. Failures are part of the
            outcomes, not raised.
        """
        from flinkish.client.program import absolute
        from flinkish.client.together import restart_all

        spark = Program(
            master=master,
            spark_home=spark_home,
            python=python,
            client_python=client_python,
            conf=dict(conf or {}),
        )
        spark = absolute(spark, working_directory(instead="/"))
        started = restart_all(self._context, name, changes=spark, options=restore, dry_run=dry_run)
        return list(started.outcomes)

    def savepoint_of_checkpoint(
        self,
        checkpoint: str | os.PathLike[str],
        directory: str | None = None,
        *,
        name: str | None = None,
        format: str = "native",
        full: bool = False,
        may_be_running: bool = False,
    ) -> Savepoint:
        """Take a savepoint of a Spark checkpoint that was not written by flinkish.

        Parameters
        ----------
        checkpoint : path or URL
            One checkpoint, or a directory of several.
        directory, format, full : optional
            As for :meth:`Job.savepoint`.
        name : str, optional
            The job's name in the savepoint. Default: the directory's name.
        may_be_running : bool
            Whether to take a savepoint even if the checkpoint was written to a moment ago.

        Raises
        ------
        SavepointNotFound
            There is no checkpoint.
        ConsentNeeded
            The checkpoint's query may be running.
        WrongState, NoCommittedBatch, NoSavepointDirectory, Corrupt, StorageError, Locked
            The checkpoint belongs to a job that is not dead, there is nothing to save, no directory
            is given or configured, or the savepoint cannot be written.
        """
        outcome = offline.save_checkpoints(
            self._context,
            os.fspath(checkpoint),
            directory,
            name,
            full=full,
            format_=format,
            agree=accept if may_be_running else refuse,
        )
        return opened(self._context, outcome)

    def copy(self, savepoint: Location, directory: str, *, dry_run: bool = False) -> SavepointCopy:
        """Copy a savepoint into a directory on any storage, with all files that it shares.

        Parameters
        ----------
        savepoint : path or Savepoint
            The savepoint; it is only read.
        directory : str
            The parent of the copy's directory, which has the savepoint's name.
        dry_run : bool
            Only find out what would be sent.

        Returns
        -------
        SavepointCopy
            Where the copy is, and what was sent.

        Raises
        ------
        FlinkishError
            As for :func:`~flinkish.client.savepoints.copy_savepoint`; repeat the call to continue.
        """
        return copy_savepoint(self._context, location_of(savepoint), directory, dry_run=dry_run)

    def migrate(
        self,
        savepoint: Location,
        directory: str,
        changes: migration.Changes | None = None,
        *,
        schemas: Mapping[str, Any] | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        spark_home: str | None = None,
        python: str | None = None,
        client_python: str | None = None,
    ) -> Savepoint:
        """Make a new savepoint from an old one; a Spark application rewrites its state.

        Parameters
        ----------
        savepoint : path or Savepoint
            The old savepoint; it is only read.
        directory : str
            The parent of the new savepoint's own directory.
        changes : Changes, optional
            What changes. Default: the state is rewritten unchanged.
        schemas : mapping, optional
            New Avro schemas (JSON data) of values, by ``[QUERY/]UID[/STATE]``.
        master, conf, spark_home, python, client_python : optional
            The Spark that rewrites the state, as for :meth:`run`.

        Returns
        -------
        Savepoint
            The new savepoint.

        Raises
        ------
        UsageError
            There is no such state, or changes are mutually exclusive.
        LaunchFailed
            The application cannot be started.
        FlinkishError
            ``savepoint`` cannot be opened, or the application refused the migration or failed.
        """
        program = Program(
            master=master,
            spark_home=spark_home,
            python=python,
            client_python=client_python,
            conf=dict(conf or {}),
        )
        result = migration.migrate(
            self._context,
            location_of(savepoint),
            directory,
            changes or migration.Changes(),
            tuple((schemas or {}).items()),
            program,
        )
        return open_savepoint(self._context, result.savepoint.path)

    def prune(
        self,
        directory: str,
        *,
        keep_last: int | None = None,
        keep_within: float | None = None,
        keep_hourly: int | None = None,
        keep_daily: int | None = None,
        keep_weekly: int | None = None,
        garbage: bool = False,
        dry_run: bool = False,
    ) -> PruneResult:
        """Remove the savepoints of a directory that no rule keeps.

        The rules apply to each job separately. The newest whole savepoint of a job is always kept.
        So are savepoints that a running job needs, and those that a link in the directory leads to.

        Parameters
        ----------
        directory : str
            A path or a URL.
        keep_last : int, optional
            Keep this many of the newest.
        keep_within : float, optional
            Keep all that were taken within this many seconds before now.
        keep_hourly, keep_daily, keep_weekly : int, optional
            Keep the newest of each of the last N hours, days or weeks that have any (UTC).
        garbage : bool
            Whether to remove unfinished savepoints that no process writes any more; needs no rule.
        dry_run : bool
            Touch nothing, and return what would be done.

        Returns
        -------
        PruneResult
            The outcome for each savepoint; failed removals are in its ``errors``.

        Raises
        ------
        UsageError
            No rule is given (without ``garbage``), or a rule has a negative number.
        SavepointNotFound, StorageError, RegistryError
            There is no such directory, or the directory or the registry cannot be read.
        Locked
            Another operation holds the directory.
        """
        from flinkish.client.pruning import prune_savepoints
        from flinkish.savepoint.manage.retention import Policy

        policy = Policy(keep_last, keep_within, keep_hourly, keep_daily, keep_weekly)
        return prune_savepoints(self._context, directory, policy, garbage=garbage, dry_run=dry_run)

    def purge(
        self, ended_before: float, *, failed: bool = False, dry_run: bool = False
    ) -> PurgeResult:
        """Remove ended jobs: their records, requests, logs and checkpoints. Savepoints stay.

        A checkpoint is removed only if flinkish placed it and no remaining job needs it. The
        record of a job stays while there is a savepoint of an earlier batch of its queries.

        Parameters
        ----------
        ended_before : float
            Remove jobs that ended more than this many seconds ago.
        failed : bool
            Whether to also remove jobs whose failure nobody has acknowledged.
        dry_run : bool
            Touch nothing, and return what would be done.

        Returns
        -------
        PurgeResult
            The outcome for each ended job; failed removals are in its ``errors``.

        Raises
        ------
        RegistryError
            The registry cannot be read.
        """
        from flinkish.client.purge import purge_jobs

        return purge_jobs(self._context, ended_before, failed=failed, dry_run=dry_run)


@public
def prune(
    directory: str,
    *,
    keep_last: int | None = None,
    keep_within: float | None = None,
    keep_hourly: int | None = None,
    keep_daily: int | None = None,
    keep_weekly: int | None = None,
    garbage: bool = False,
    dry_run: bool = False,
) -> PruneResult:
    """Remove the savepoints of a directory that no rule keeps, with the configured registry.

    Parameters, result and errors are those of :meth:`Client.prune`.
    """
    with Client() as client:
        return client.prune(
            directory,
            keep_last=keep_last,
            keep_within=keep_within,
            keep_hourly=keep_hourly,
            keep_daily=keep_daily,
            keep_weekly=keep_weekly,
            garbage=garbage,
            dry_run=dry_run,
        )
