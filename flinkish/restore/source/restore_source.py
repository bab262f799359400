"""The restorable contents of a path: the queries of a savepoint, or plain Spark checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.checkpoint.cut import Cut
from flinkish.checkpoint.discovery import find_checkpoints
from flinkish.checkpoint.wholeness import planned_state, read_whole_cut
from flinkish.connectors.sources import QueryKey, SavedSource
from flinkish.errors import SavepointNotFound
from flinkish.messages.requests import LeftOut
from flinkish.operators.identity import OperatorFacts, identity_of
from flinkish.restore.recipe import SourceCheckpoint
from flinkish.restore.source.restore_inputs import SavedOperator, SavedQueryFacts
from flinkish.restore.source.spark_compat import SparkFit
from flinkish.savepoint.format.contents import (
    FORMAT_CANONICAL,
    QueryRecord,
)
from flinkish.savepoint.format.reader import check_files, open_savepoint


@dataclass(frozen=True)
class RestorableQuery:
    """One query that can be restored; ``origin`` has its files."""

    query: SavedQueryFacts
    origin: SourceCheckpoint
    query_id: str
    checkpoint_format: int = 1
    pins: Mapping[str, str] = field(default_factory=dict)
    #: Whether its state is canonical: it must be written for a backend before Spark can load it.
    canonical: bool = False
    #: Whether its job continues with the checkpoint, and would end at a later batch.
    live: bool = False
    #: What is wrong with the batch that its checkpoint has planned, which is therefore left out.
    planned_fault: str = ""
    #: The rewrite for the Spark that will run; the other attributes are those after the rewrite.
    fit: SparkFit = field(default_factory=SparkFit)
    #: The paths that are mapped, as sentences.
    path_notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RestoreSource:
    """All restorable queries of a path.

    Attributes
    ----------
    is_savepoint
        Whether they come from a savepoint.
    spark_version
        The Spark that wrote the savepoint, None if unknown.
    left_out
        The queries of the job that the savepoint does not have.
    complete
        Whether the job had started all its queries when the savepoint was taken.
    """

    by_key: Mapping[QueryKey, RestorableQuery]
    is_savepoint: bool
    spark_version: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    complete: bool = True

    @property
    def queries(self) -> tuple[SavedQueryFacts, ...]:
        """The facts that the planner needs."""
        return tuple(offer.query for offer in self.by_key.values())


def open_restore_source(path: str, *, verify: str | None = None) -> RestoreSource:
    """Open the savepoint, the checkpoint or the directory of checkpoints at ``path``.

    ``verify`` is the level at which the files of a savepoint are checked now, one of
    :data:`~flinkish.messages.restore_options.VERIFY_LEVELS`; None checks them only when they are
    read. Raises SavepointNotFound if the path is none of them, and Corrupt, UnsupportedFormat or
    StorageError if it cannot be read.
    """
    try:
        savepoint = open_savepoint(path)
    except SavepointNotFound as not_one:
        try:
            cuts = adopt_cuts(path)
        except SavepointNotFound:
            raise not_one from None
        return RestoreSource(
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
    return RestoreSource(
        {
            record.name: of_record(
                record,
                SourceCheckpoint(
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


def origin_of(cut: Cut, *, running: bool = False) -> SourceCheckpoint:
    """Return a cut of a checkpoint as the origin of a restore.

    A ``running`` query ends with the batch that it has planned, so that none is replayed.
    """
    state = () if running else planned_state(cut)
    return SourceCheckpoint(cut.root, tuple(cut.files), cut.batch_id, planned_state=state)


def of_record(record: QueryRecord, origin: SourceCheckpoint, *, canonical: bool) -> RestorableQuery:
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
    """Return the sources of a saved query; None if the savepoint does not tell them apart.

    They are the entries of ``record.source`` that the driver writes from the query's plan, one for
    each line of the offset log.
    """
    listed: list[Mapping[str, Any]] = record.source if isinstance(record.source, list) else []
    if len(listed) != len(record.offsets) or not all("signature" in entry for entry in listed):
        return None
    return tuple(
        SavedSource(
            query=record.name,
            entry=number,
            directory=str(entry["directory"]),
            offset=offset,
            identity=identity_of(entry),
            signature=entry["signature"],
            inputs=tuple((int(o), int(i)) for o, i in entry.get("inputs") or ()),
            topics=entry.get("topics") or {},
            options=_texts(entry.get("options")),
        )
        for number, (entry, offset) in enumerate(zip(listed, record.offsets, strict=True))
    )


def _texts(mapping: Any) -> dict[str, str] | None:
    """Return texts by their names; None for what a savepoint does not have."""
    return {str(k): str(v) for k, v in mapping.items()} if isinstance(mapping, Mapping) else None


def adopt_cuts(path: str) -> dict[str | None, Cut]:
    """Return the cuts of the plain Spark checkpoints at ``path``, by query name.

    ``path`` is one checkpoint (the key is None) or a directory of several, one for each query name.

    Raises SavepointNotFound if ``path`` is neither, and the errors of ``read_whole_cut``.
    """
    return {name: read_whole_cut(location) for name, location in find_checkpoints(path).items()}
