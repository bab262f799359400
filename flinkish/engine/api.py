"""The engine's public functions. A place is a local path, a URL for fsspec, or a directory object.

Credentials and endpoints of remote storage come from fsspec's own configuration and environment, on
the driver and on the executors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

from flinkish.annotations import public_evolving
from flinkish.engine.migration import checkpoint_migration
from flinkish.engine.migration.checkpoint_migration import Rewritten
from flinkish.engine.migration.migration_planner import TargetState
from flinkish.engine.migration.pipeline import Progress, WrittenOperator
from flinkish.engine.stores.checkpoints import OperatorState, read_checkpoint
from flinkish.engine.stores.files import LocalDirectory, StateSource, StateTarget
from flinkish.engine.tables import bootstrap_state, spark_frames
from flinkish.engine.tables.frames import NoSuchState
from flinkish.storage.directory import StorageDirectory
from flinkish.storage.locations import for_spark, is_local, locate

#: A local path, a URL that fsspec supports, or an object with the methods of a directory.
Place = str | os.PathLike[str] | StateSource


@public_evolving
def directory(place: Place) -> StateTarget:
    """Return the directory at a place.

    Parameters
    ----------
    place : path, URL or directory
        A local path or ``file:`` URL, which the executors reach by the same path; another URL; or
        an object with the methods of :class:`~.files.StateTarget` (for a source, those of
        :class:`~.files.StateSource`), which is returned unchanged.
    """
    if not isinstance(place, str | os.PathLike):
        return cast("StateTarget", place)
    text = os.fspath(place)
    if text.startswith("file:"):
        text = f"/{text.removeprefix('file:').lstrip('/')}"
    if "://" in text:
        return StorageDirectory(locate(text))
    return LocalDirectory(os.path.abspath(text))


@public_evolving
def migrate_checkpoint(
    session: Any,
    source: Place,
    target: Place,
    target_state: TargetState,
    *,
    batch: int | None = None,
    each: Mapping[int, TargetState] | None = None,
    root: str | None = None,
    progress: Progress | None = None,
) -> Rewritten:
    """Rewrite a checkpoint and its state as a new one; the source stays unchanged.

    Parameters
    ----------
    session : SparkSession or SparkContext
        A session of the Spark version that will use the new checkpoint.
    source, target : path, URL or directory
        The checkpoint, and the place of the new one.
    target_state : TargetState
        Target of all operators: state partitions, backend, codec, formats.
    batch : int, optional
        A committed batch. Default: the newest.
    each : mapping, optional
        For some operators, by their old ordinal: a target state with their own ``ordinal``,
        ``changes`` and ``name``, and nothing else.
    root : str, optional
        The new checkpoint's location as Spark will name it. Default: the target's path or URL.
    progress : Progress, optional
        Called with the rows and bytes written so far.

    Returns
    -------
    Rewritten
        What was written.

    Raises
    ------
    CannotMigrate
        The target state is not possible; nothing was written.
    EngineError
        No batch is committed.
    StateFormatError
        The source is damaged, or has no commit of ``batch``.
    LostRows
        The rows written differ from the rows read.
    """
    context = getattr(session, "sparkContext", session)
    new = directory(target)
    return checkpoint_migration.rewrite_checkpoint(
        context,
        directory(source),
        new,
        target_state,
        batch=batch,
        each=each,
        root=root or _for_spark(new),
        progress=progress,
    )


@public_evolving
def read_state(
    session: Any,
    source: Place,
    operator: int | OperatorState,
    store: str | None = None,
    family: str | None = None,
    *,
    batch: int | None = None,
) -> Any:
    """Return a state as a DataFrame with the columns ``partition``, ``key``, ``value``.

    Parameters
    ----------
    session : SparkSession
        Of Spark 3.5 or newer, with pandas and pyarrow; its workers must be able to import the
        engine.
    source : path, URL or directory
        The checkpoint.
    operator : int or OperatorState
        Spark's operator id, or the operator from :func:`~.checkpoints.read_checkpoint`.
    store, family : str, optional
        Names of the state (:func:`~.frames.find_table`).
    batch : int, optional
        A committed batch. Default: the newest.

    Returns
    -------
    DataFrame
        Rows are read when it is computed; :func:`~.spark_frames.computed` unwraps the engine's
        errors from Spark's.

    Raises
    ------
    NoSuchState
        There is no such operator or state, several states match, or the given operator is not of
        ``batch``.
    EngineError, StateFormatError
        No batch is committed, or the checkpoint is damaged or has no commit of ``batch``.
    """
    place = directory(source)
    return spark_frames.read_state(session, place, _operator(place, operator, batch), store, family)


@public_evolving
def write_state(
    frames: Any | Mapping[str, Any],
    source: Place,
    template: int | OperatorState,
    target: Place,
    target_state: TargetState | None = None,
    *,
    version: int | None = None,
    root: str | None = None,
    batch: int | None = None,
) -> WrittenOperator:
    """Write an operator's state from DataFrames; see :func:`~.bootstrap_state.write_state`.

    Parameters
    ----------
    frames : DataFrame or mapping
        A DataFrame with the columns ``key`` and ``value`` of :func:`read_state`, or several by the
        names of their states.
    source : path, URL or directory
        A checkpoint of the same query, for the schemas.
    template : int or OperatorState
        The operator in the source.
    target : path, URL or directory
        Where ``state/`` is created.
    target_state : TargetState, optional
        Another number of partitions, backend, codec, ordinal.
    version : int, optional
        The state version: the number of its batch + 1. Default: the template's.
    root : str, optional
        The new checkpoint's location as Spark will name it. Default: the target's path or URL.
    batch : int, optional
        The batch of the source to read. Default: the newest.

    Raises
    ------
    CannotMigrate, CannotEncode
        The DataFrames do not match the operator's states, or have a null that a state cannot have.
    LostRows
        The rows written differ from the rows given, for example when keys repeat.
    NoSuchState, EngineError, StateFormatError
        There is no such operator or state, or the given operator is not of ``batch``; no batch is
        committed, or the source is damaged or has no commit of ``batch``.
    """
    place, new = directory(source), directory(target)
    return bootstrap_state.write_state(
        frames,
        place,
        _operator(place, template, batch),
        new,
        target_state,
        version=version,
        root=root or _for_spark(new),
    )


def _operator(
    source: StateSource, operator: int | OperatorState, batch: int | None
) -> OperatorState:
    if isinstance(operator, OperatorState):
        if batch is not None and operator.version != batch + 1:
            raise NoSuchState(
                f"the given operator {operator.ordinal} has the state after batch "
                f"{operator.version - 1}, not after {batch}: give its id instead, or no batch",
                (),
            )
        return operator
    operators = {each.ordinal: each for each in read_checkpoint(source, batch).operators}
    if operator not in operators:
        names = tuple(str(ordinal) for ordinal in sorted(operators))
        raise NoSuchState(
            f"there is no operator {operator} (operators: {', '.join(names) or 'none'})", names
        )
    return operators[operator]


def _for_spark(target: StateTarget) -> str | None:
    """Return a target's location as Spark names it (``s3a://`` for ``s3://``); None if unknown."""
    if isinstance(target, StorageDirectory):
        return f"file:{target.root}" if is_local(target.root) else for_spark(target.root)
    return None
