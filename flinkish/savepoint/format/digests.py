"""Digests of a savepoint's files, and the packed table of their sizes and digests.

The prefix names the form:

- ``sha256:<hex>``: SHA-256 of the file's bytes;
- ``crc32-512:<hex>``: SHA-256 over the CRC-32 of every 512 bytes, each as big-endian int32.
  Hadoop's local file system writes exactly these numbers to ``.<name>.crc`` next to every
  checkpoint file (:mod:`flinkish.checkpoint.format.file_ends`), so the digest of a linked file
  of any size is computed from a small sidecar;
- ``md5:<hex>``: MD5 of the file's bytes, for an object that S3 itself copied without reporting a
  better digest.

A path, a size and a digest take some 300 bytes as Python objects. A :class:`FileTable` therefore
keeps a directory's files as compressed texts, and Spark's workers get it in this form.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from flinkish.checkpoint.format.file_ends import (
    CHUNK,
    blocks_of,
    checksum_file_of,
    checksums_of,
    recorded_checksums,
)
from flinkish.storage import Hasher, is_local, open_file, read_bytes

SHA256 = "sha256"
CRC32_512 = "crc32-512"
MD5 = "md5"

#: Number of hex digits of each form.
_DIGITS = {SHA256: 64, CRC32_512: 64, MD5: 32}


class UnknownDigest(ValueError):
    """A digest of a form that this version does not know."""


def of_checkpoint_file(path: str, size: int, *, data_path: str | None = None) -> str:
    """Return the digest of a checkpoint file: from a sidecar that fits ``size``, else by reading.

    ``path`` is where Spark wrote the file, next to its sidecar; ``data_path`` is where to read the
    bytes if the original may be gone. Raises FileNotFoundError if no sidecar fits and
    there is no file to read, and Corrupt if that is not a regular file.
    """
    from_sidecar = sidecar_digest(path, size) if is_local(path) else None
    return from_sidecar or compute(data_path or path, SHA256)


def sidecar_digest(path: str, size: int) -> str | None:
    """Return the ``crc32-512`` digest from Hadoop's sidecar of ``path``; None without a sidecar.

    A sidecar with another chunk size is ignored, and so is one that does not fit ``size`` (a
    remnant of a file that has been replaced).
    """
    try:
        checksums = recorded_checksums(read_bytes(checksum_file_of(path)), size)
    except FileNotFoundError:
        return None
    return None if checksums is None else f"{CRC32_512}:{hashlib.sha256(checksums).hexdigest()}"


def compute(path: str, algorithm: str) -> str:
    """Compute the digest of a file's bytes.

    Raises UnknownDigest for an unknown algorithm, FileNotFoundError, and Corrupt if the file is not
    a regular one.
    """
    if algorithm not in _DIGITS:
        raise UnknownDigest(algorithm)
    with open_file(path) as file:
        return of_stream(file, algorithm)


def of_stream(file: IO[bytes], algorithm: str) -> str:
    """Compute the digest of the rest of an open file; raise UnknownDigest."""
    digest = hasher(algorithm)
    for block in blocks_of(file):
        digest.update(block)
    return f"{algorithm}:{digest.hexdigest()}"


def hasher(algorithm: str) -> Hasher:
    """Return a new digest of an algorithm; raise UnknownDigest."""
    if algorithm == CRC32_512:
        return _Crc32Hasher()
    if algorithm == MD5:  # detects damage; it is not relied on against manipulation
        return hashlib.md5(usedforsecurity=False)
    if algorithm == SHA256:
        return hashlib.sha256()
    raise UnknownDigest(algorithm)


class _Crc32Hasher:
    """SHA-256 over the CRC-32 of every 512 bytes, independent of the lengths of the updates."""

    name = CRC32_512

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._rest = b""

    def update(self, data: bytes, /) -> None:
        data = self._rest + data if self._rest else data
        whole = len(data) - len(data) % CHUNK
        self._digest.update(checksums_of(data[:whole]))
        self._rest = data[whole:]

    def hexdigest(self) -> str:
        digest = self._digest.copy()
        digest.update(checksums_of(self._rest))
        return digest.hexdigest()


def algorithm_of(digest: str) -> str:
    """Return the algorithm of a recorded digest; raise UnknownDigest if its form is unknown."""
    algorithm, colon, value = digest.partition(":")
    if not colon or len(value) != _DIGITS.get(algorithm, -1):
        raise UnknownDigest(digest)
    return algorithm


def matches(path: str, digest: str) -> bool:
    """Return whether a file has the recorded digest; raise the errors of :func:`compute`."""
    return compute(path, algorithm_of(digest)) == digest


def stream_matches(file: IO[bytes], digest: str) -> bool:
    """Return whether the rest of an open file has the digest; raise UnknownDigest."""
    return of_stream(file, algorithm_of(digest)) == digest


#: Number of files after which the collected ones are packed, as one text per directory.
_PIECE = 4096


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """The recorded size (in bytes) and digest of a file."""

    size: int
    digest: str


@dataclass
class FileTable:
    """The recorded files of one query by their paths; without entries nothing is compared."""

    _packed: dict[str, list[bytes]] = field(default_factory=dict, repr=False)
    #: The names of each directory's subdirectories.
    _below: dict[str, set[str]] = field(default_factory=dict, repr=False)
    #: The directory unpacked last, since files are looked up one directory after the other.
    _last: tuple[str, dict[str, RecordedFile]] | None = field(
        default=None, repr=False, compare=False
    )

    @staticmethod
    def of(files: Iterable[tuple[str, int, str]]) -> FileTable:
        """Return the table of files given as (path, size in bytes, digest)."""
        table = FileTable()
        waiting: dict[str, list[str]] = {}
        count = 0
        for path, size, digest in files:
            directory, _, name = path.rpartition("/")
            waiting.setdefault(directory, []).append(f"{size} {digest} {name}")
            count += 1
            if count == _PIECE:
                table._pack(waiting)
                waiting, count = {}, 0
        table._pack(waiting)
        return table

    def _pack(self, waiting: dict[str, list[str]]) -> None:
        for directory, lines in waiting.items():
            data = zlib.compress("\0".join(lines).encode("utf-8", "surrogatepass"), 1)
            self._packed.setdefault(directory, []).append(data)
            while directory:
                directory, _, name = directory.rpartition("/")
                self._below.setdefault(directory, set()).add(name)

    def get(self, path: str) -> RecordedFile | None:
        """Return the record of the file at ``path``, or None."""
        directory, _, name = path.rpartition("/")
        return self._records(directory).get(name)

    def names(self, directory: str) -> list[str]:
        """Return the visible names of the files and subdirectories of a directory; [] if none."""
        names = {*self._records(directory), *self._below.get(directory, ())}
        return sorted(name for name in names if not name.startswith("."))

    def _records(self, directory: str) -> Mapping[str, RecordedFile]:
        last = self._last  # one read: threads may share the table
        if last is None or last[0] != directory:
            if directory not in self._packed:
                return {}
            last = directory, dict(self._files(directory))
            self._last = last
        return last[1]

    def _files(self, directory: str) -> Iterator[tuple[str, RecordedFile]]:
        for data in self._packed[directory]:
            for line in zlib.decompress(data).decode("utf-8", "surrogatepass").split("\0"):
                size, digest, name = line.split(" ", 2)
                yield name, RecordedFile(int(size), digest)
