"""Make a new savepoint from an old one; a Spark application rewrites its state."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkish.annotations import public_evolving
from flinkish.checkpoint.format.pins import (
    PIN_AGGREGATION_FORMAT,
    PIN_GROUP_FORMAT,
    PIN_JOIN_FORMAT,
)
from flinkish.client.context import Context, requester
from flinkish.client.program import DEFAULT_SPARK, own_application
from flinkish.client.reporter import REWRITING, Progress
from flinkish.errors import RegistryError, UsageError
from flinkish.launch.driver_call import ask_driver
from flinkish.launch.spark_submit import Installation
from flinkish.messages.launch import Launch, Program
from flinkish.messages.migration import Migration, MigrationResult, NewSchema

if TYPE_CHECKING:
    from flinkish.savepoint.format.reader import OpenSavepoint
    from flinkish.savepoint.state.migration_targets import PlannedRewrite


@public_evolving
@dataclass(frozen=True)
class Changes:
    """The requested changes to a savepoint's state; None leaves a property unchanged.

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


@dataclass(frozen=True)
class MigrationPlan:
    """What a migration would do.

    ``savepoint``: location of the old savepoint. ``migration``: the migration, in the form that the
    driver receives. ``operators``: what would be done with the state of each operator.
    """

    savepoint: str
    migration: Migration
    operators: tuple[PlannedRewrite, ...]


def plan_migration(
    context: Context,
    path: str,
    target: str,
    changes: Changes,
    schemas: Sequence[tuple[str, Any]] = (),
    program: Program = DEFAULT_SPARK,
) -> MigrationPlan:
    """Plan a migration as :func:`migrate` would carry it out; nothing is started.

    Raises Incompatible, Corrupt or UnsupportedFormat if the migration would be refused;
    LaunchFailed if Spark, Java or a Python is missing; SavepointNotFound, StorageError and
    UsageError as :func:`migrate` does, and UsageError if a library that the plan needs is missing.
    """
    savepoint, migration = _requested(path, target, changes, schemas)
    own_application(program, context.config)
    try:
        from flinkish.savepoint.state.migration_targets import plan_rewrite
    except ImportError as error:
        raise UsageError(
            f"cannot plan the rewrite here: {error}",
            hint="install the requirements: pip install 'flinkish[engine]'",
        ) from error
    return MigrationPlan(savepoint.path, migration, tuple(plan_rewrite(savepoint, migration)))


def migrate(
    context: Context,
    path: str,
    target: str,
    changes: Changes,
    schemas: Sequence[tuple[str, Any]] = (),
    program: Program = DEFAULT_SPARK,
) -> MigrationResult:
    """Write a new savepoint with the state of an old one, and add it to the registry.

    ``context``: has the registry; its reporter receives the progress. ``path``: the old savepoint.
    ``target``: the parent of the new savepoint's directory. ``changes``: the requested changes.
    ``schemas``: new Avro schemas of values, each for a state ``[QUERY/]UID[/STATE]``. ``program``:
    the Spark that rewrites the state; see :func:`flinkish.client.program.own_application`.

    Returns the new savepoint, and each operator's counted rows, bytes and digest.

    Raises UsageError if no state or several match a name, or if changes exclude each other;
    SavepointNotFound, Corrupt, UnsupportedFormat or StorageError if the old savepoint cannot be
    read; LaunchFailed if the application cannot start; FlinkishError if it refuses or fails.
    """
    _, migration = _requested(path, target, changes, schemas)
    result = rewrite(context, migration, *own_application(program, context.config))
    try:
        context.writable_registry.add_savepoint(result.savepoint)
    except RegistryError as error:
        context.reporter.warning(
            f"the new savepoint could not be added to the registry: {error.message}"
        )
    return result


def _requested(
    path: str, target: str, changes: Changes, schemas: Sequence[tuple[str, Any]]
) -> tuple[OpenSavepoint, Migration]:
    """Open the old savepoint and return the migration, in the form that the driver receives."""
    from flinkish.savepoint.format.reader import open_savepoint

    changes.check()
    savepoint = open_savepoint(path)
    return savepoint, Migration(
        path=savepoint.path,
        target=target,
        partitions=changes.partitions,
        backend=changes.backend,
        compression=changes.compression,
        checkpoint_format=changes.checkpoint_format,
        formats=changes.formats(),
        schemas=tuple(_new_schema(savepoint, name, schema) for name, schema in schemas),
        owner=requester(),
        type=changes.type,
    )


def _new_schema(savepoint: OpenSavepoint, name: str, schema: Any) -> NewSchema:
    """Return a new schema for the values of the state ``name``; UsageError if none is found."""
    from flinkish.savepoint.format.operator_lookup import find_operator

    query, operator, state = find_operator(savepoint, name)
    return NewSchema(query.name, operator.state.ordinal, state, schema, name)


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
