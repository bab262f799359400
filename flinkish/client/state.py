"""The state in a savepoint as data: one of its states, rows of it, files made of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkish.client.context import Context
from flinkish.errors import UsageError
from flinkish.launch.spark_submit import Installation
from flinkish.launch.state_exporter import run_state_task
from flinkish.spec.calls import StateAnswer, StateTask
from flinkish.spec.launch import Launch

if TYPE_CHECKING:
    from flinkish.savepoint.format.reader import OpenSavepoint
    from flinkish.savepoint.state.state_rows import SavedState


@dataclass(frozen=True)
class FoundRows:
    """Rows of a state.

    Parameters
    ----------
    rows : sequence of mappings
        ``partition``, ``key`` and ``value`` of each, as plain JSON data.
    more : bool
        Whether there are more than were asked for.
    """

    rows: Sequence[Mapping[str, Any]]
    more: bool


@dataclass(frozen=True)
class Export:
    """A state that is to be written as files.

    Parameters
    ----------
    task : StateTask
        What the driver is told.
    place : str
        The new directory, an absolute path or a URL.
    operator : mapping
        Which state it is.
    """

    task: StateTask
    place: str
    operator: Mapping[str, Any]


def open_state(savepoint: OpenSavepoint, name: str) -> SavedState:
    """Return the state that ``[QUERY/]UID[/STATE]`` means.

    The engine's libraries are imported here only.

    Raises
    ------
    UsageError
        There is no such state, or a library is missing.
    Corrupt, UnsupportedFormat
        The state's metadata cannot be read.
    """
    try:
        from flinkish.savepoint.state import state_rows
    except ImportError as error:
        raise UsageError(
            f"state cannot be read here: {error}",
            hint="install what it needs: pip install 'flinkish[engine]'",
        ) from error
    return state_rows.open_state(savepoint, name)


def check_partition(state: SavedState, partition: int | None) -> None:
    """Raise UsageError where a state has no such partition; None means all of them."""
    from flinkish.savepoint.state import state_rows

    if partition is not None:
        state_rows.check_partition(state, partition)


def first_rows(state: SavedState, limit: int, partition: int | None = None) -> FoundRows:
    """Return the first rows of a state, read in this process.

    Parameters
    ----------
    state : SavedState
        See :func:`open_state`.
    limit : int
        So many at most.
    partition : int, optional
        Only of this one.

    Raises
    ------
    UsageError
        There is no such partition.
    Corrupt, UnsupportedFormat
        A file cannot be read.
    """
    from flinkish.savepoint.state.state_rows import show_rows

    check_partition(state, partition)
    found = show_rows(state, limit, partition)
    return FoundRows(found.rows, found.more)


def find_rows(
    context: Context,
    savepoint: OpenSavepoint,
    name: str,
    where: str,
    launch: Launch,
    installation: Installation,
    *,
    limit: int = 20,
    partition: int | None = None,
) -> FoundRows:
    """Return rows of a state for which a condition holds, found by a Spark application.

    Parameters
    ----------
    context : Context
        Told what happens.
    savepoint : Savepoint
        Opened.
    name : str
        ``[QUERY/]UID[/STATE]``.
    where : str
        A condition in SQL on ``partition``, ``key`` and ``value``.
    launch, installation : Launch, Installation
        The application; see :func:`flinkish.client.program.own_application`.
    limit, partition : int
        As for :func:`first_rows`.

    Raises
    ------
    LaunchFailed
        The application cannot be started.
    FlinkishError
        What it refused.
    """
    context.reporter.note("starting Spark to look for the rows ...")
    task = StateTask(savepoint.path, name, where=where, limit=limit, partition=partition)
    answer = _run(context, task, launch, installation)
    return FoundRows(answer.rows, answer.more)


def plan_export(
    savepoint: OpenSavepoint,
    name: str,
    target: str,
    form: str = "parquet",
    where: str | None = None,
) -> Export:
    """Return the export of a state, checked; nothing is written.

    Parameters
    ----------
    savepoint : Savepoint
        Opened.
    name : str
        ``[QUERY/]UID[/STATE]``.
    target : str
        The directory that is made, a path or a URL.
    form : str
        ``parquet``, ``json`` or ``avro``.
    where : str, optional
        Only rows for which this condition in SQL holds; not with ``avro``.

    Raises
    ------
    UsageError
        There is no such state, the target exists, or a library is missing.
    """
    from flinkish import storage

    state = open_state(savepoint, name)
    place = storage.locate(target)
    if storage.exists(place):
        raise UsageError(f"the target exists: {target}", hint="name a directory that does not")
    task = StateTask(savepoint.path, name, target=place, format=form, where=where)
    return Export(task, place, state.describe())


def check_export_format(form: str, where: str | None) -> None:
    """Raise UsageError for a condition on rows in a format that has whole partitions."""
    if where is not None and form == "avro":
        raise UsageError(
            "--where is not for --format avro, which writes whole partitions",
            hint="use --format parquet or json",
        )


def export(context: Context, planned: Export, launch: Launch, installation: Installation) -> int:
    """Write a state as files, by a Spark application; returns the number of rows.

    Parameters
    ----------
    context : Context
        Told what happens.
    planned : Export
        See :func:`plan_export`.
    launch, installation : Launch, Installation
        The application; see :func:`flinkish.client.program.own_application`.

    Raises
    ------
    LaunchFailed
        The application cannot be started.
    FlinkishError
        What it refused, or failed with.
    """
    task = planned.task
    context.reporter.note(
        f"writing the state {planned.operator['state']} as {task.format} to {planned.place} ..."
    )
    return _run(context, task, launch, installation).exported


def _run(
    context: Context, task: StateTask, launch: Launch, installation: Installation
) -> StateAnswer:
    return run_state_task(
        task, launch, installation, environ=os.environ, show_log=context.reporter.log
    )
