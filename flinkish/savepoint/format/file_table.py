"""The recorded sizes and digests of a query's files, packed: a savepoint may have a million files.

A path, a size and a digest take some 300 bytes as Python objects. Here a directory's files are one
compressed text, which is also what Spark's workers get.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

#: Number of files whose directories are packed together.
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
    #: The directory unpacked last: files are looked up one directory after the other.
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

    def get(self, path: str) -> RecordedFile | None:
        """Return the record of the file at ``path``, or None."""
        directory, _, name = path.rpartition("/")
        last = self._last  # one read: threads may share the table
        if last is None or last[0] != directory:
            if directory not in self._packed:
                return None
            last = directory, dict(self._files(directory))
            self._last = last
        return last[1].get(name)

    def _files(self, directory: str) -> Iterator[tuple[str, RecordedFile]]:
        for data in self._packed[directory]:
            for line in zlib.decompress(data).decode("utf-8", "surrogatepass").split("\0"):
                size, digest, name = line.split(" ", 2)
                yield name, RecordedFile(int(size), digest)
