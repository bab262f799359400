"""How the rows of a column family get from an operator's state to its new state, as plain data.

A :class:`FamilyMigration` says where the rows of one family go, what becomes of their keys and
values, and what they are partitioned by; :mod:`flinkish.engine.migration.migration_planner` makes
them, and :mod:`flinkish.engine.migration.row_transforms` does what they say on blocks of rows. They
are pickled for Spark's workers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.checkpoint.format.names import DEFAULT_STORE
from flinkish.engine.migration.evolution import Resolution
from flinkish.engine.rows.value_formats import Reshape
from flinkish.engine.stores.checkpoints import OperatorState
from flinkish.engine.stores.partitioning import Path
from flinkish.engine.stores.rocksdb_writer import Families


@dataclass(frozen=True)
class RowForm:
    """What the rows of a family are like in a backend.

    Attributes:
        key: JSON of the key's ``StructType``.
        value: JSON of the value's.
        encoder: JSON of the key's encoder in RocksDB; None is one without a prefix.
        framed: rows are as RocksDB has them.
    """

    key: Mapping[str, Any]
    value: Mapping[str, Any]
    encoder: Mapping[str, Any] | None
    framed: bool


class JoinLayout(enum.Enum):
    """What :mod:`.join_regrouping` makes of the buffered rows of a side of a join."""

    #: Of format 4: a row for each buffered row, by key and index.
    INDEXED = "keyWithIndexToValue"
    #: Of format 4: how many a key has.
    COUNTS = "keyToNumValues"
    #: Of an older format: a list for each key and time.
    LISTS = "keyWithTsToValues"
    #: Of an older format: by time and key, a list of as many empty rows.
    TIMES = "tsWithKey"


@dataclass(frozen=True)
class EventTime:
    """Where the time of a buffered row is, for joins of format 4.

    Attributes:
        column: the value's column with the watermark; None where it has none.
        window: that is a window, whose end is the time.
        keys: the key's columns that may have to be that time too: see
            :func:`~.join_formats.event_time`.
    """

    column: int | None
    window: bool
    keys: tuple[int, ...]


@dataclass(frozen=True)
class JoinRegrouping:
    """How rows of a join become other rows, several of one or one of several.

    Attributes:
        made: what is made of them.
        source: what they are like.
        time: where their time is; of those that are made for format 4.
    """

    made: JoinLayout
    source: RowForm
    time: EventTime | None = None

    @property
    def lists(self) -> bool:
        """Whether the values that are made are lists."""
        return self.made in (JoinLayout.LISTS, JoinLayout.TIMES)


@dataclass(frozen=True)
class FamilyMigration:
    """The way of one column family's rows.

    Attributes:
        source: the family's name in its store.
        target: its name in the store it goes to.
        before, after: what its rows are like.
        partition_by: the columns of ``before.key`` that Spark partitions by; () where there is one
            partition.
        key: how a key's columns change; None where they do not.
        value: how a value's columns change; None where they do not.
        select: the value's new columns taken from key and value, before ``value`` is applied:
            ("key" or "value", place); None where they are the value's own.
        reshape: what becomes of a value's columns in another format, before ``value`` is applied.
        regroup: what is done first, to make rows like ``before`` of those that are read.
    """

    source: str
    target: str
    before: RowForm
    after: RowForm
    partition_by: tuple[Path, ...]
    key: Resolution | None = None
    value: Resolution | None = None
    select: tuple[tuple[str, int], ...] | None = None
    reshape: Reshape | None = None
    regroup: JoinRegrouping | None = None


@dataclass(frozen=True)
class StoreMigration:
    """The way of one store's rows: families that no move names are left out.

    ``source`` and ``target`` are the names of stores.
    """

    source: str
    target: str
    families: tuple[FamilyMigration, ...] = field(default=())

    @property
    def by_family(self) -> dict[str, tuple[int, FamilyMigration]]:
        """The moves and their places by the families they are of."""
        return {move.source: (place, move) for place, move in enumerate(self.families)}


@dataclass(frozen=True)
class OperatorMigration:
    """The way of one operator's state.

    Attributes:
        operator: the state it is made of.
        ordinal: Spark's operator id of the new state.
        partitions: of the new state.
        backend: of the new state, ``HDFS``, ``ROCKSDB`` or ``CANONICAL``.
        compression: codec of the new files.
        unique_ids: name files as checkpoint format 2 does.
        stores: the stores' moves; several may have the same target.
        families: by target store its column families; of stores without any there is no entry.
        shuffled: rows change their partition or their store.
        interval_days: the days of calendar intervals are hashed.
        delimiter: what stands between the records of a list in RocksDB.
        archive: the version in a RocksDB snapshot's archive.
    """

    operator: OperatorState
    ordinal: int
    partitions: int
    backend: str
    compression: str
    unique_ids: bool
    stores: tuple[StoreMigration, ...]
    families: Mapping[str, Families]
    shuffled: bool
    interval_days: bool = True
    delimiter: bytes = b""
    archive: int = 1

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the new stores, each once, in Spark's order."""
        return tuple(dict.fromkeys(move.target for move in self.stores))


def store_directory(name: str) -> str:
    """A store's directory below its partition's: "" or with a slash at its end."""
    return "" if name == DEFAULT_STORE else f"{name}/"
