"""Plans for moving the rows of column families from an operator's state to its new state.

A :class:`FamilyMigration` says where the rows of one family go, how their keys and values change,
and which columns they are partitioned by. :mod:`flinkish.engine.migration.migration_planner`
creates these plans, and :mod:`flinkish.engine.migration.row_transforms` applies them to blocks of
rows. They are plain data and are pickled for Spark's workers.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flinkish.checkpoint.format.names import DEFAULT_STORE, ROCKSDB
from flinkish.engine.migration.evolution import Resolution
from flinkish.engine.rows.value_formats import Reshape
from flinkish.engine.stores.checkpoints import OperatorState
from flinkish.engine.stores.partitioning import Path
from flinkish.engine.stores.rocksdb_writer import MAX_RUNS, Families

#: Maximum number of old partitions whose rows a new one gets without a shuffle; one task may merge
#: them all.
MAX_SOURCES: Final = 64
#: Maximum number of new partitions that a task writes for at once; each needs an open file.
MAX_TARGETS: Final = 256


@dataclass(frozen=True)
class RowForm:
    """The form of a family's rows in a backend.

    ``key`` and ``value`` are JSON of a ``StructType``, ``encoder`` JSON of the key's encoder in
    RocksDB; None means the encoder without a prefix. ``framed`` rows are framed as in RocksDB.
    """

    key: Mapping[str, Any]
    value: Mapping[str, Any]
    encoder: Mapping[str, Any] | None
    framed: bool


class JoinLayout(enum.Enum):
    """The column families that :mod:`.join_regrouping` writes from a join side's buffered rows."""

    #: From format 4: a row for each buffered row, by key and index.
    INDEXED = "keyWithIndexToValue"
    #: From format 4: the number of rows of each key.
    COUNTS = "keyToNumValues"
    #: From an older format: a list for each key and time.
    LISTS = "keyWithTsToValues"
    #: From an older format: by time and key, a list of equally many empty rows.
    TIMES = "tsWithKey"


@dataclass(frozen=True)
class EventTime:
    """The place of a buffered row's event time, for joins of format 4.

    ``column`` is the index of the value's column with the watermark, if there is one; if it is a
    ``window``, its end is the time. ``keys`` are the indexes of the key's columns that may have to
    equal that time: see :func:`~.join_formats.event_time`.
    """

    column: int | None
    window: bool
    keys: tuple[int, ...]


@dataclass(frozen=True)
class JoinRegrouping:
    """How a join's rows are regrouped: one row becomes several, or several become one.

    ``layout`` is the layout of the new rows, ``source`` the form of the old rows. ``time`` is the
    place of the event time in the old rows; None unless the new rows are of format 4.
    """

    layout: JoinLayout
    source: RowForm
    time: EventTime | None = None

    @property
    def lists(self) -> bool:
        """Whether the new values are lists."""
        return self.layout in (JoinLayout.LISTS, JoinLayout.TIMES)


@dataclass(frozen=True)
class FamilyMigration:
    """The migration of one column family's rows.

    ``source`` and ``target`` are the family's names in the two stores, ``before`` and ``after`` the
    forms of its rows. The steps in order: ``regroup`` converts the rows that are read to rows of
    the form ``before``; ``select`` takes the value's new columns from key and value, as ("key" or
    "value", index); ``reshape`` converts the value's columns to another format; ``key`` and
    ``value`` change the columns. None skips a step.

    Spark partitions by the columns ``partition_by`` of ``before.key``, or of ``after.key`` if
    ``rehashed`` (the key's new columns decide, so that rows move); () for a single partition.
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
    rehashed: bool = False


@dataclass(frozen=True)
class StoreMigration:
    """The migration of one store's rows; families that it does not list are left out.

    ``source`` and ``target`` are the names of the stores.
    """

    source: str
    target: str
    families: tuple[FamilyMigration, ...] = field(default=())

    @property
    def by_family(self) -> dict[str, tuple[int, FamilyMigration]]:
        """Index and migration of each family, by the family's source name."""
        return {move.source: (place, move) for place, move in enumerate(self.families)}


@dataclass(frozen=True)
class OperatorMigration:
    """The migration of one operator's state.

    ``operator`` is the old state; the other attributes describe the new one. ``ordinal`` is Spark's
    operator id, ``backend`` one of ``HDFS``, ``ROCKSDB`` and ``CANONICAL``. With ``unique_ids``
    files are named as in checkpoint format 2. Several ``stores`` may have the same target.
    ``families`` are by target store; stores without families have no entry. ``moved`` is whether
    rows change their partition or their store. With ``interval_days`` the days of calendar
    intervals are hashed. ``delimiter`` is the bytes between the records of a list in RocksDB,
    ``archive`` the version in a RocksDB snapshot's archive.
    """

    operator: OperatorState
    ordinal: int
    partitions: int
    backend: str
    compression: str
    unique_ids: bool
    stores: tuple[StoreMigration, ...]
    families: Mapping[str, Families]
    moved: bool
    interval_days: bool = True
    delimiter: bytes = b""
    archive: int = 1

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the new stores, each once, in Spark's order."""
        return tuple(dict.fromkeys(move.target for move in self.stores))

    @property
    def reordered(self) -> str | None:
        """Why rows cannot be written in the order in which they are read; None if they can."""
        if ROCKSDB not in (self.operator.backend, self.backend):
            return "neither the old nor the new state is in RocksDB"
        if self.operator.backend != ROCKSDB:
            return "the old state is not in RocksDB"
        if self.backend != ROCKSDB:
            return "the new state is not in RocksDB"
        for store in self.stores:
            for family in store.families:
                if store.source != store.target or family.regroup is not None:
                    return "rows change their store"
                if family.key is not None or family.before.encoder != family.after.encoder:
                    return "keys change"
        return None

    @property
    def shuffle(self) -> str | None:
        """Why rows go through a shuffle of Spark; None if tasks write them for their partition.

        If a key keeps its bytes, its ``pmod(hash, n)`` before and after are congruent modulo the
        greatest common divisor of both partition counts, so an old partition feeds few new ones.
        """
        if not self.moved:
            return None
        if (reason := self.reordered) is not None:
            return reason
        before, after = self.operator.partitions, self.partitions
        divisor = math.gcd(before, after)
        if before // divisor > MAX_SOURCES or after // divisor > MAX_TARGETS:
            return f"too many files would go from {before} to {after} partitions"
        return None

    def groups(self, tasks: int) -> tuple[tuple[int, ...], ...]:
        """Return the old partitions that each task reads, for at least ``tasks`` tasks if possible.

        Fewer tasks make fewer files. A new partition gets files from at most ``MAX_RUNS`` tasks.
        """
        before = self.operator.partitions
        divisor = math.gcd(before, self.partitions)
        count = min(MAX_RUNS, before // divisor, max(1, math.ceil(tasks / divisor)))
        return tuple(
            tuple(range(first + divisor * group, before, divisor * count))
            for first in range(divisor)
            for group in range(count)
        )


def store_directory(name: str) -> str:
    """Return a store's directory below its partition's: "", or a path that ends with a slash."""
    return "" if name == DEFAULT_STORE else f"{name}/"
