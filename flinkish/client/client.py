"""The front door for Python programs: jobs, savepoints, restores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flinkish.client import all_jobs, migration, offline, requests
from flinkish.client.all_jobs import JobOutcome
from flinkish.client.context import accept, refuse
from flinkish.client.job import Job, taken
from flinkish.client.program import Program, own_application
from flinkish.client.reporter import Reporter
from flinkish.client.runner import Location, ProgramRunner, location_of
from flinkish.client.savepoints import Savepoint, open_savepoint
from flinkish.registry.jobs import ACTIVE_STATES
from flinkish.registry.liveness import reconcile

if TYPE_CHECKING:
    from flinkish.client.retention import PruneResult


class Client(ProgramRunner):
    """All that the command line can do, for Python programs. A context manager.

    :meth:`run` starts a job, :meth:`check` says whether a program can go on from a savepoint.

    Settings come from the same places as the command line's: the environment, ``flinkish.toml`` in
    the working directory, the user's configuration.

    Parameters
    ----------
    registry : str, optional
        The job registry: ``sqlite:///PATH``, a path, or ``postgresql://USER@HOST/DATABASE``.
        Default: that of the configuration.
    options : mapping, optional
        Configuration keys that win over all other places.
    reporter : Reporter, optional
        Told of notices, warnings and progress. Default: nobody is.

    Raises
    ------
    InvalidConfiguration
        A value is none that its key takes.
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
        """Return the jobs of the registry, the oldest first; those whose driver died are FAILED.

        Parameters
        ----------
        name : str, optional
            Only jobs of this name.
        include_final : bool
            Whether those that have ended are returned too.

        Raises
        ------
        RegistryError
            The registry cannot be read.
        """
        registry = self._context.registry
        listed = registry.jobs(states=None if include_final else ACTIVE_STATES)
        found = reconcile(registry, [job for job in listed if name is None or job.name == name])
        jobs = [Job.of(self._context, job) for job in found]
        return [job for job in jobs if include_final or not job.is_final]

    def job(self, reference: str) -> Job:
        """Return one job.

        Parameters
        ----------
        reference : str
            A job id, a unique prefix of one, or the name of exactly one job. A name means a job
            that has not ended where there is one.

        Raises
        ------
        JobNotFound, AmbiguousJob
            No job, or several, are meant.
        """
        return Job.of(self._context, self._context.find_job(reference, include_final=True))

    def savepoint(self, path: Location) -> Savepoint:
        """Open a savepoint as :meth:`Savepoint.open`; this registry hears of its disposal."""
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
            Only of jobs with such a name; ``*`` and ``?`` are wildcards.
        timeout : float, optional
            Seconds for all of them together. Default: ``client.timeout``.

        Returns
        -------
        list of Outcome
            What became of each job; failures are in it, not raised.
        """
        context = self._context
        target = requests.savepoint_target(context, directory)
        jobs = all_jobs.running_jobs(context, name)
        return all_jobs.save_all(
            context,
            jobs,
            target,
            context.timeout(timeout),
            full=full,
            format_=format,
        )

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
        """Take a savepoint of a Spark checkpoint that flinkish never saw.

        Parameters
        ----------
        checkpoint : path or URL
            One checkpoint, or a directory of several.
        directory, format, full : optional
            As for :meth:`Job.savepoint`.
        name : str, optional
            The job's name in the savepoint. Default: the directory's.
        may_be_running : bool
            Whether it is taken too when the checkpoint was written to a moment ago.

        Raises
        ------
        SavepointNotFound
            There is no checkpoint.
        ConsentNeeded
            Its query may be running.
        WrongState, NoCommittedBatch
            A job has it that is not dead, or there is nothing to save.
        """
        request = offline.save_checkpoints(
            self._context,
            os.fspath(checkpoint),
            requests.savepoint_target(self._context, directory),
            name,
            full=full,
            format_=format,
            agree=accept if may_be_running else refuse,
        )
        return taken(self._context, request)

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
        """Make a new savepoint of an old one, its state rewritten in a Spark application.

        Parameters
        ----------
        savepoint : path or Savepoint
            The old one; it is only read.
        directory : str
            Where the new one gets a directory of its own.
        changes : Changes, optional
            What is to change. Default: the state is written anew as it is.
        schemas : mapping, optional
            New Avro schemas (JSON data) of values, by ``[QUERY/]UID[/STATE]``.
        master, conf, spark_home, python, client_python : optional
            The Spark that does it, as for :meth:`run`.

        Returns
        -------
        Savepoint
            The new one.

        Raises
        ------
        UsageError
            There is no such state, or changes exclude each other.
        LaunchFailed
            The application cannot be started.
        FlinkishError
            What it refused, or failed with.
        """
        asked = changes or migration.Changes()
        asked.check()
        opened = open_savepoint(self._context, location_of(savepoint))._opened
        new = [
            migration.new_schema(opened, name, lambda schema=schema: schema)  # type: ignore[misc]
            for name, schema in (schemas or {}).items()
        ]
        program = Program(
            master=master,
            spark_home=spark_home,
            python=python,
            client_python=client_python,
            conf=dict(conf or {}),
        )
        done = migration.migrate(
            self._context,
            migration.wanted(opened, directory, asked, new),
            *own_application(program, self._context.config),
        )
        return open_savepoint(self._context, done.savepoint.path)

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
        """Remove the savepoints of a directory that no rule keeps, each job's for itself.

        The newest savepoint of a job always stays, and so does one that a running job needs.

        Parameters
        ----------
        directory : str
            A path or a URL.
        keep_last : int, optional
            The newest so many.
        keep_within : float, optional
            All taken within so many seconds before now.
        keep_hourly, keep_daily, keep_weekly : int, optional
            The newest of each of the last so many hours, days, weeks that have any (UTC).
        garbage : bool
            Whether unfinished ones go that nobody writes any more; needs no rule.
        dry_run : bool
            Touch nothing, and return what would be done.

        Returns
        -------
        PruneResult
            What became of each; what could not be removed is in its ``errors``.

        Raises
        ------
        UsageError
            No rule is given.
        SavepointNotFound
            There is no such directory.
        Locked
            Another operation holds the directory.
        """
        from flinkish.client.retention import prune_savepoints
        from flinkish.savepoint.manage.retention import Policy

        policy = Policy(keep_last, keep_within, keep_hourly, keep_daily, keep_weekly)
        return prune_savepoints(self._context, directory, policy, garbage=garbage, dry_run=dry_run)


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
