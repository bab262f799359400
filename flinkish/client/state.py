"""The state in a savepoint as data: open a state, read its rows, export it to files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkish.client.context import Context
from flinkish.client.program import DEFAULT_SPARK, own_application
from flinkish.errors import UsageError
from flinkish.launch.driver_call import ask_driver
from flinkish.launch.spark_submit import Installation
from flinkish.messages.calls import StateAnswer, StateTask
from flinkish.messages.launch import Launch, Program

if TYPE_CHECKING:
    from flinkish.savepoint.format.reader import OpenSavepoint
    from flinkish.savepoint.state.state_rows import SavedState


@dataclass(frozen=True)
class StateRows:
    """Rows of a state.

    ``state``: the description of the state. ``rows``: ``partition``, ``key`` and ``value`` of each,
    as plain JSON data. ``more``: whether there are more rows than requested.
    """

    state: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    more: bool


@dataclass(frozen=True)
class Export:
    """The export of a state to files.

    ``state``: the description of the state. ``path``: the new directory, an absolute path or a URL.
    ``format``: the format of its files. ``rows``: the number of rows; None if nothing was written.
    """

    state: Mapping[str, Any]
    path: str
    format: str
    rows: int | None = None


def open_state(savepoint: OpenSavepoint, name: str, *, raw: bool = False) -> SavedState:
    """Return the state that ``[QUERY/]UID[/STATE]`` refers to.

    Call this function before others that import the engine's libraries: it reports missing ones.

    ``name``: ``[QUERY/]UID[/STATE]``. ``raw``: whether the values of typed state stay bytes.

    Raises UsageError if no state or several states match, or a library is missing; Corrupt or
    UnsupportedFormat if the state's metadata cannot be read.
    """
    try:
        from flinkish.savepoint.state import state_rows
    except ImportError as error:
        raise UsageError(
            f"cannot read state here: {error}",
            hint="install the requirements: pip install 'flinkish[engine]'",
        ) from error
    return state_rows.open_state(savepoint, name, raw=raw)


def first_rows(state: SavedState, limit: int, partition: int | None = None) -> StateRows:
    """Return the first rows of a state, read in this process.

    ``state``: see :func:`open_state`. ``limit``: largest number of rows. ``partition``: only rows
    of this partition.

    Raises Corrupt or UnsupportedFormat if a file cannot be read.
    """
    from flinkish.savepoint.state.state_rows import show_rows

    first = show_rows(state, limit, partition)
    return StateRows(state.describe(), first.rows, first.more)


def show_state(
    context: Context,
    path: str,
    name: str,
    *,
    where: str | None = None,
    limit: int = 20,
    partition: int | None = None,
    raw: bool = False,
    program: Program = DEFAULT_SPARK,
) -> StateRows:
    """Return rows of a state; with ``where``, the rows that a Spark application finds.

    ``context``: its reporter receives notices and the driver's log. ``name``:
    ``[QUERY/]UID[/STATE]``. ``where``: a condition in SQL on ``partition``, ``key`` and ``value``.
    ``limit``: largest number of rows. ``partition``: only rows of this partition. ``raw``: as for
    :func:`open_state`. ``program``: the Spark of the application; see
    :func:`flinkish.client.program.own_application`.

    Raises UsageError if there is no such state or partition, or a library is missing;
    SavepointNotFound, StorageError, Corrupt or UnsupportedFormat if the state cannot be read;
    LaunchFailed if the application cannot start; FlinkishError if it refuses or fails.
    """
    from flinkish.savepoint.format.reader import open_savepoint

    savepoint = open_savepoint(path)
    state = open_state(savepoint, name, raw=raw)
    if partition is not None:
        from flinkish.savepoint.state.state_rows import check_partition

        check_partition(state, partition)
    if where is None:
        return first_rows(state, limit, partition)
    launch, installation = own_application(program, context.config)
    context.reporter.note("starting Spark to look for the rows ...")
    task = StateTask(savepoint.path, name, where=where, limit=limit, partition=partition, raw=raw)
    answer = _run(context, task, launch, installation)
    return StateRows(state.describe(), answer.rows, answer.more)


def export_state(
    context: Context,
    path: str,
    name: str,
    target: str,
    *,
    form: str = "parquet",
    where: str | None = None,
    raw: bool = False,
    program: Program = DEFAULT_SPARK,
    dry_run: bool = False,
) -> Export:
    """Write a state to files with a Spark application.

    ``context``: its reporter receives notices and the driver's log. ``name``:
    ``[QUERY/]UID[/STATE]``. ``target``: the directory to be made, a path or a URL. ``form``:
    ``parquet``, ``json`` or ``avro``. ``where``: export only rows for which this condition in SQL
    holds; not with ``avro``, which has whole partitions. ``raw``: as for :func:`open_state`; always
    true with ``avro``. ``program``: the Spark of the application; see
    :func:`flinkish.client.program.own_application`. ``dry_run``: only check the export.

    Raises UsageError if there is no such state, the target exists, the format takes no condition,
    or a library is missing; SavepointNotFound, StorageError, Corrupt or UnsupportedFormat if the
    state cannot be read; LaunchFailed if the application cannot be started; FlinkishError if it
    refused the task or failed.
    """
    from flinkish import storage
    from flinkish.savepoint.format.reader import open_savepoint

    if where is not None and form == "avro":
        raise UsageError(
            "the format avro, which writes whole partitions, takes no condition on rows",
            hint="use --format parquet or json, or omit --where",
        )
    savepoint = open_savepoint(path)
    raw = raw or form == "avro"
    state = open_state(savepoint, name, raw=raw).describe()
    place = storage.locate(target)
    if storage.exists(place):
        raise UsageError(f"the target already exists: {target}", hint="name a new directory")
    if dry_run:
        return Export(state, place, form)
    launch, installation = own_application(program, context.config)
    context.reporter.note(f"writing the state {state['state']} as {form} to {place} ...")
    task = StateTask(savepoint.path, name, target=place, format=form, where=where, raw=raw)
    return Export(state, place, form, _run(context, task, launch, installation).exported)


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
