"""Which files make up one version of a store: a snapshot and the changes after it.

Version V, the state after batch V - 1, is the newest snapshot s <= V and every file of changes
after it up to V. HDFS-backed stores (``HDFSBackedStateStoreProvider``) call them ``s.snapshot``
and ``v.delta``, RocksDB (``RocksDBFileManager``) ``s.zip`` and ``v.changelog``. Version 0 is empty.

In checkpoint format 2 a name has a unique id, ``v_<id>.changelog``; other ids of the same version
are left-overs of failed attempts. Which ids count stands in the lineage at the head of each
changelog: all versions back to the snapshot it was written on. A lineage that is empty or starts
without a snapshot goes on with files of format 1, from before the query switched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from flinkish.engine.errors import MissingStateFile, UnsupportedState
from flinkish.engine.files import HDFS, StoreFiles, VersionedName, parse_names

#: (snapshot, changes) of a backend.
_KINDS: Final = {HDFS: ("snapshot", "delta")}
_ROCKSDB_KINDS: Final = ("zip", "changelog")

Lineage = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Chain:
    """The files of a version: the snapshot (None when there never was one), then the changes."""

    snapshot: str | None
    changes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file to name where no single one is to blame; "" for the empty version 0."""
        return self.snapshot or (self.changes[-1] if self.changes else "")


def find_chain(files: StoreFiles, lineage_of: Callable[[str], Lineage | None]) -> Chain:
    """The files that make up ``files.version``.

    Args:
        files: the store; its names are all that is looked at.
        lineage_of: reads the lineage at the head of a changelog; called in format 2 only.

    Raises:
        MissingStateFile: a file that the version needs is not among the names.
        UnsupportedState: an id was given for a store that has none (HDFS-backed).
    """
    kinds = _KINDS.get(files.backend, _ROCKSDB_KINDS)
    present = {(f.kind, f.version, f.unique_id): f for f in parse_names(files.names)}
    if files.unique_id is None:
        return _plain_chain(present, files.version, kinds)
    if files.backend == HDFS:
        raise UnsupportedState("", None, "HDFS-backed stores have no unique ids")
    return _chain_by_id(present, files.version, files.unique_id, kinds, lineage_of)


_Present = dict[tuple[str, int, str | None], VersionedName]


def _plain_chain(present: _Present, version: int, kinds: tuple[str, str]) -> Chain:
    snapshot, change = kinds
    start = max(
        (v for kind, v, unique in present if kind == snapshot and v <= version and not unique),
        default=0,
    )
    names = {f.name for f in present.values()}
    wanted = []
    for v in range(start + 1, version + 1):  # ends at the first that is missing
        name = f"{v}.{change}"
        if name not in names:
            raise MissingStateFile(name, None, f"version {version} needs it, and it is missing")
        wanted.append(name)
    return Chain(f"{start}.{snapshot}" if start else None, tuple(wanted))


def _chain_by_id(
    present: _Present,
    version: int,
    unique_id: str,
    kinds: tuple[str, str],
    lineage_of: Callable[[str], Lineage | None],
) -> Chain:
    snapshot, change = kinds
    if (snapshot, version, unique_id) in present:
        return Chain(f"{version}_{unique_id}.{snapshot}", ())
    newest = f"{version}_{unique_id}.{change}"
    if (change, version, unique_id) not in present:
        raise MissingStateFile(newest, None, f"version {version} needs it, and it is missing")
    wanted = [newest]
    lineage = [item for item in lineage_of(newest) or () if item[0] < version]
    for v, unique in reversed(lineage):
        if (snapshot, v, unique) in present:
            return Chain(f"{v}_{unique}.{snapshot}", tuple(wanted))
        name = f"{v}_{unique}.{change}"
        if (change, v, unique) not in present:
            raise MissingStateFile(name, None, f"version {version} needs it, and it is missing")
        wanted.insert(0, name)
    before = (lineage[0][0] if lineage else version) - 1
    base = _plain_chain(present, before, kinds)
    return Chain(base.snapshot, (*base.changes, *wanted))
