"""Names in a checkpoint: its directories, numbered files, and the files of a state store.

A checkpoint is ``metadata``, ``offsets/<batch>``, ``commits/<batch>``, ``sources/<source>/<n>`` and
``state/<operator>/<partition>/[<store>/]<version>[_<unique id>].<kind>`` (Spark's
``StreamExecution.checkpointFile``, ``StateStoreId.storeCheckpointLocation``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

METADATA: Final = "metadata"
OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
SOURCES: Final = "sources"
STATE: Final = "state"

#: Backends: Spark's ``HDFSBackedStateStoreProvider`` and ``RocksDBStateStoreProvider``.
HDFS: Final = "hdfs"
ROCKSDB: Final = "rocksdb"
#: Not a backend of Spark: state that flinkish's engine writes, in Avro files.
CANONICAL: Final = "avro"
#: A file in a canonical store, with the number of rows in each of the other files; written last.
COUNTS: Final = "_counts.json"

#: Name of an operator's only store, and of a store's only column family.
DEFAULT_STORE: Final = "default"
#: The order in which Spark lists the stores of a join, and so their unique ids.
JOIN_STORES: Final = tuple(
    f"{side}-{part}"
    for side in ("left", "right")
    for part in ("keyToNumValues", "keyWithIndexToValue")
)
METADATA_DIRECTORY: Final = "_metadata"
SCHEMA_DIRECTORY: Final = "_stateSchema"
#: Directories next to a RocksDB store's versioned files.
SST_DIRECTORY: Final = "SSTs"
LOG_DIRECTORY: Final = "logs"
#: Directories below a partition that are not stores.
NOT_STORES: Final = frozenset({SST_DIRECTORY, LOG_DIRECTORY, METADATA_DIRECTORY})

#: Largest batch, version or position: one per microsecond for three hundred years.
MAX_NUMBER: Final = 10**16
_NUMBER = re.compile(r"0|[1-9][0-9]{0,16}")
_STATE_FILE = re.compile(
    r"(0|[1-9][0-9]{0,16})(?:_([0-9A-Za-z-]+))?\.(delta|snapshot|zip|changelog)"
)


@dataclass(frozen=True)
class VersionedFile:
    """A parsed state file name: ``<version>[_<unique id>].<kind>``."""

    name: str
    version: int
    kind: str
    unique_id: str | None = None


def parse_number(name: str) -> int | None:
    """Parse a name that is one of Spark's numbers: a batch, an operator, a partition; else None."""
    if not _NUMBER.fullmatch(name):
        return None
    number = int(name)
    return number if number <= MAX_NUMBER else None


def is_plain(name: str) -> bool:
    """Return whether a name from a file's content is plain, so that it stays in its directory."""
    return name not in {"", ".", ".."} and "/" not in name and "\0" not in name


def numbers_among(names: Iterable[str]) -> list[int]:
    """Return the numbers among the names in a directory, ascending."""
    numbers = (parse_number(name) for name in names)
    return sorted(number for number in numbers if number is not None)


def parse_name(name: str) -> VersionedFile | None:
    """Parse a state file's name; None for any other file (a checksum file, a foreign file)."""
    match = _STATE_FILE.fullmatch(name)
    if match is None or int(match[1]) > MAX_NUMBER:
        return None
    return VersionedFile(name, int(match[1]), match[3], match[2])


def state_files_among(names: Iterable[str]) -> list[VersionedFile]:
    """Return the versioned state files among ``names``."""
    return [parsed for parsed in map(parse_name, names) if parsed is not None]


def is_canonical(names: Iterable[str]) -> bool:
    """Return whether a store's directory holds state as Avro files, by the names of its files."""
    listed = list(names)
    has_avro = any(name.endswith(".avro") or name == COUNTS for name in listed)
    return has_avro and not state_files_among(listed)


def is_state_data(path: str) -> bool:
    """Return whether a checkpoint's file (a relative path) has rows of a state store.

    All others are logs, metadata and schemas.
    """
    parts = path.split("/")
    return parts[0] == STATE and not {METADATA_DIRECTORY, SCHEMA_DIRECTORY} & set(parts[2:])


def schema_batch(name: str) -> int:
    """Return the batch in a schema file's name, ``<batch>_<id>`` in Spark 4.x; else -1."""
    number = parse_number(name.rpartition("/")[2].partition("_")[0])
    return -1 if number is None else number
