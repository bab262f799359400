"""Which files of a state store directory make up one version: pure functions over file names.

A state store's directory holds many versions at once (Spark trims old ones in the background and
writes the next). Version V, the state after batch V - 1, is:

- HDFS-backed (Spark's ``HDFSBackedStateStoreProvider``): the newest ``<s>.snapshot``, s <= V, and
  every ``<v>.delta`` after it up to V;
- RocksDB (``RocksDBFileManager``): the newest ``<s>.zip``, s <= V, every ``<v>.changelog`` after
  it up to V, and the shared files which the zip's ``metadata`` names;
- RocksDB with unique ids (checkpoint format 2, Spark 4.x): the same with ``<v>_<id>.zip`` and
  ``<v>_<id>.changelog``, where ``commits/<v-1>`` says which id counts; other ids of the same
  version are left-overs of failed attempts. ``<file>.crc`` beside them is Spark's own checksum.
"""

from __future__ import annotations

import errno
import json
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import IO

HDFS = "hdfs"
ROCKSDB = "rocksdb"

#: What Spark's ``ZipOutputStream`` writes.
_COMPRESSION = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
#: A version each microsecond for three hundred years.
MAX_VERSION = 10**16
#: Bytes of the member ``metadata``; a reference has some 100.
_MAX_METADATA = 256 << 20
_KINDS = frozenset({"delta", "snapshot", "zip", "changelog"})
#: Directories beside a RocksDB store's versioned files.
SST_DIRECTORY = "SSTs"
LOG_DIRECTORY = "logs"


_BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, struct.error, OverflowError)


class MissingVersion(Exception):
    """A file which the version needs is not in the listing; ``args[0]`` names it."""


class ArchiveError(ValueError):
    """A RocksDB snapshot archive cannot be read or lacks its metadata."""


@dataclass(frozen=True)
class VersionedFile:
    """A state file's name taken apart: ``<version>[_<unique id>].<kind>``."""

    name: str
    version: int
    kind: str
    unique_id: str | None = None


@dataclass(frozen=True)
class StoreChain:
    """The files of one store at one version; ``archives`` are the zips whose metadata to read.

    ``exact`` is False where the unique ids of older versions are no longer known, so that files
    of failed attempts may be among them.
    """

    files: tuple[str, ...]
    archives: tuple[str, ...] = ()
    exact: bool = True


def parse_name(name: str) -> VersionedFile | None:
    """Take a state file's name apart; None for any other file (sidecars, foreign files)."""
    stem, dot, kind = name.partition(".")
    if not dot or kind not in _KINDS:
        return None
    number, underscore, unique_id = stem.partition("_")
    if not (number.isascii() and number.isdigit()) or (underscore and not unique_id):
        return None
    version = int(number)
    return VersionedFile(name, version, kind, unique_id or None) if version <= MAX_VERSION else None


def versions(names: Iterable[str]) -> list[VersionedFile]:
    """All versioned state files among ``names``."""
    return [parsed for parsed in map(parse_name, names) if parsed is not None]


def hdfs_chain(files: Iterable[VersionedFile], version: int) -> StoreChain:
    """Files of ``version`` in a HDFS-backed store; MissingVersion names the first one absent."""
    return _chain(files, version, snapshot="snapshot", delta="delta")


def rocksdb_chain(files: Iterable[VersionedFile], version: int) -> StoreChain:
    """Files of ``version`` in a RocksDB store with plain names."""
    return _chain(files, version, snapshot="zip", delta="changelog")


def _chain(
    files: Iterable[VersionedFile], version: int, *, snapshot: str, delta: str
) -> StoreChain:
    # An id in the name is another checkpoint format: such files never serve a plain version.
    present = {(f.kind, f.version) for f in files if f.unique_id is None}
    start = max((v for kind, v in present if kind == snapshot and v <= version), default=0)
    chain = [f"{start}.{snapshot}"] if start else []
    for v in range(start + 1, version + 1):
        if (delta, v) not in present:
            raise MissingVersion(_name_missing(present, v if chain else version, snapshot, delta))
        chain.append(f"{v}.{delta}")
    return StoreChain(tuple(chain), tuple(chain[:1]) if start and snapshot == "zip" else ())


def _name_missing(present: set[tuple[str, int]], version: int, snapshot: str, delta: str) -> str:
    """The file to name: a snapshot where the store writes nothing else, usually a delta."""
    kinds = {kind for kind, _ in present}
    return f"{version}.{snapshot if kinds == {snapshot} else delta}"


def rocksdb_chain_by_id(
    files: Iterable[VersionedFile], version: int, ids: Mapping[int, frozenset[str]]
) -> StoreChain:
    """Files of ``version`` in a RocksDB store whose names carry unique ids.

    ``ids`` maps a state version to the ids that count for it in this partition; versions whose
    commit Spark has trimmed are absent. From the first such version downwards every file is kept
    (Spark finds its way by the lineage inside the changelog), down to the oldest.

    The files are in the order of their versions, however many ids are known: a savepoint carries
    fewer commits than its checkpoint has, and both must give the same.
    """
    by_version: dict[int, list[VersionedFile]] = {}
    for file in files:
        if file.version <= version:
            by_version.setdefault(file.version, []).append(file)
    chain: list[str] = []
    for v in range(version, 0, -1):
        accepted = ids.get(v)
        if accepted is None and v == version:
            raise MissingVersion(f"the ids of version {v} in commits/{v - 1}")
        if accepted is None:
            rest = [f for x in sorted(by_version) if x <= v for f in by_version[x]]
            if not rest:
                raise MissingVersion(f"{v}_*.changelog")
            chain.extend(f.name for f in rest)
            archives = tuple(f.name for f in rest if f.kind == "zip")
            return StoreChain(_by_version(chain), archives, exact=False)
        # A format-1 file is what a query has from before it switched to format 2.
        counted = [f for f in by_version.get(v, ()) if f.unique_id in accepted or not f.unique_id]
        counted.sort(key=lambda f: not f.unique_id)
        zips = [f.name for f in counted if f.kind == "zip"]
        if zips:
            chain.extend(zips[:1])
            return StoreChain(_by_version(chain), tuple(zips[:1]))
        changelogs = [f.name for f in counted if f.kind == "changelog"]
        if not changelogs:
            raise MissingVersion(f"{v}_{'|'.join(sorted(accepted)) or '<id>'}.changelog")
        chain.extend(changelogs[:1])
    return StoreChain(_by_version(chain))


def _by_version(names: Iterable[str]) -> tuple[str, ...]:
    files = versions(names)
    return tuple(file.name for file in sorted(files, key=lambda f: (f.version, f.name)))


def archive_references(file: IO[bytes]) -> tuple[str, ...]:
    """Shared files named by a RocksDB snapshot archive, relative to the store's directory.

    Reads the member ``metadata`` (Spark's ``RocksDBCheckpointMetadata``) only; ArchiveError when
    the archive is damaged.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            member = archive.getinfo("metadata")
            if member.file_size > _MAX_METADATA or member.compress_type not in _COMPRESSION:
                raise ArchiveError("its metadata is none that Spark writes")
            text = archive.read(member).decode("utf-8")
    except ArchiveError:
        raise
    except (*_BAD_ARCHIVE, KeyError, EOFError, ValueError, RuntimeError) as error:
        raise ArchiveError(f"not a readable snapshot archive: {error}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # zipfile seeks to places before the file's start
            raise
        raise ArchiveError(f"not a readable snapshot archive: {error}") from error
    head, _, body = text.partition("\n")
    try:
        parsed = json.loads(body)
        ssts = [str(f["dfsSstFileName"]) for f in parsed.get("sstFiles") or ()]
        logs = [str(f["dfsLogFileName"]) for f in parsed.get("logFiles") or ()]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ArchiveError(f"its metadata ({head[:10]!r}) has an unknown form") from error
    references = [f"{SST_DIRECTORY}/{n}" for n in ssts] + [f"{LOG_DIRECTORY}/{n}" for n in logs]
    if any(n.count("/") != 1 or n.endswith(("/", "/..", "/.")) for n in references):
        raise ArchiveError("its metadata names a file outside the store")
    return tuple(references)
