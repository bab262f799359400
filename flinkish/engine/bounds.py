"""How large anything in a state file may be.

Savepoints may come from elsewhere. What is larger than these bounds, which are far above what is
real, is damage, or somebody's trick; nothing of that size is made in memory or on the disk.
"""

from __future__ import annotations

from typing import Final

#: The content of a compressed file or block, bytes: this, and so many times its compressed bytes.
#: Blocks of lz4, snappy and lzf cannot be more than 255 times as large; zstd and deflate can.
SPARE: Final = 256 << 20
MAX_RATIO: Final = 1000
#: One key or value of state, bytes.
MAX_ROW: Final = 512 << 20
#: Small files that are read at once: logs, metadata, schemas, counts, checksums.
MAX_SMALL: Final = 256 << 20


def most_of(packed: int) -> int:
    """How many bytes the content of so many compressed ones may have."""
    return SPARE + MAX_RATIO * packed
