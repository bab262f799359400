"""Digests of a savepoint's files, and how to have one without reading the file.

Forms, told apart by their prefix:

- ``sha256:<hex>``: of the file's bytes;
- ``crc32-512:<hex>``: SHA-256 over the CRC-32 of every 512 bytes, each as big-endian int32.
  Hadoop's local file system leaves just these numbers in ``.<name>.crc`` beside every checkpoint
  file (``ChecksumFileSystem``: ``b"crc\\0"``, int32 bytes per checksum, then the checksums), so a
  linked file of any size gets its digest from a small sidecar;
- ``md5:<hex>``: of the file's bytes, where S3 has told it of an object that it copied itself and
  gave no better one.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from typing import IO

from flinkish.storage import is_local, open_file, read_bytes

SHA256 = "sha256"
CRC32_512 = "crc32-512"
MD5 = "md5"

#: Digits of the digests of each form.
_DIGITS = {SHA256: 64, CRC32_512: 64, MD5: 32}

_SIDECAR_MAGIC = b"crc\x00"
_CHUNK = 512
_BLOCK = 1 << 20


class UnknownDigest(ValueError):
    """A digest of a form this version does not know."""


def of_checkpoint_file(path: str, size: int, *, data_path: str | None = None) -> str:
    """The digest of a checkpoint file: from its sidecar when that fits ``size``, else by reading.

    ``path`` is where Spark wrote it (the sidecar lies there); ``data_path`` where to read the
    bytes instead, when the original may be gone. FileNotFoundError when neither is there.
    """
    from_sidecar = sidecar_digest(path, size) if is_local(path) else None
    return from_sidecar or compute(data_path or path, SHA256)


def sidecar_digest(path: str, size: int) -> str | None:
    """The ``crc32-512`` digest from Hadoop's sidecar of ``path``; None when there is none.

    A sidecar of another chunk size, or one that does not fit ``size``, counts as none (it would
    be a left-over of a file since replaced).
    """
    head, name = os.path.split(path)
    try:
        data = read_bytes(os.path.join(head, f".{name}.crc"))
    except FileNotFoundError:
        return None
    if data[:4] != _SIDECAR_MAGIC or data[4:8] != struct.pack(">i", _CHUNK):
        return None
    if len(data) != 8 + 4 * ((size + _CHUNK - 1) // _CHUNK):
        return None
    return f"{CRC32_512}:{hashlib.sha256(data[8:]).hexdigest()}"


def compute(path: str, algorithm: str) -> str:
    """The digest of a file's bytes; UnknownDigest for an unknown algorithm."""
    if algorithm not in _DIGITS:
        raise UnknownDigest(algorithm)
    # MD5 finds damage, nobody relies on it against malice.
    digest = hashlib.md5(usedforsecurity=False) if algorithm == MD5 else hashlib.sha256()
    with open_file(path) as file:
        while block := _block(file):  # a multiple of the chunk, except the last
            digest.update(_chunk_checksums(block) if algorithm == CRC32_512 else block)
    return f"{algorithm}:{digest.hexdigest()}"


def _block(file: IO[bytes]) -> bytes:
    """The next block, full unless it is the last (a remote file may give less than asked for)."""
    block = file.read(_BLOCK)
    while block and len(block) < _BLOCK and (more := file.read(_BLOCK - len(block))):
        block += more
    return block


def _chunk_checksums(block: bytes) -> bytes:
    view = memoryview(block)
    checksums = [zlib.crc32(view[at : at + _CHUNK]) for at in range(0, len(block), _CHUNK)]
    return struct.pack(f">{len(checksums)}I", *checksums)


def algorithm_of(digest: str) -> str:
    """The algorithm a recorded digest names; UnknownDigest when this version has none such."""
    algorithm, colon, value = digest.partition(":")
    if not colon or len(value) != _DIGITS.get(algorithm, -1):
        raise UnknownDigest(digest)
    return algorithm


def matches(path: str, digest: str) -> bool:
    """True when the file's bytes have the recorded digest; UnknownDigest for an unknown form."""
    return compute(path, algorithm_of(digest)) == digest
