"""Make plain Spark checkpoints from saved state, so that programs continue without flinkish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from flinkish import storage
from flinkish.annotations import public_evolving
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.file_ends import checksum_file_of
from flinkish.checkpoint.format.pins import SETTING_CHECKPOINT_FORMAT
from flinkish.checkpoint.wholeness import read_whole_cut
from flinkish.client.checking import checkpoints_of, launch_and_restore, no_savepoint
from flinkish.client.context import Context, requester
from flinkish.client.export_checkpoints import (
    BuiltQuery,
    ExportPlace,
    build_planned,
    build_unchanged,
    built,
    in_place_of,
    new_directory,
)
from flinkish.connectors.path_map import PathMap
from flinkish.errors import Corrupt, StorageError, UsageError, WrongState
from flinkish.launch.job_origin import resumed_origin
from flinkish.launch.offline import kept_from_purge
from flinkish.launch.restoring import given, restore_spec
from flinkish.messages.launch import Program
from flinkish.messages.plan import KeptQueryId
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord
from flinkish.restore.check.file_sinks import FILE_LOG, batch_of
from flinkish.restore.materialize.source_logs import with_other_files


@public_evolving
@dataclass(frozen=True)
class ExportedCheckpoint:
    """A plain Spark checkpoint.

    Attributes
    ----------
    query
        The name of the query that continues in it.
    location
        The ``checkpointLocation`` for the program, in the form that Spark accepts.
    batch_id
        The committed batch that the query continues after.
    query_id
        Spark's id of the query.
    kept_query_id
        Whether that id is the saved one, and why.
    partitions
        The number of state partitions; None without state.
    settings
        Spark settings that the program must set, because the checkpoint does not pin them.
    pins
        Spark settings that the checkpoint pins, regardless of what the program sets.
    notes
        Sentences about what happens to the query's state and sink.
    """

    query: str
    location: str
    batch_id: int
    query_id: str
    kept_query_id: KeptQueryId
    partitions: int | None
    settings: Mapping[str, str]
    pins: Mapping[str, str]
    notes: tuple[str, ...] = ()


@public_evolving
@dataclass(frozen=True)
class ExportResult:
    """The checkpoints of an export.

    Attributes
    ----------
    checkpoints
        One for each query, in the order in which the program starts them; without a program, in
        the savepoint's order.
    spark_version
        The version of the Spark for which the checkpoints were made. Without a program, that is the
        Spark that wrote the state; None if its version is not recorded.
    new_queries
        Queries of the program without saved state: they start in a new checkpoint.
    warnings
        What needs attention before the program starts.
    replaced
        Where the replaced checkpoint is kept; None if none was replaced.
    """

    checkpoints: tuple[ExportedCheckpoint, ...]
    spark_version: str | None
    new_queries: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    replaced: str | None = None


def export(
    context: Context,
    program: Program | None,
    savepoint: str | None,
    directory: str | None,
    options: RestoreOptions,
    *,
    job: JobRecord | None = None,
    parallelism: int | None = None,
    query: str | None = None,
    replaces: str | None = None,
) -> ExportResult:
    """Make plain Spark checkpoints from a savepoint or an ended job.

    Without a program the state stays as it is. With one, the plan of ``check`` is carried out; the
    program runs to its end, and none of its queries is started. On local storage nothing is put in
    place until all checkpoints are made; on remote storage they are made in place.

    Parameters and errors are those of :meth:`.runner.ProgramRunner.export`. The configuration was
    loaded with :func:`.restoring.settings`, including ``parallelism``. ``job`` takes the place of a
    savepoint.
    """
    _check(options, job)
    if (directory is None) is (replaces is None):
        raise UsageError(
            "name either a new directory or the checkpoint to be replaced",
            hint="flinkish export SAVEPOINT DIR, or flinkish export SAVEPOINT --in-place-of PATH",
        )
    if program is None:
        _check_unchanged(options, parallelism)
    launch, spec = None, None
    if program is not None:
        launch, spec = launch_and_restore(context, program, savepoint, options, job)
    else:
        spec = restore_spec(savepoint, options, context.config, checkpoints=checkpoints_of(job))
    if spec is None:
        raise no_savepoint()
    origin = None if job is None else resumed_origin(context.registry, job)
    place = (
        new_directory(directory)
        if directory is not None
        else in_place_of(str(replaces), context.registry)
    )
    with kept_from_purge(job, requester()), built(place):
        checkpoints = (
            build_unchanged(context, spec, origin, place, query)
            if launch is None
            else build_planned(context, launch, spec, origin, place, query)
        )
        exported = tuple(_checkpoint(place, each) for each in checkpoints.queries)
        paths = PathMap(options.path_map)
        if paths:
            exported = tuple(
                replace(each, notes=(*each.notes, *_map_sink_log(query, paths)))
                for each, query in zip(exported, checkpoints.queries, strict=True)
            )
        replaced = place.publish([each.directory for each in checkpoints.queries])
    return ExportResult(
        exported,
        checkpoints.spark_version,
        checkpoints.new_queries,
        checkpoints.warnings,
        replaced,
    )


def _checkpoint(place: ExportPlace, query: BuiltQuery) -> ExportedCheckpoint:
    """Read a checkpoint that was built: the result says what it has, not what was planned."""
    cut = read_whole_cut(storage.join(place.building, query.directory))
    has_ids = cut.checkpoint_format > 1
    return ExportedCheckpoint(
        query=query.query,
        location=storage.for_spark(place.location_of(query.directory)),
        batch_id=cut.batch_id,
        query_id=cut.query_id,
        kept_query_id=query.kept_query_id,
        partitions=max((each.partitions for each in cut.operators), default=None),
        settings={SETTING_CHECKPOINT_FORMAT: str(cut.checkpoint_format)} if has_ids else {},
        pins=cut.pins,
        notes=query.notes,
    )


def _map_sink_log(query: BuiltQuery, paths: PathMap) -> tuple[str, ...]:
    """Map the paths in the log of a query's file sink; return a sentence if any has changed.

    Files below the sink's own path are not mapped again, so a failed export can be repeated.
    """
    if query.file_sink is None:
        return ()
    where = storage.locate(query.file_sink)
    log = storage.join(where, FILE_LOG)
    changed: dict[str, bytes] = {}
    for name in storage.list_names(log):
        if batch_of(name) is None:
            continue
        entry = storage.join(log, name)
        try:
            data = storage.read_bytes(entry)
        except FileNotFoundError as error:
            raise StorageError(
                f"{entry} was removed during the export: another program writes to that sink",
                hint="stop that program, and export again",
                path=entry,
            ) from error
        try:
            mapped = with_other_files(data, name, partial(paths.url_from_outside, place=where))
        except CheckpointFormatError as error:
            raise Corrupt(f"{entry} is damaged: {error.detail}", path=entry) from error
        if mapped != data:
            changed[entry] = mapped
    for entry, mapped in changed.items():
        # Hadoop reads a file that has no checksum file, but not one whose checksum file is wrong.
        storage.remove_file(*storage.split(checksum_file_of(entry)))
        storage.write_atomically(entry, mapped)
    if not changed:
        return ()
    entries = "1 entry" if len(changed) == 1 else f"{len(changed)} entries"
    name = "names" if len(changed) == 1 else "name"
    return (f"{entries} of the log of the file sink {query.file_sink} now {name} the new paths",)


def _check(options: RestoreOptions, job: JobRecord | None) -> None:
    """Refuse the rollback of a table, and a job that has not ended."""
    if options.sink_ahead == "rollback":
        raise UsageError(
            "an export changes no table, so it cannot roll one back",
            hint="use --sink-ahead rebase or accept; or roll the table back yourself first",
        )
    if job is not None and not job.state.is_final:
        raise WrongState(
            f"job {job.name} ({job.job_id}) is {job.state.value}, and would go on beside the "
            "exported checkpoints",
            hint=f"stop it with a savepoint first: flinkish stop {job.job_id}; or take a savepoint "
            "and export that",
            job_id=job.job_id,
            state=job.state.value,
        )


def _check_unchanged(options: RestoreOptions, parallelism: int | None) -> None:
    """Raise UsageError for an option that has no meaning if the state stays as it is."""
    if parallelism is not None:
        raise UsageError(
            "another number of state partitions needs the program",
            hint="name it too; or rescale the savepoint: flinkish migrate -p N PATH TARGET",
        )
    kept = replace(options, fork=False, path_map=(), sink_ahead=None, verify=None)
    for name, flag in given(kept):
        raise UsageError(f"{name} needs the program", hint=f"name it too, or omit {flag}")
