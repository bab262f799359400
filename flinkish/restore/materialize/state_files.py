"""The files of an operator's state: moved to another ordinal and version, or without rows. Pure.

Renaming the files turns state of version V into version V + shift, as no delta, snapshot or RocksDB
archive contains its version. Only the changelogs of checkpoint format 2 (Spark 4.x) do, in the
lineage at their beginning.

A new stateful operator of a query that continues after batch B must find state of version B + 1, or
Spark fails. An empty snapshot of that version is what Spark would have after emptying its state.

- HDFS-backed (Spark's ``HDFSBackedStateStoreProvider``): a snapshot is a compressed list of
  records and an end mark, the number -1 as four bytes. Without records there is only one content
  for each codec. Spark itself produced the contents below, the same on 3.5.9 and 4.3.0:
  ``CompressionCodec.createCodec(conf, name).compressedOutputStream(out)`` and ``writeInt(-1)``.
- RocksDB (``RocksDBFileManager``): an archive that holds only ``metadata`` and no file of
  RocksDB. Spark then opens an empty directory, as it does for version 0.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from flinkish.checkpoint.format.archives import METADATA_MEMBER, write_archive_metadata
from flinkish.checkpoint.format.logs import StateIds
from flinkish.checkpoint.format.names import (
    DEFAULT_STORE,
    NOT_STORES,
    ROCKSDB,
    SCHEMA_DIRECTORY,
    STATE,
    VersionedFile,
    numbers_among,
    parse_name,
)
from flinkish.checkpoint.format.pins import PIN_CODEC, PIN_PROVIDER, backend_of, pinned
from flinkish.errors import Incompatible

_SIDECAR = ".crc"
_NOT_VERSIONED = NOT_STORES | {SCHEMA_DIRECTORY}
_BASES = frozenset({"snapshot", "zip"})


@dataclass(frozen=True)
class StateFiles:
    """The new places of an operator's files.

    Attributes
    ----------
    moves
        Pairs (old, new) of paths, both relative to their checkpoint.
    bases
        The new paths of empty snapshots that must precede the first delta or changelog, because
        Spark needs no file for version 0, but one for the version to which version 0 is raised.
    """

    moves: tuple[tuple[str, str], ...]
    bases: tuple[str, ...] = ()


def of_operator(files: Iterable[str], ordinal: int) -> tuple[str, ...]:
    """Return the files of a checkpoint that belong to the operator."""
    prefix = f"{STATE}/{ordinal}/"
    return tuple(path for path in files if path.startswith(prefix))


def ordinals(files: Iterable[str]) -> tuple[int, ...]:
    """Return the ordinals of all operators that have files, ascending."""
    parts = (path.split("/", 2) for path in files)
    names = {part[1] for part in parts if part[0] == STATE and len(part) == 3}
    return tuple(numbers_among(names))


def is_schema(path: str) -> bool:
    """Return whether a path is a schema file: ``state/<ordinal>/0/[<store>/]_metadata/schema``.

    Spark writes the file where it is missing (``StateSchemaCompatibilityChecker``).
    """
    return path.startswith(f"{STATE}/") and path.endswith("/_metadata/schema")


def move_state(files: Iterable[str], ordinal: int, shift: int) -> StateFiles:
    """Return the new places of one operator's files below ``state/<ordinal>``.

    ``shift`` is the number of versions by which the state is raised. Raises Incompatible if a file
    contains its version.
    """
    moves: list[tuple[str, str]] = []
    chains: dict[str, list[VersionedFile]] = {}
    for path in files:
        directory, _, name = path.rpartition("/")
        parts = directory.split("/")
        parts[1] = str(ordinal)
        directory = "/".join(parts)
        file = None if _NOT_VERSIONED & set(parts) else parse_name(_main(name))
        if file is not None and shift:
            _check_movable(file, path)
            if name == file.name:
                chains.setdefault(directory, []).append(file)
            name = f"{file.version + shift}{name.lstrip('0123456789')}"
        moves.append((path, f"{directory}/{name}"))
    bases = [
        f"{directory}/{shift}.{'snapshot' if chain[0].kind == 'delta' else 'zip'}"
        for directory, chain in chains.items()
        if not any(file.kind in _BASES for file in chain)
    ]
    return StateFiles(tuple(moves), tuple(bases))


def _main(name: str) -> str:
    """Return the name of the file to which a checksum file of Spark belongs."""
    # The checksum file contains no name, so it moves along unchanged.
    return name.removesuffix(_SIDECAR)


def _check_movable(file: VersionedFile, path: str) -> None:
    if file.kind == "changelog" and file.unique_id is not None:
        raise Incompatible(
            "state cannot be moved to another batch (of another query, or of a sink that "
            f"is ahead): {path} holds a lineage of state versions (changelog "
            "checkpointing with checkpoint format 2)",
            hint="take the savepoint again without "
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled, or "
            "while the queries are at the same batch",
            path=path,
            reasons=["state-lineage"],
        )


_SNAPSHOTS = {
    "lz4": "4c5a34426c6f636b150400000004000000db804d08ffffffff"
    "4c5a34426c6f636b15000000000000000000000000",
    "zstd": "28b52ffd0048200000ffffffff010000",
    "snappy": "82534e4150505900000000010000000100000006040cffffffff",
    "lzf": "5a56000004ffffffff",
}
#: As ``CompressionCodec.shortCompressionCodecNames``.
_CLASSES = {
    "org.apache.spark.io.LZ4CompressionCodec": "lz4",
    "org.apache.spark.io.ZStdCompressionCodec": "zstd",
    "org.apache.spark.io.SnappyCompressionCodec": "snappy",
    "org.apache.spark.io.LZFCompressionCodec": "lzf",
}
#: The earliest time that ``zipfile`` accepts; a fixed time makes equal inputs give equal bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def short_codec(codec: str | None) -> str:
    """Return a codec's short name (``lz4``), Spark's default without one; keep an unknown name."""
    if not codec:
        codec = pinned({}, PIN_CODEC)
    return _CLASSES.get(codec, codec.lower() if codec.lower() in _SNAPSHOTS else codec)


def empty_snapshot(codec: str | None) -> bytes:
    """Return a snapshot of an HDFS-backed store without rows.

    Without ``codec``, Spark's default is used. Raises Incompatible for a codec that Spark lacks.
    """
    content = _SNAPSHOTS.get(short_codec(codec))
    if content is None:
        raise Incompatible(
            f"cannot write an empty state with compression codec {codec}",
            hint=f"flinkish supports Spark's codecs {', '.join(_SNAPSHOTS)} ({PIN_CODEC})",
            setting=PIN_CODEC,
            reasons=["empty-state"],
        )
    return bytes.fromhex(content)


def empty_archive() -> bytes:
    """Return a snapshot archive of a RocksDB store without rows; it also fits column families."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        content = write_archive_metadata((), 0, with_families=False)
        archive.writestr(zipfile.ZipInfo(METADATA_MEMBER, _EPOCH), content)
    return out.getvalue()


def empty_store(pins: Mapping[str, str]) -> tuple[str, bytes]:
    """Return the kind (``zip``, ``snapshot``) and the content of a state store without rows.

    If ``pins`` has no provider, the store is of Spark's default, the HDFS-backed one. Raises
    Incompatible for a provider or a codec that is not Spark's.
    """
    backend, provider = backend_of(pins), pins.get(PIN_PROVIDER)
    if backend is None and provider:
        raise Incompatible(
            f"cannot write an empty state for the state store provider {provider}",
            hint="flinkish supports Spark's HDFS-backed and RocksDB state stores",
            setting=PIN_PROVIDER,
            reasons=["empty-state"],
        )
    if backend == ROCKSDB:
        return "zip", empty_archive()
    return "snapshot", empty_snapshot(pins.get(PIN_CODEC))


def store_directories(ordinal: int, partitions: int, stores: tuple[str, ...]) -> list[str]:
    """Return the directories of all stores of an operator, relative to the checkpoint."""
    return [
        f"{STATE}/{ordinal}/{partition}" + ("" if store == DEFAULT_STORE else f"/{store}")
        for partition in range(partitions)
        for store in sorted(stores)
    ]


def new_ids(partitions: int, stores: tuple[str, ...], new_id: Callable[[], str]) -> StateIds:
    """Return unique ids for an operator's empty stores, in the order in which commits list them.

    That order is alphabetical (for a join: left before right, ``keyToNumValues`` first).
    """
    return tuple(tuple(new_id() for _ in stores) for _ in range(partitions))
