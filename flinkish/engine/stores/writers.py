"""Writing of state files as Spark writes them: deltas, snapshots and changelogs.

For the same records in the same order, they are the same bytes as Spark's, as far as the compressor
gives the same bytes (:mod:`flinkish.engine.stores.compressors`).
:mod:`flinkish.engine.stores.records` reads them and documents their formats.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final

from flinkish.checkpoint.format.chains import write_lineage
from flinkish.checkpoint.format.text import write_utf
from flinkish.engine.errors import EngineError
from flinkish.engine.stores.compressors import compressor
from flinkish.engine.stores.records import MERGE, PUT, REMOVE, Change

_INT32 = struct.Struct(">i")
_NONE: Final = _INT32.pack(-1)
#: Bytes of records that are collected before they are compressed.
_PIECE = 1 << 18


def write_records(
    file: BinaryIO, records: Iterable[tuple[bytes, bytes | None]], codec: str = "lz4"
) -> int:
    """Write a delta or a snapshot of an HDFS-backed store (``HDFSBackedStateStoreProvider``).

    Returns the number of records: key and value as UnsafeRows. A value of None removes the key,
    which is not allowed in a snapshot. ``codec`` is
    ``spark.sql.streaming.stateStore.compression.codec``; UnsupportedState if it is unknown.
    """
    return _write(file, _plain(records), codec, b"", _NONE)


def write_changelog(
    file: BinaryIO,
    changes: Iterable[Change],
    codec: str = "lz4",
    *,
    version: int = 1,
    lineage: Sequence[tuple[int, str]] | None = None,
) -> int:
    """Write a changelog of a RocksDB store (``StateStoreChangelogWriter``).

    Returns the number of changes: kind (``PUT``, ``REMOVE``, ``MERGE``), key and value. Keys begin
    with their family's id if the store has families. ``codec`` is as in :func:`write_records`.
    ``version`` is 1 without families, 2 with them; 3 and 4 are the same in checkpoint format 2, and
    have a ``lineage``: version and unique id of each state back to the snapshot.

    Raises EngineError if the version does not exist, does not fit the lineage, or does not support
    a kind of change.
    """
    if not 1 <= version <= 4 or (lineage is None) != (version < 3):
        with_it = "with" if lineage is not None else "without"
        raise EngineError(f"there is no changelog of version {version} {with_it} a lineage")
    head = b"" if version == 1 else write_utf(f"v{version}")
    if lineage is not None:
        head += write_utf(write_lineage(lineage))
    if version in {1, 3}:
        return _write(file, _plain(_without_merges(changes)), codec, head, _NONE)
    return _write(file, _typed(changes), codec, head, b"\x00")


def _write(file: BinaryIO, records: Iterator[bytes], codec: str, head: bytes, end: bytes) -> int:
    stream = compressor(file, codec)
    waiting = bytearray(head)
    count = 0
    for record in records:
        waiting += record
        count += 1
        if len(waiting) >= _PIECE:
            stream.write(bytes(waiting))
            waiting.clear()
    stream.write(bytes(waiting + end))
    stream.finish()
    return count


def _plain(records: Iterable[tuple[bytes, bytes | None]]) -> Iterator[bytes]:
    size = _INT32.pack
    for key, value in records:
        if value is None:
            yield size(len(key)) + key + _NONE
        else:
            yield size(len(key)) + key + size(len(value)) + value


def _without_merges(changes: Iterable[Change]) -> Iterator[tuple[bytes, bytes | None]]:
    for kind, key, value in changes:
        if kind not in {PUT, REMOVE}:
            raise EngineError("a changelog of version 1 or 3 has puts and removals only")
        yield key, value if kind == PUT else None


def _typed(changes: Iterable[Change]) -> Iterator[bytes]:
    size = _INT32.pack
    for kind, key, value in changes:
        if kind not in {PUT, REMOVE, MERGE}:
            raise EngineError(f"there is no change of the kind {kind:#04x}")
        head = bytes([kind]) + size(len(key)) + key
        yield head + _NONE if kind == REMOVE else head + size(len(value)) + value
