"""Find the files of a state store's directory that make up one version: pure functions over names.

A directory holds many versions at once (Spark trims old ones in the background and writes the
next). Version V, the state after batch V - 1, is the newest snapshot s <= V and the
changes of every version v after it, up to V; version 0 is empty:

- HDFS-backed stores (``HDFSBackedStateStoreProvider``) name them ``s.snapshot`` and ``v.delta``;
- RocksDB (``RocksDBFileManager``) ``s.zip`` and ``v.changelog``, and the archive's ``metadata``
  names shared files (:mod:`flinkish.checkpoint.format.archives`);
- RocksDB with unique ids (checkpoint format 2, Spark 4.x) ``s_<id>.zip`` and ``v_<id>.changelog``,
  where ``commits/<v-1>`` says which id counts; other ids of the same version are left over from
  failed attempts. The lineage at the head of each changelog lists all versions back to the snapshot
  it was written on. If a lineage is empty or starts without a snapshot, files of format 1 precede
  it, from before the query switched.

``<file>.crc`` next to a file is Spark's own checksum of it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flinkish.checkpoint.format.errors import MissingStateFile
from flinkish.checkpoint.format.names import HDFS, VersionedFile, state_files_among
from flinkish.checkpoint.format.text import parse_json

#: The kinds of a backend's files: snapshot, changes.
_HDFS_KINDS: Final = ("snapshot", "delta")
_ROCKSDB_KINDS: Final = ("zip", "changelog")

#: Version and unique id of every state from a snapshot's on, the oldest first.
Lineage = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Chain:
    """The files of a version: the snapshot (None when there never was one), then the changes."""

    snapshot: str | None
    changes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file to name in an error about the whole chain; "" for the empty version 0."""
        return self.snapshot or (self.changes[-1] if self.changes else "")

    @property
    def files(self) -> tuple[str, ...]:
        """All files, in the order of their versions."""
        return (*([self.snapshot] if self.snapshot else ()), *self.changes)


@dataclass(frozen=True)
class KnownFiles:
    """The files of a version that the commit log identifies.

    ``archives`` are the zips among them. Without ``exact`` the unique ids of older versions are no
    longer known, so that ``files`` may contain files of failed attempts.
    """

    files: tuple[str, ...]
    archives: tuple[str, ...] = ()
    exact: bool = True


def find_chain(files: Iterable[VersionedFile], version: int, backend: str) -> Chain:
    """Find the files of ``version`` in a store with plain names (checkpoint format 1).

    Raises MissingStateFile if a file that the version needs is missing.
    """
    kinds = _HDFS_KINDS if backend == HDFS else _ROCKSDB_KINDS
    # An id in a name means another checkpoint format, whose files never serve a plain version.
    return _plain({(f.kind, f.version) for f in files if f.unique_id is None}, version, kinds)


def _plain(present: set[tuple[str, int]], version: int, kinds: tuple[str, str]) -> Chain:
    snapshot, change = kinds
    start = max((v for kind, v in present if kind == snapshot and v <= version), default=0)
    wanted: list[str] = []
    for v in range(start + 1, version + 1):  # raises at the first missing file
        if (change, v) not in present:
            none = not wanted and not start and (change, version) not in present
            raise _missing(_name_missing(present, version if none else v, kinds), version)
        wanted.append(f"{v}.{change}")
    return Chain(f"{start}.{snapshot}" if start else None, tuple(wanted))


def _name_missing(present: set[tuple[str, int]], version: int, kinds: tuple[str, str]) -> str:
    """Return the missing file's name: a snapshot if there are only snapshots, else a change."""
    snapshot, change = kinds
    only_snapshots = {kind for kind, _ in present} == {snapshot}
    return f"{version}.{snapshot if only_snapshots else change}"


def _missing(name: str, version: int) -> MissingStateFile:
    return MissingStateFile(name, None, f"version {version} needs it, and it is missing")


def find_chain_by_lineage(
    files: Iterable[VersionedFile],
    version: int,
    unique_id: str,
    lineage_of: Callable[[str], Lineage | None],
) -> Chain:
    """Find the files of a version of a RocksDB store whose names carry unique ids.

    ``unique_id`` is the version's id in the commit log; ``lineage_of`` reads the lineage at the
    start of a changelog. Raises MissingStateFile if a file that the version needs is missing, and
    the errors of ``lineage_of``.
    """
    listed = list(files)
    snapshot, change = _ROCKSDB_KINDS
    present = {(f.kind, f.version, f.unique_id) for f in listed}
    if (snapshot, version, unique_id) in present:
        return Chain(f"{version}_{unique_id}.{snapshot}", ())
    newest = f"{version}_{unique_id}.{change}"
    if (change, version, unique_id) not in present:
        raise _missing(newest, version)
    wanted = [newest]
    lineage = [item for item in lineage_of(newest) or () if item[0] < version]
    for v, unique in reversed(lineage):
        if (snapshot, v, unique) in present:
            return Chain(f"{v}_{unique}.{snapshot}", tuple(wanted))
        name = f"{v}_{unique}.{change}"
        if (change, v, unique) not in present:
            raise _missing(name, version)
        wanted.insert(0, name)
    before = (lineage[0][0] if lineage else version) - 1
    plain = {(f.kind, f.version) for f in listed if f.unique_id is None}
    base = _plain(plain, before, _ROCKSDB_KINDS)
    return Chain(base.snapshot, (*base.changes, *wanted))


def find_known_files(
    files: Iterable[VersionedFile], version: int, ids: Mapping[int, frozenset[str]]
) -> KnownFiles:
    """Find the files of a version of a RocksDB store with unique ids, by the commit log alone.

    The files' content, and so their lineages, is not read. All files of versions whose commits
    Spark has trimmed are included.

    The files are in the order of their versions, however many ids are known: a savepoint carries
    fewer commits than its checkpoint has, and both must give the same result.

    ``ids`` are the unique ids that count in this partition, by state version, without the versions
    whose commit Spark has trimmed. Raises MissingStateFile.
    """
    by_version: dict[int, list[VersionedFile]] = {}
    for file in files:
        if file.version <= version:
            by_version.setdefault(file.version, []).append(file)
    chain: list[str] = []
    for v in range(version, 0, -1):
        accepted = ids.get(v)
        if accepted is None and v == version:
            raise _missing(f"the ids of version {v} in commits/{v - 1}", version)
        if accepted is None:
            rest = [f for x in sorted(by_version) if x <= v for f in by_version[x]]
            if not rest:
                raise _missing(f"{v}_*.changelog", version)
            chain.extend(f.name for f in rest)
            archives = tuple(f.name for f in rest if f.kind == "zip")
            return KnownFiles(_by_version(chain), archives, exact=False)
        # Files without an id are from before the query switched to format 2. They count only where
        # the batch was not run again since.
        there = by_version.get(v, ())
        counted = [f for f in there if f.unique_id in accepted]
        counted = counted or [f for f in there if not f.unique_id]
        zips = [f.name for f in counted if f.kind == "zip"]
        if zips:
            chain.extend(zips[:1])
            return KnownFiles(_by_version(chain), tuple(zips[:1]))
        changelogs = [f.name for f in counted if f.kind == "changelog"]
        if not changelogs:
            raise _missing(f"{v}_{'|'.join(sorted(accepted)) or '<id>'}.changelog", version)
        chain.extend(changelogs[:1])
    return KnownFiles(_by_version(chain))


def _by_version(names: Iterable[str]) -> tuple[str, ...]:
    files = state_files_among(names)
    return tuple(file.name for file in sorted(files, key=lambda f: (f.version, f.name)))


def parse_lineage(text: bytes) -> Lineage:
    """Parse the lineage at the start of a changelog (``RocksDBLineage``).

    Raises ValueError if it is damaged, or skips versions.
    """
    try:
        items = parse_json(text)
        lineage = tuple((int(i["version"]), str(i["checkpointUniqueId"])) for i in items)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ValueError("damaged lineage of a changelog") from error
    if any(b[0] != a[0] + 1 for a, b in itertools.pairwise(lineage)):
        raise ValueError("the lineage of a changelog skips versions")
    return lineage


def write_lineage(lineage: Iterable[tuple[int, str]]) -> str:
    """Return the JSON of a changelog's lineage."""
    items = [{"version": v, "checkpointUniqueId": unique} for v, unique in lineage]
    return json.dumps(items, separators=(",", ":"))
