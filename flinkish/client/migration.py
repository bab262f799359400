"""Make a new savepoint from an old one; a Spark application rewrites its state."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkish.checkpoint.format.pins import (
    PIN_AGGREGATION_FORMAT,
    PIN_GROUP_FORMAT,
    PIN_JOIN_FORMAT,
)
from flinkish.client.context import Context, requester
from flinkish.client.reporter import REWRITING, Progress
from flinkish.errors import RegistryError, UsageError
from flinkish.launch.driver_call import ask_driver
from flinkish.launch.spark_submit import Installation
from flinkish.messages.launch import Launch
from flinkish.messages.migration import Migration, MigrationResult, NewSchema

if TYPE_CHECKING:
    from flinkish.savepoint.format.reader import OpenSavepoint
    from flinkish.savepoint.state.migration_targets import PlannedRewrite


@dataclass(frozen=True)
class Changes:
    """The requested changes of a savepoint's state; None leaves a property unchanged.

    Parameters
    ----------
    partitions : int or None
        Number of state partitions.
    backend : str or None
        ``hdfs`` or ``rocksdb``.
    type : str or None
        ``native`` (files of Spark's backend) or ``canonical`` (Avro files).
    compression : str or None
        Codec of the state's files: ``lz4``, ``zstd``, ``snappy`` or ``lzf``.
    checkpoint_format : int or None
        Spark's checkpoint format, 1 or 2.
    join_format, aggregation_format, group_format : int or None
        State format versions of joins, aggregations and ``applyInPandasWithState``.
    """

    partitions: int | None = None
    backend: str | None = None
    type: str | None = None
    compression: str | None = None
    checkpoint_format: int | None = None
    join_format: int | None = None
    aggregation_format: int | None = None
    group_format: int | None = None

    def check(self) -> None:
        """Raise UsageError for changes that exclude each other."""
        if self.type == "canonical" and (self.backend or self.checkpoint_format):
            raise UsageError(
                "a canonical savepoint has no backend and no checkpoint format",
                hint="they are chosen when it is restored or converted to native",
            )

    def formats(self) -> dict[str, str]:
        """Return the requested state formats, by the settings that pin them."""
        asked = (
            (PIN_JOIN_FORMAT, self.join_format),
            (PIN_AGGREGATION_FORMAT, self.aggregation_format),
            (PIN_GROUP_FORMAT, self.group_format),
        )
        return {pin: str(version) for pin, version in asked if version is not None}


def migration_for(
    savepoint: OpenSavepoint,
    target: str,
    changes: Changes,
    schemas: Sequence[NewSchema] = (),
) -> Migration:
    """Return the migration of a savepoint, in the form that the driver receives.

    Parameters
    ----------
    savepoint : OpenSavepoint
        The old savepoint.
    target : str
        The parent of the new savepoint's directory.
    changes : Changes
        The requested changes.
    schemas : sequence of NewSchema
        New schemas of values; see :func:`new_schema`.
    """
    return Migration(
        path=savepoint.path,
        target=target,
        partitions=changes.partitions,
        backend=changes.backend,
        compression=changes.compression,
        checkpoint_format=changes.checkpoint_format,
        formats=changes.formats(),
        schemas=tuple(schemas),
        owner=requester(),
        type=changes.type,
    )


def new_schema(savepoint: OpenSavepoint, name: str, read: Callable[[], Any]) -> NewSchema:
    """Return a new schema for the values of one state.

    Parameters
    ----------
    savepoint : OpenSavepoint
        The old savepoint.
    name : str
        ``[QUERY/]UID[/STATE]``.
    read : callable
        Returns the Avro schema as JSON data; called when the state has been found.

    Raises
    ------
    UsageError
        There is no such state.
    """
    from flinkish.savepoint.format.operator_lookup import find_operator

    query, operator, state = find_operator(savepoint, name)
    return NewSchema(query.name, operator.state.ordinal, state, read(), name)


def plan_migration(savepoint: OpenSavepoint, migration: Migration) -> list[PlannedRewrite]:
    """Return what would be done with each operator; nothing is started.

    Raises
    ------
    UsageError
        A library that the plan needs is missing.
    Incompatible, Corrupt, UnsupportedFormat
        The migration is refused.
    """
    try:
        from flinkish.savepoint.state.migration_targets import plan_rewrite
    except ImportError as error:
        raise UsageError(
            f"cannot plan the rewrite here: {error}",
            hint="install the requirements: pip install 'flinkish[engine]'",
        ) from error
    return plan_rewrite(savepoint, migration)


def migrate(
    context: Context, migration: Migration, launch: Launch, installation: Installation
) -> MigrationResult:
    """Write the new savepoint and add it to the registry.

    Parameters
    ----------
    context : Context
        Has the registry; its reporter receives the progress.
    migration : Migration
        See :func:`wanted`.
    launch, installation : Launch, Installation
        The Spark application that rewrites the state; see
        :func:`flinkish.client.program.own_application`.

    Returns
    -------
    MigrationResult
        The new savepoint, and each operator's counted rows, bytes and digest.

    Raises
    ------
    LaunchFailed
        The application cannot be started.
    FlinkishError
        The application refused the migration or failed.
    """
    done = rewrite(context, migration, launch, installation)
    try:
        context.writable_registry.add_savepoint(done.savepoint)
    except RegistryError as error:
        context.reporter.warning(
            f"the new savepoint could not be added to the registry: {error.message}"
        )
    return done


def rewrite(
    context: Context, migration: Migration, launch: Launch, installation: Installation
) -> MigrationResult:
    """Let a driver write a new savepoint, and return its result.

    Errors are those of :func:`~flinkish.launch.driver_call.ask_driver`.
    """
    reporter = context.reporter
    reporter.note(f"rewriting the state of {migration.path} ...")
    reporter.progress(Progress("starting Spark ..."))
    return ask_driver(
        migration,
        launch,
        installation,
        answer=MigrationResult,
        name=f"flinkish migrate {os.path.basename(migration.path.rstrip('/'))}",
        environ=os.environ,
        show_log=reporter.log,
        on_progress=lambda rows, size: reporter.progress(
            Progress(REWRITING, rows=rows, bytes=size)
        ),
    )
