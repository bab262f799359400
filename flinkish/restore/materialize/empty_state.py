"""State stores without rows, as bytes that Spark loads. Pure.

A new stateful operator of a query that continues at batch B must find state of version B + 1, or
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
from collections.abc import Callable, Mapping

from flinkish.checkpoint.format.archives import METADATA_MEMBER, write_archive_metadata
from flinkish.checkpoint.format.logs import StateIds
from flinkish.checkpoint.format.names import DEFAULT_STORE, ROCKSDB, STATE
from flinkish.checkpoint.format.pins import PIN_CODEC, PIN_PROVIDER, backend_of, pinned
from flinkish.errors import Incompatible

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
    """Return the short form of Spark's name of a codec, such as ``lz4``; keep an unknown name."""
    if not codec:
        codec = pinned({}, PIN_CODEC)
    return _CLASSES.get(codec, codec.lower() if codec.lower() in _SNAPSHOTS else codec)


def empty_snapshot(codec: str | None) -> bytes:
    """Return a snapshot of an HDFS-backed store without rows.

    Without a ``codec`` it is Spark's default. Raises Incompatible for a codec that is not Spark's.
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

    Without a pinned provider in ``pins`` it is Spark's default, the HDFS-backed one. Raises
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
