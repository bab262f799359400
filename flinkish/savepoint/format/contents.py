"""The content of a savepoint as plain data; times in seconds since the epoch, sizes in bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flinkish.checkpoint.cut import CommittedBatch
from flinkish.checkpoint.format.names import DEFAULT_STORE
from flinkish.checkpoint.operators import StateOnDisk
from flinkish.messages.requests import LeftOut
from flinkish.operators.identity import Identified, OperatorFacts, OperatorIdentity

FORMAT_NATIVE = "native"
#: State as Avro files (:mod:`flinkish.engine.stores.canonical`).
FORMAT_CANONICAL = "canonical"
#: How the names of a join's stores with the buffered rows end.
_JOIN_ROWS = "keyWithIndexToValue"


@dataclass(frozen=True)
class SavepointJob:
    """The job of which a savepoint is taken, and the versions of the software that it runs on."""

    job_id: str
    name: str
    spark_version: str | None = None
    python_version: str | None = None
    flinkish_version: str | None = None
    host: str | None = None
    #: Digest of the program's file, ``sha256:<hex>``.
    program: str | None = None
    #: Location of the savepoint or checkpoint that the job was started from.
    restored_from: str | None = None
    #: The user who takes the savepoint, ``user@host``; a savepoint does not record it.
    owner: str | None = None
    #: Queries of the job that the savepoint lacks.
    left_out: tuple[LeftOut, ...] = ()
    #: Whether the program had started all its queries, as far as could be known.
    complete: bool = True


@dataclass(frozen=True)
class Header:
    """The savepoint as a whole."""

    job: SavepointJob
    created: float
    trigger: str  # savepoint | stop | cancel | offline | migrate
    format: str = FORMAT_NATIVE


@dataclass(frozen=True)
class OperatorRecord(Identified):
    """One stateful operator: its state, and what the driver knew about it."""

    state: StateOnDisk
    facts: OperatorFacts

    @property
    def identity(self) -> OperatorIdentity:  # type: ignore[override]  # read-only, as if frozen
        """Its identity, as far as it is known."""
        return self.facts.identity

    def rows_of_spark(self, counts: Mapping[str, int]) -> int | None:
        """Return the number of rows as Spark reports it; None if that is not known.

        ``counts`` has the rows of each store, or of each column family of a store that has several,
        by name. Of a join, Spark counts only the buffered rows; what it counts of other operators
        with several stores depends on their kind.
        """
        stores = {store.name for store in self.state.stores}
        if stores <= {DEFAULT_STORE}:
            return sum(counts.values())
        joined = [name for name in stores if name.endswith(_JOIN_ROWS)]
        return sum(counts.get(name, 0) for name in joined) if joined else None


@dataclass(frozen=True, kw_only=True)
class QueryRecord(CommittedBatch):
    """One query at one committed batch; ``directory`` is relative to the savepoint."""

    name: str
    directory: str
    run_id: str | None = None
    source: Any = None
    sink: Any = None
    #: The checkpoint that the query was saved from, for information only.
    checkpoint: str | None = None
    operators: tuple[OperatorRecord, ...] = ()
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of a savepoint.

    ``query`` is the index of its query in the savepoint, and ``path`` is relative to the directory
    of the query. ``held`` is None for a file in this savepoint; otherwise its path in the earlier
    savepoint that holds it, relative to the directory that contains both savepoints. ``stamp`` is
    that of the original file (:meth:`flinkish.storage.FileEntry.stamp`): if that file still has
    this stamp, a later savepoint regards it as unchanged.
    """

    query: int
    path: str
    size: int
    digest: str
    held: str | None = None
    stamp: str | None = None


@dataclass(frozen=True)
class QuerySource:
    """A query to save.

    ``checkpoint`` is the root of its checkpoint. ``source`` and ``sink`` are descriptions as JSON
    data; ``sink_at`` replaces ``sink`` if the sink itself must be examined: it is called with the
    query id and the batch id. A ``batch_id`` of None means the newest committed batch.
    """

    name: str
    checkpoint: str
    run_id: str | None = None
    source: Any = None
    sink: Any = None
    sink_at: Callable[[str, int], Mapping[str, Any]] | None = None
    operators: tuple[OperatorFacts, ...] = ()
    batch_id: int | None = None
    #: Batch whose progress report has the operators' row counts (None: the batch of the cut).
    rows_batch: int | None = None
    #: The checkpoint that ``checkpoint`` was made from, if that is only an intermediate copy.
    origin: str | None = None
