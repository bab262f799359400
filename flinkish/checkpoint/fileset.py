"""The files of a cut, compressed in memory, because a checkpoint may have a million files.

A path, a size and a stamp take some 300 bytes as Python objects, and a tenth of that in compressed
batches, because names repeat their directories. The files are read in order.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

#: Files per compressed batch; also the number that is unpacked at a time.
PIECE = 2048


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as listed: posix path relative to the root, size in bytes, stamp.

    The stamp is that of :meth:`flinkish.storage.FileEntry.stamp`. If it has changed, another file
    has replaced this one.
    """

    path: str
    size: int
    stamp: str


class FileSet(Collection[str]):
    """Files in the order they were added; as a collection, it holds their paths."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._open: list[ListedFile] = []
        self._packed = 0
        #: Sum of the file sizes, bytes.
        self.bytes = 0

    def add(self, file: ListedFile) -> None:
        """Add one file, which must not be in the set yet."""
        self._open.append(file)
        self.bytes += file.size
        if len(self._open) >= PIECE:
            self._pack()

    def extend(self, other: FileSet) -> None:
        """Add all files of another set."""
        self._pack()
        other._pack()
        self._pieces += other._pieces
        self._packed += other._packed
        self.bytes += other.bytes

    def _pack(self) -> None:
        if not self._open:
            return
        columns = [
            [file.path for file in self._open],
            [file.size for file in self._open],
            [file.stamp for file in self._open],
        ]
        self._pieces.append(zlib.compress(json.dumps(columns).encode(), 1))
        self._packed += len(self._open)
        self._open = []

    def pieces(self) -> Iterator[list[ListedFile]]:
        """Yield the files in batches of up to :data:`PIECE`."""
        for piece in self._pieces:
            paths, sizes, stamps = json.loads(zlib.decompress(piece))
            yield [ListedFile(*row) for row in zip(paths, sizes, stamps, strict=True)]
        if self._open:
            yield list(self._open)

    def entries(self) -> Iterator[ListedFile]:
        """Yield the files one by one."""
        for piece in self.pieces():
            yield from piece

    def __iter__(self) -> Iterator[str]:
        return (file.path for file in self.entries())

    def __len__(self) -> int:
        return self._packed + len(self._open)

    def __contains__(self, path: object) -> bool:
        return any(path == own for own in self)

    def __eq__(self, other: object) -> bool:
        """Compare paths in order (sizes and stamps differ between two copies of one cut)."""
        if not isinstance(other, FileSet):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"FileSet({len(self)} files, {self.bytes} bytes)"
