"""The jobs of a test: what they restore, what they commit, and their state as rows."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinkish.annotations import public_evolving
from flinkish.client.checking import Plan
from flinkish.client.client import Client
from flinkish.client.job import Job
from flinkish.client.reporter import Progress
from flinkish.client.runner import AnyProgram, Location, location_of, program_of
from flinkish.client.savepoints import Savepoint
from flinkish.errors import FlinkishError, SavepointNotFound, WrongState
from flinkish.messages.launch import Program
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobState

#: Settings of jobs in tests, unless the test has others.
_SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
#: State partitions of jobs that begin without a savepoint; with Spark's 200 a test takes minutes.
PARTITIONS = 2
#: A time limit in seconds, against hangs, for work that takes a few seconds on an idle machine.
PATIENCE = 300.0


@public_evolving
class Jobs:
    """A context manager that checks and runs the programs of one test; jobs get copied savepoints.

    Parameters
    ----------
    directory : path
        The directory for the registry, checkpoints, savepoints and copies; created if missing.
    options : mapping, optional
        Configuration keys, including Spark's (``spark.*``).
    root : path, optional
        Where programs that are not in the working directory are looked for.

    Attributes
    ----------
    client : flinkish.Client
        Knows the jobs of this test only.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        options: Mapping[str, str] | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
    ) -> None:
        self.directory = Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._root = root
        registry = f"sqlite:///{self.directory / 'registry.db'}"
        Registry.open(registry).close()  # a named registry must exist, even for a check
        self.client = Client(
            registry,
            options={
                **_SETTINGS,
                "execution.checkpointing.dir": str(self.directory / "checkpoints"),
                "execution.checkpointing.savepoint-dir": str(self.directory / "savepoints"),
                "client.timeout": f"{PATIENCE:g} s",
                **(options or {}),
            },
            reporter=_Captured(),
        )

    def restores(
        self,
        program: AnyProgram,
        savepoint: Location,
        *arguments: object,
        restore: RestoreOptions = NO_OPTIONS,
    ) -> Plan:
        """Assert that a program can continue from a savepoint, according to ``flinkish check``.

        Parameters
        ----------
        program : path or Program
            The program; a path is relative to the working directory, or else to ``root``.
        savepoint : path or Savepoint
            The savepoint, or a plain Spark checkpoint; it is only read.
        *arguments : object
            The program's arguments, which are converted to text.
        restore : RestoreOptions
            Consents and other options of ``flinkish run -s``.

        Returns
        -------
        Plan
            What happens to each operator, source and sink.

        Raises
        ------
        AssertionError
            The program cannot continue, or not without another consent; the message has the plan.
        FlinkishError
            The savepoint cannot be read, there is no such program, or the program failed.
        """
        __tracebackhide__ = True
        named = self._program(program, arguments)
        plan = self.client.check(savepoint, named, restore=restore)
        if not plan.ok:
            name = named.application or named.module
            raise AssertionError(
                f"{name} cannot go on from {location_of(savepoint)}:\n{plan.text()}"
            )
        return plan

    def start(
        self,
        program: AnyProgram,
        *arguments: object,
        savepoint: Location | None = None,
        restore: RestoreOptions = NO_OPTIONS,
    ) -> RunningJob:
        """Start a program as a job, and wait until its queries run.

        Parameters
        ----------
        program, *arguments, restore
            As for :meth:`restores`.
        savepoint : path or Savepoint, optional
            What the program continues from. A savepoint is copied for the job, and stays as it is;
            a plain Spark checkpoint is only read.

        Raises
        ------
        FlinkishError
            The savepoint cannot be copied, there is no such program, or the start failed.
        """
        origin = None if savepoint is None else self._copy(location_of(savepoint))
        named = self._program(program, arguments)
        partitions = PARTITIONS if origin is None else None
        job = self.client.run(named, from_savepoint=origin, restore=restore, parallelism=partitions)
        return RunningJob(self, job, named)

    def with_state(
        self, savepoint: Location, states: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> Savepoint:
        """Make a copy of a savepoint, with other rows in some of its states.

        Parameters
        ----------
        savepoint : path or Savepoint
            A savepoint of the program; it is only read.
        states : mapping
            The rows of each state that is replaced, by ``[QUERY/]UID[/STATE]``, as :meth:`rows`
            returns them. Typed state (:mod:`flinkish.state`) is given as bytes.

        Raises
        ------
        UsageError, Incompatible
            There is no such state, a state is given twice, or rows do not have its form.
        SavepointNotFound, Corrupt, UnsupportedFormat
            The savepoint cannot be read.
        """
        from flinkish.savepoint.format.reader import open_savepoint
        from flinkish.savepoint.state.given_rows import with_rows

        opened = open_savepoint(location_of(savepoint))
        written = with_rows(opened, states, str(self.directory / "savepoints"))
        return self.client.savepoint(written.path)

    def rows(self, savepoint: Location, state: str) -> list[dict[str, Any]]:
        """Return all rows of a state of a savepoint, sorted by their keys.

        Parameters
        ----------
        savepoint : path or Savepoint
            The savepoint.
        state : str
            ``[QUERY/]UID[/STATE]``.

        Returns
        -------
        list of dict
            ``key`` and ``value`` of each row as JSON data: times are text in UTC, see
            ``flinkish state show --json``.

        Raises
        ------
        UsageError
            There is no such state.
        SavepointNotFound, Corrupt, UnsupportedFormat
            The savepoint cannot be read.
        """
        rows = self.client.savepoint(savepoint).rows(state, sys.maxsize)
        named = [{"key": row["key"], "value": row["value"]} for row in rows]
        return sorted(named, key=lambda row: json.dumps(row, sort_keys=True))

    def close(self) -> None:
        """Cancel the jobs that still run, and close the registry.

        Raises FlinkishError if a job could not be canceled, after the others have been canceled.
        """
        failures: list[FlinkishError] = []
        try:
            for job in self.client.jobs():
                try:
                    job.cancel(timeout=PATIENCE)
                except WrongState:
                    pass  # it has just ended
                except FlinkishError as error:
                    failures.append(error)
        finally:
            self.client.close()
        if failures:
            raise failures[0]

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _program(self, program: AnyProgram, arguments: Sequence[object]) -> Program:
        named = program_of(program)
        file = named.application
        if file and self._root and "://" not in file and not os.path.exists(file):
            file = os.path.join(self._root, file)
        return replace(named, application=file, arguments=(*named.arguments, *map(str, arguments)))

    def _copy(self, savepoint: str) -> str:
        try:
            return self.client.copy(savepoint, str(self.directory / "copies")).path
        except SavepointNotFound:
            return savepoint  # a plain checkpoint, which a restore only reads, or nothing is there


@public_evolving
class RunningJob:
    """A job of a test.

    Attributes
    ----------
    job : flinkish.client.job.Job
        The job; another one after :meth:`restart`.
    """

    def __init__(self, jobs: Jobs, job: Job, program: Program) -> None:
        self._jobs = jobs
        self._program = program
        self.job = job

    def process_all(self, timeout: float = PATIENCE) -> None:
        """Wait until each query has committed what its sources had when the wait began.

        A program that ends by itself (``trigger(availableNow=True)``) has usually ended by then,
        but not if it works on for several seconds after its queries have ended.

        Raises
        ------
        FlinkishError
            The job failed, or was canceled.
        WaitTimeout
            The queries have not committed all of it within ``timeout`` seconds.
        """
        try:
            self.job.wait(timeout, until="idle")
        except WrongState:
            if self.job.refresh().state is not JobState.FINISHED:
                raise

    def rows(self, state: str) -> list[dict[str, Any]]:
        """Take a savepoint, and return all rows of a state in it; see :meth:`Jobs.rows`."""
        return self._jobs.rows(self.job.savepoint(), state)

    def stop(self) -> Savepoint:
        """Stop the job after its current batch, unless it has finished; return its savepoint."""
        try:
            return self.job.stop()
        except WrongState:  # it has ended, maybe only just now
            if self.job.refresh().state is not JobState.FINISHED:
                raise
            return self.job.savepoint()

    def restart(
        self,
        program: AnyProgram | None = None,
        *arguments: object,
        restore: RestoreOptions = NO_OPTIONS,
    ) -> Savepoint:
        """Stop the job with a savepoint, and continue from it with the same or another program.

        Parameters
        ----------
        program : path or Program, optional
            The other program. Default: the job's own program.
        *arguments : object
            The program's arguments, after those of ``program`` if it is a Program that has some.
            Without any, the job's arguments stay as they are.
        restore : RestoreOptions
            As for :meth:`Jobs.restores`.

        Returns
        -------
        Savepoint
            The savepoint that the job was stopped with.

        Raises
        ------
        FlinkishError
            The job failed, the savepoint failed (the job then continues), or the start failed.
        """
        savepoint = self.stop()
        kept = self._program
        if program is not None:
            named = self._jobs._program(program, arguments)
            kept = named if named.arguments else replace(named, arguments=kept.arguments)
        elif arguments:
            kept = replace(kept, arguments=tuple(map(str, arguments)))
        self.job = self._jobs.client.run(kept, from_savepoint=savepoint, restore=restore)
        self._program = kept
        return savepoint


class _Captured:
    """Prints what the client says, which pytest shows for a test that fails."""

    def note(self, text: str) -> None:
        print(text, file=sys.stderr)

    def warning(self, text: str) -> None:
        print(f"warning: {text}", file=sys.stderr)

    def progress(self, progress: Progress) -> None:
        return

    def log(self, text: str) -> None:
        print(text, file=sys.stderr)
