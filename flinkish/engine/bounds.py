"""How large anything in a state file may be, and JSON that is not believed either.

Savepoints may come from elsewhere. What is larger than these bounds, which are far above what is
real, is damage, or somebody's trick; nothing of that size is made in memory or on the disk.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

#: The content of a compressed file or block, bytes: this, and so many times its compressed bytes.
#: Blocks of lz4, snappy and lzf cannot be more than 255 times as large; zstd and deflate can.
SPARE: Final = 256 << 20
MAX_RATIO: Final = 1000
#: One key or value of state, bytes.
MAX_ROW: Final = 512 << 20
#: All members of RocksDB's archives but the shared files: CURRENT, MANIFEST, OPTIONS, metadata.
MAX_ARCHIVE: Final = 256 << 20
MAX_MEMBERS: Final = 10_000
#: Small files that are read at once: logs, metadata, schemas, counts, checksums.
MAX_SMALL: Final = 256 << 20
#: Versions of state: a batch each microsecond for three hundred years.
MAX_VERSION: Final = 10**16
#: How deep JSON may be nested: schemas of some sixty structs within each other.
MAX_DEPTH: Final = 200

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


def most_of(packed: int) -> int:
    """How many bytes the content of so many compressed ones may have."""
    return SPARE + MAX_RATIO * packed


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON text; ValueError where it is none, or is nested beyond ``MAX_DEPTH``."""
    try:
        decoded = text if isinstance(text, str) else text.decode()
        if decoded.count("[") + decoded.count("{") > MAX_DEPTH and _depth(decoded) > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        return json.loads(decoded)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _depth(text: str) -> int:
    deepest = depth = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in "]}":
            depth -= 1
    return deepest
