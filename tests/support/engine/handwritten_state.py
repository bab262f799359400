"""State files made by hand, for tests: only what Spark's own files cannot show."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Mapping

import cramjam
import xxhash
import zstandard

from flinkish.checkpoint.format.names import HDFS
from flinkish.engine.stores.files import StoreFiles

END = struct.pack(">i", -1)


def lz4(data: bytes, block: int = 64) -> bytes:
    """As lz4-java's LZ4BlockOutputStream, in small blocks."""
    out = b""
    for at in range(0, len(data), block):
        piece = data[at : at + block]
        packed = bytes(cramjam.lz4.compress_block(piece, store_size=False))
        token, body = (0x20, packed) if len(packed) < len(piece) else (0x10, piece)
        checksum = xxhash.xxh32_intdigest(piece, 0x9747B28C) & 0x0FFFFFFF
        out += b"LZ4Block" + struct.pack("<BiiI", token, len(body), len(piece), checksum) + body
    return out + b"LZ4Block" + struct.pack("<BiiI", 0x10, 0, 0, 0)


def snappy(data: bytes, block: int = 64) -> bytes:
    """As snappy-java's SnappyOutputStream."""
    pieces = (data[at : at + block] for at in range(0, len(data), block))
    packed = [bytes(cramjam.snappy.compress_raw(piece)) for piece in pieces]
    body = b"".join(struct.pack(">i", len(p)) + p for p in packed)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + body


def zstd(data: bytes) -> bytes:
    """One zstd frame."""
    return zstandard.ZstdCompressor().compress(data)


def lzf(data: bytes, block: int = 64) -> bytes:
    """As compress-lzf's LZFOutputStream writes what it cannot compress."""
    pieces = (data[at : at + block] for at in range(0, len(data), block))
    return b"".join(b"ZV\x00" + struct.pack(">H", len(p)) + p for p in pieces)


CODECS = {"lz4": lz4, "snappy": snappy, "zstd": zstd, "lzf": lzf}


def record(key: bytes, value: bytes | None) -> bytes:
    """A record of a delta or a changelog v1; None removes."""
    head = struct.pack(">i", len(key)) + key
    return head + (END if value is None else struct.pack(">i", len(value)) + value)


def delta(records: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """The uncompressed content of a delta, snapshot or changelog v1."""
    return b"".join(record(key, value) for key, value in records) + END


def utf(text: str) -> bytes:
    """Java's writeUTF, for ASCII."""
    return struct.pack(">H", len(text)) + text.encode()


def lineage(*items: tuple[int, str]) -> bytes:
    """The lineage at the head of a changelog v3 or v4."""
    found = [{"version": v, "checkpointUniqueId": unique} for v, unique in items]
    return utf(json.dumps(found))


def store(
    contents: Mapping[str, bytes],
    version: int,
    backend: str = HDFS,
    *,
    unique_id: str | None = None,
    compression: str = "lz4",
    scratch: str | None = None,
) -> StoreFiles:
    """A store whose files are in memory: only ``open`` is asked for them."""

    def open_bytes(name: str) -> io.BytesIO:
        if name not in contents:
            raise FileNotFoundError(name)
        return io.BytesIO(contents[name])

    return StoreFiles(
        names=tuple(name for name in contents if "/" not in name),
        version=version,
        open=open_bytes,
        backend=backend,
        unique_id=unique_id,
        compression=compression,
        scratch=scratch,
    )


def rows(files: StoreFiles) -> dict[bytes, bytes]:
    """All rows of a store of one family."""
    from flinkish.engine.stores.store_rows import read_store

    return {
        key: value
        for block in read_store(files)
        for key, value in zip(block.keys, block.values, strict=True)
    }
