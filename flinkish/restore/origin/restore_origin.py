"""What a restore continues from: a savepoint, plain Spark checkpoints, or a job's checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field, replace
from os.path import join, realpath
from typing import Any

from flinkish.checkpoint.cut import Cut, FilesVanished
from flinkish.checkpoint.discovery import find_checkpoints
from flinkish.checkpoint.wholeness import planned_state, read_whole_cut
from flinkish.connectors.sources import QueryKey, SavedSource
from flinkish.errors import Corrupt, FlinkishError, SavepointNotFound
from flinkish.messages.calls import JobOrigin
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.messages.requests import LeftOut
from flinkish.operators.identity import OperatorFacts, identity_of
from flinkish.restore.origin.mapped_paths import with_mapped_paths
from flinkish.restore.origin.restore_inputs import SavedOperator, SavedQueryFacts
from flinkish.restore.origin.spark_compat import SparkFit
from flinkish.restore.recipe import OriginCheckpoint
from flinkish.savepoint.format.contents import FORMAT_CANONICAL, QueryRecord
from flinkish.savepoint.format.reader import check_files, open_savepoint
from flinkish.savepoint.write.query_records import check_operators, query_record, query_source
from flinkish.storage import is_local


@dataclass(frozen=True)
class RestorableQuery:
    """One query that can be restored; ``origin`` has its files."""

    query: SavedQueryFacts
    origin: OriginCheckpoint
    query_id: str
    checkpoint_format: int = 1
    pins: Mapping[str, str] = field(default_factory=dict)
    #: Whether its state is canonical, which Spark can load only after it is written for a backend.
    canonical: bool = False
    #: Whether its job continues with the checkpoint, and would end at a later batch.
    live: bool = False
    #: What is wrong with the batch that its checkpoint has planned, which is therefore left out.
    planned_fault: str = ""
    #: The rewrite for the Spark that will run; the query, format and pins are those after it.
    fit: SparkFit = field(default_factory=SparkFit)
    #: The paths that are mapped, as sentences.
    path_notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RestoreOrigin:
    """All queries that can be restored from a path, or from the checkpoints of a job.

    Attributes
    ----------
    is_savepoint
        Whether the path is that of a savepoint.
    spark_version
        The Spark that wrote the savepoint or the job's checkpoints, None if unknown.
    left_out
        The queries of the job that are known not to be in ``by_key``.
    complete
        Whether ``by_key`` and ``left_out`` have all queries of the job.
    path
        The directory of the savepoint when it was opened, links resolved; empty for checkpoints.
    """

    by_key: Mapping[QueryKey, RestorableQuery]
    is_savepoint: bool
    spark_version: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    complete: bool = True
    path: str = ""

    @property
    def queries(self) -> tuple[SavedQueryFacts, ...]:
        """The facts that the planner needs."""
        return tuple(offer.query for offer in self.by_key.values())


def open_path(path: str, *, verify: str | None = None) -> RestoreOrigin:
    """Open the savepoint, the checkpoint or the directory of checkpoints at ``path``.

    ``verify`` is the level at which the files of a savepoint are checked now, one of
    :data:`~flinkish.messages.restore_options.VERIFY_LEVELS`; None checks them only when they are
    read. Raises SavepointNotFound if the path has neither a savepoint nor a checkpoint, Corrupt,
    UnsupportedFormat or StorageError if it cannot be read, and the errors of ``read_whole_cut``.
    """
    try:
        savepoint = open_savepoint(path)
    except SavepointNotFound as not_one:
        try:
            cuts = adopt_cuts(path)
        except SavepointNotFound:
            raise not_one from None
        return RestoreOrigin(
            {key: _of_cut(key, cut) for key, cut in cuts.items()}, is_savepoint=False
        )
    if verify is not None:
        check_files(savepoint, verify)
    files: dict[int, list[str]] = {}
    held: dict[int, dict[str, str]] = {}
    for entry in savepoint.iter_files():
        files.setdefault(entry.query, []).append(entry.path)
        if entry.held is not None:
            held.setdefault(entry.query, {})[entry.path] = savepoint.locate_file(entry)
    return RestoreOrigin(
        {
            record.name: of_record(
                record,
                OriginCheckpoint(
                    savepoint.query_root(record),
                    tuple(files.get(index, [])),
                    record.batch_id,
                    held.get(index, {}),
                    savepoint.recorded_files(index),
                ),
                canonical=savepoint.header.format == FORMAT_CANONICAL,
            )
            for index, record in enumerate(savepoint.queries)
        },
        is_savepoint=True,
        spark_version=savepoint.header.job.spark_version,
        left_out=savepoint.header.job.left_out,
        complete=savepoint.header.job.complete,
        path=realpath(savepoint.path) if is_local(savepoint.path) else savepoint.path,
    )


def _of_cut(key: QueryKey, cut: Cut) -> RestorableQuery:
    operators = tuple(
        SavedOperator(state, OperatorFacts(state.ordinal), key) for state in cut.operators
    )
    return RestorableQuery(
        SavedQueryFacts(key, cut.batch_id, operators, pins=cut.pins, watermark_ms=cut.watermark_ms),
        origin_of(cut),
        cut.query_id,
        cut.checkpoint_format,
        cut.pins,
        planned_fault=cut.planned_fault,
    )


def origin_of(cut: Cut, *, running: bool = False) -> OriginCheckpoint:
    """Return a cut of a checkpoint as the origin of a restore.

    A ``running`` query will commit its planned batch before the query ends, so the state of that
    batch is not taken.
    """
    state = () if running else planned_state(cut)
    return OriginCheckpoint(cut.root, tuple(cut.files), cut.batch_id, planned_state=state)


def of_record(record: QueryRecord, origin: OriginCheckpoint, *, canonical: bool) -> RestorableQuery:
    """Return the query of a record; ``origin`` has its files."""
    operators = tuple(SavedOperator(op.state, op.facts, record.name) for op in record.operators)
    return RestorableQuery(
        SavedQueryFacts(
            record.name,
            record.batch_id,
            operators,
            saved_sources(record),
            sink=record.sink if isinstance(record.sink, Mapping) else {},
            pins=record.pins,
            watermark_ms=record.watermark_ms,
        ),
        origin,
        record.query_id,
        record.checkpoint_format,
        record.pins,
        canonical,
    )


def saved_sources(record: QueryRecord) -> tuple[SavedSource, ...] | None:
    """Return the sources of a saved query; None if the savepoint does not describe each of them.

    The driver writes them into ``record.source`` from the query's plan, one for each line of the
    offset log. Anything else in a savepoint counts as no description.
    """
    listed = record.source if isinstance(record.source, list) else []
    if len(listed) != len(record.offsets):
        return None
    lines = enumerate(zip(listed, record.offsets, strict=True))
    try:
        return tuple(_saved_source(record.name, line, *described) for line, described in lines)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return None


def _saved_source(query: str, line: int, entry: Mapping[str, Any], offset: str) -> SavedSource:
    """Return one source from its description; a wrong one raises what the caller catches."""
    identity, signature = identity_of(entry), entry["signature"]
    if not all(isinstance(text, str | None) for text in (signature, *astuple(identity))):
        raise TypeError
    return SavedSource(
        query=query,
        entry=line,
        directory=str(entry["directory"]),
        offset=offset,
        identity=identity,
        signature=signature,
        inputs=tuple((int(o), int(i)) for o, i in entry.get("inputs") or ()),
        topics=entry.get("topics") or {},
        options=_texts(entry.get("options")),
    )


def _texts(mapping: Any) -> dict[str, str] | None:
    """Return a mapping with its names and values as texts; None if it is not a mapping."""
    return {str(k): str(v) for k, v in mapping.items()} if isinstance(mapping, Mapping) else None


def adopt_cuts(path: str) -> dict[str | None, Cut]:
    """Return the cuts of the plain Spark checkpoints at ``path``, by query name.

    ``path`` is one checkpoint (the key is None) or a directory of several, one for each query name.
    Raises SavepointNotFound if ``path`` is neither, and the errors of ``read_whole_cut``.
    """
    return {name: read_whole_cut(location) for name, location in find_checkpoints(path).items()}


#: Number of attempts to read a checkpoint that Spark trims, and the seconds to wait after damage.
_ATTEMPTS = 20
_PAUSE = 0.1


def open_origin(
    spec: RestoreSpec, job: JobOrigin | None = None, *, verify: str | None = None
) -> RestoreOrigin:
    """Open what a restore continues from: the checkpoints of ``job``, or else the path of ``spec``.

    The paths in the origin are mapped (``--map-path``). ``verify`` and the errors are those of
    :func:`.open_path`, :func:`open_job` and :func:`.with_mapped_paths`.
    """
    if job is None:
        origin = open_path(spec.path, verify=verify)
    else:
        origin = open_job(job, drops=spec.options.allow_non_restored)
    return with_mapped_paths(origin, spec.options.path_map)


def open_job(job: JobOrigin, *, drops: bool = False) -> RestoreOrigin:
    """Open the newest committed batch of each query of a job. Nothing is copied or locked.

    Queries that the job had not started yet come from the savepoint with which it was restored.

    ``drops`` says whether these queries are dropped if that savepoint is gone (``-n``); otherwise
    SavepointNotFound is raised, unless the job's claim may have deleted it. Raises NoCommittedBatch
    if a query has no committed batch, FilesVanished if Spark trims a checkpoint faster than it can
    be read, and Corrupt, UnsupportedFormat, NotSavepointable or StorageError if a checkpoint or the
    savepoint cannot be read.
    """
    origin = RestoreOrigin(
        {
            query.name: open_query(
                query,
                job.facts.get(query.name),
                running=job.running,
                directory=job.working_directory,
            )
            for query in job.queries
        },
        is_savepoint=False,
        spark_version=job.spark_version,
        left_out=job.left_out,
        complete=job.complete,
    )
    if not job.began_with:
        return origin
    saved = _began_with(job, drops=drops)
    if saved is None:
        return replace(origin, complete=False)
    taken = {*job.taken, *origin.by_key}
    rest = {key: offer for key, offer in saved.by_key.items() if key not in taken}
    left_out = tuple(each for each in saved.left_out if each.query not in job.taken)
    return replace(
        origin,
        by_key={**origin.by_key, **rest},
        left_out=(*origin.left_out, *left_out),
        complete=origin.complete and saved.complete,
    )


def _began_with(job: JobOrigin, *, drops: bool) -> RestoreOrigin | None:
    """Open the savepoint that a job began with; None if it is gone, and need not exist."""
    try:
        return open_path(job.began_with)
    except SavepointNotFound as gone:
        if drops or job.claimed:
            return None
        raise SavepointNotFound(
            f"as far as is known, job {job.job_id} ended before it had started all "
            f"queries of {job.began_with}, and that savepoint no longer exists: "
            f"{gone.message}",
            hint="use -n to continue without it: queries not yet started start from the beginning",
            path=job.began_with,
        ) from gone


def open_query(
    query: QueryStatus,
    facts: QueryFacts | None,
    *,
    running: bool = False,
    directory: str | None = None,
) -> RestorableQuery:
    """Open the newest committed batch of a query.

    ``facts`` are those that the query's driver has reported, ``running`` says whether the query
    continues in its checkpoint, ``directory`` is the working directory of its job. Raises the
    errors of :func:`open_job`.
    """
    source = query_source(query, facts)
    cut = newest_cut(query.checkpoint_dir)
    check_operators(source, cut)
    record = query_record(source, query.name, cut, len(cut.files), cut.files.bytes)
    record = replace(record, sink=_absolute(record.sink, directory))
    offer = of_record(record, origin_of(cut, running=running), canonical=False)
    return replace(offer, live=running, planned_fault=cut.planned_fault)


def newest_cut(root: str, read: Callable[[str], Cut] = read_whole_cut) -> Cut:
    """Read the newest committed batch of a checkpoint, again if Spark has trimmed files meanwhile.

    As when a savepoint is taken, what looks like damage may be a compaction under way; real damage
    gives the same error twice. Raises what ``read`` raises.
    """
    trouble: FlinkishError | None = None
    for _ in range(_ATTEMPTS - 1):
        try:
            return read(root)
        except FilesVanished as error:
            trouble = error
        except Corrupt as error:
            if trouble is not None and trouble.message == error.message:
                raise
            trouble = error
            time.sleep(_PAUSE)
    return read(root)


def _absolute(sink: Any, directory: str | None) -> Any:
    """Return the description of a sink; a relative path in it becomes absolute."""
    path = sink.get("path") if isinstance(sink, Mapping) else None
    if path is None or directory is None or ":" in path.partition("/")[0]:
        return sink
    return {**sink, "path": join(directory, path)}
