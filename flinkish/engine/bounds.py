"""Upper bounds for sizes of anything in a state file.

Savepoints may come from elsewhere. The bounds are far above real sizes, so anything larger is
damage or an attack. Nothing larger is allocated in memory or written to the disk.
"""

from __future__ import annotations

from typing import IO, Final

#: Largest content of a compressed file or block, bytes: ``SPARE`` plus ``MAX_RATIO`` times its
#: compressed bytes. lz4, snappy and lzf expand 255 times at most; zstd and deflate can expand more.
SPARE: Final = 256 << 20
MAX_RATIO: Final = 1000
#: Largest key or value of state, bytes.
MAX_ROW: Final = 512 << 20
#: Largest file that is read as a whole, bytes: logs, metadata, schemas, counts, checksums.
MAX_SMALL: Final = 256 << 20
_PIECE: Final = 1 << 16


def most_of(packed: int) -> int:
    """Return the largest accepted decompressed size of ``packed`` bytes."""
    return SPARE + MAX_RATIO * packed


def read_up_to(file: IO[bytes], most: int) -> bytes | None:
    """Read the rest of a file; return None if it has more than ``most`` bytes."""
    parts = []
    left = most + 1
    while left and (data := file.read(min(left, _PIECE))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts) if left else None
