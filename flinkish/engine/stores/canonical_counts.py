"""``_counts.json`` of a canonical store: the number of rows and the checksum of each file.

``{"format": "1", "version": <the state's>, "files": {<name>: {"rows": ..., "crc32c": ...}}}``
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import BinaryIO, Final

import crc32c

from flinkish.checkpoint.format.names import COUNTS
from flinkish.checkpoint.format.text import parse_json
from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.engine.stores.files import StoreFiles, read_small

#: The version of ``_counts.json``.
FORMAT: Final = "1"


@dataclass(frozen=True)
class FileCounts:
    """The entry of a file in ``_counts.json``: its number of rows, and the CRC-32C of its bytes."""

    rows: int
    crc32c: int


class Summed:
    """A file that is read or written sequentially, with the CRC-32C so far (``crc``)."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.crc = 0

    def write(self, data: bytes) -> int:
        """Write ``data`` and add it to the checksum."""
        self.crc = crc32c.crc32c(data, self.crc)
        return self._file.write(data)

    def read(self, size: int) -> bytes:
        """Read at most ``size`` bytes and add them to the checksum."""
        data = self._file.read(size)
        self.crc = crc32c.crc32c(data, self.crc)
        return data


def counts_json(counts: Mapping[str, FileCounts], version: int) -> bytes:
    """Return the content of ``_counts.json`` for one version of the state."""
    listed = {name: asdict(count) for name, count in counts.items()}
    content = {"format": FORMAT, "version": version, "files": listed}
    return json.dumps(content, indent=1).encode()


def read_counts(files: StoreFiles) -> dict[str, FileCounts]:
    """Read ``_counts.json`` of a store and return its entries by file name.

    Raises StateFormatError if it is damaged, missing (MissingStateFile), or of another version of
    the state, and UnsupportedState if a newer release wrote it.
    """
    text = read_small(files, COUNTS)
    try:
        parsed = parse_json(text)
        written, version = str(parsed["format"]), int(parsed["version"])
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise StateFormatError(COUNTS, None, "damaged counts of rows") from error
    if written != FORMAT:
        reason = f"version {written} of canonical state: only {FORMAT} is read; use a newer release"
        raise UnsupportedState(COUNTS, None, reason)
    if version != files.version:
        reason = f"the state is of version {version}, not {files.version}"
        raise StateFormatError(COUNTS, None, reason)
    try:
        counts = {
            str(name): FileCounts(int(of["rows"]), int(of["crc32c"]))
            for name, of in parsed["files"].items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise StateFormatError(COUNTS, None, "damaged counts of rows") from error
    if any(os.path.basename(name) != name for name in counts):
        raise StateFormatError(COUNTS, None, "a file outside of the store's directory")
    return counts
