"""The state in a savepoint as data: open a state, read its rows, export it to files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkish.client.context import Context
from flinkish.errors import UsageError
from flinkish.launch.driver_call import ask_driver
from flinkish.launch.spark_submit import Installation
from flinkish.messages.calls import StateAnswer, StateTask
from flinkish.messages.launch import Launch

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
        Whether there are more rows than requested.
    """

    rows: Sequence[Mapping[str, Any]]
    more: bool


@dataclass(frozen=True)
class Export:
    """A planned export of a state to files.

    Parameters
    ----------
    task : StateTask
        The task for the driver.
    place : str
        The new directory, an absolute path or a URL.
    operator : mapping
        The description of the state.
    """

    task: StateTask
    place: str
    operator: Mapping[str, Any]


def open_state(savepoint: OpenSavepoint, name: str, *, raw: bool = False) -> SavedState:
    """Return the state that ``[QUERY/]UID[/STATE]`` refers to.

    Only this function imports the engine's libraries.

    Parameters
    ----------
    savepoint : OpenSavepoint
        The savepoint.
    name : str
        ``[QUERY/]UID[/STATE]``.
    raw : bool
        Whether the values of typed state stay bytes.

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
            f"cannot read state here: {error}",
            hint="install the requirements: pip install 'flinkish[engine]'",
        ) from error
    return state_rows.open_state(savepoint, name, raw=raw)


def check_partition(state: SavedState, partition: int | None) -> None:
    """Raise UsageError when a state has no such partition; None means all of them."""
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
        Largest number of rows.
    partition : int, optional
        Only rows of this partition.

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
    raw: bool = False,
) -> FoundRows:
    """Return the rows of a state for which a condition holds, found by a Spark application.

    Parameters
    ----------
    context : Context
        Its reporter receives notices and the driver's log.
    savepoint : OpenSavepoint
        The savepoint.
    name : str
        ``[QUERY/]UID[/STATE]``.
    where : str
        A condition in SQL on ``partition``, ``key`` and ``value``.
    launch, installation : Launch, Installation
        The application; see :func:`flinkish.client.program.own_application`.
    limit, partition : int
        As for :func:`first_rows`.
    raw : bool
        As for :func:`open_state`.

    Raises
    ------
    LaunchFailed
        The application cannot be started.
    FlinkishError
        The application refused the task.
    """
    context.reporter.note("starting Spark to look for the rows ...")
    task = StateTask(savepoint.path, name, where=where, limit=limit, partition=partition, raw=raw)
    answer = _run(context, task, launch, installation)
    return FoundRows(answer.rows, answer.more)


def plan_export(
    savepoint: OpenSavepoint,
    name: str,
    target: str,
    form: str = "parquet",
    where: str | None = None,
    *,
    raw: bool = False,
) -> Export:
    """Return the export of a state, checked; nothing is written.

    Parameters
    ----------
    savepoint : OpenSavepoint
        The savepoint.
    name : str
        ``[QUERY/]UID[/STATE]``.
    target : str
        The directory to be made, a path or a URL.
    form : str
        ``parquet``, ``json`` or ``avro``.
    where : str, optional
        Export only rows for which this condition in SQL holds; not with ``avro``.
    raw : bool
        As for :func:`open_state`; always so with ``avro``.

    Raises
    ------
    UsageError
        There is no such state, the target exists, or a library is missing.
    """
    from flinkish import storage

    state = open_state(savepoint, name)
    place = storage.locate(target)
    if storage.exists(place):
        raise UsageError(f"the target already exists: {target}", hint="name a new directory")
    task = StateTask(savepoint.path, name, target=place, format=form, where=where, raw=raw)
    return Export(task, place, state.describe())


def check_export_format(form: str, where: str | None) -> None:
    """Raise UsageError for a condition on rows with a format that exports whole partitions."""
    if where is not None and form == "avro":
        raise UsageError(
            "the format avro, which writes whole partitions, takes no condition on rows",
            hint="use --format parquet or json, or omit --where",
        )


def export(context: Context, planned: Export, launch: Launch, installation: Installation) -> int:
    """Write a state to files with a Spark application, and return the number of rows.

    Parameters
    ----------
    context : Context
        Its reporter receives notices and the driver's log.
    planned : Export
        See :func:`plan_export`.
    launch, installation : Launch, Installation
        The application; see :func:`flinkish.client.program.own_application`.

    Raises
    ------
    LaunchFailed
        The application cannot be started.
    FlinkishError
        The application refused the task or failed.
    """
    task = planned.task
    context.reporter.note(
        f"writing the state {planned.operator['state']} as {task.format} to {planned.place} ..."
    )
    return _run(context, task, launch, installation).exported


def _run(
    context: Context, task: StateTask, launch: Launch, installation: Installation
) -> StateAnswer:
    return ask_driver(
        task,
        launch,
        installation,
        answer=StateAnswer,
        name=f"flinkish state {task.name}",
        environ=os.environ,
        show_log=context.reporter.log,
    )
