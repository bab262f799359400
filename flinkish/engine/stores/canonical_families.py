"""The column families of a canonical store, and ``_counts.json``: rows and checksum of each file.

``{"format": "1", "version": <the state's>, "files": {<name>: {"rows": ..., "crc32c": ...}}}``
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, Final

import crc32c
import xxhash

from flinkish.checkpoint.format.names import COUNTS
from flinkish.checkpoint.format.text import parse_json
from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.engine.rows.types import Struct, parse_struct
from flinkish.engine.rows.value_formats import value_struct
from flinkish.engine.stores.checkpoints import OperatorState, StoreState
from flinkish.engine.stores.files import StoreFiles, read_small
from flinkish.engine.stores.partitioning import key_encoder

#: Maximum characters of a family's name in its file's name; most file systems allow 255 bytes.
_MAX_NAME: Final = 150
_JOIN_LISTS: Final = ("-keyWithTsToValues", "-tsWithKey")
_UNSAFE = re.compile(rb"[^A-Za-z0-9_-]")


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


@dataclass(frozen=True)
class CanonicalFamily:
    """A column family of a canonical store.

    ``name`` is ``default`` in stores without column families. ``key`` and ``value`` are JSON of a
    ``StructType``; if values are ``lists`` of rows, ``value`` is the type of one row. ``encoder``
    is JSON of the key's encoder in RocksDB; None for keys without a prefix. Spark counts the rows
    of ``internal`` families separately (``columnFamilyTypeMap`` of RocksDB's snapshots).
    """

    store: str
    name: str
    key: Mapping[str, Any]
    value: Mapping[str, Any]
    encoder: Mapping[str, Any] | None = None
    lists: bool = False
    internal: bool = False

    @property
    def file(self) -> str:
        """The name of the family's file.

        Characters that are not safe in file names become ``~`` and hexadecimal digits. A name that
        is too long is cut, and ``~`` and its hash are appended.
        """
        raw = self.name.encode("utf-8", "surrogatepass")
        safe = _UNSAFE.sub(lambda match: b"~%02x" % ord(match[0]), raw).decode()
        if safe.startswith("_"):  # Spark and Hadoop ignore files that begin with "_"
            safe = f"~5f{safe[1:]}"
        if len(safe) > _MAX_NAME:
            safe = f"{safe[:_MAX_NAME]}~{xxhash.xxh3_64_hexdigest(raw)}"
        return f"{safe}.avro"

    @property
    def key_struct(self) -> Struct:
        """The keys' schema in Avro."""
        return parse_struct(self.key)

    @property
    def value_struct(self) -> Struct:
        """The values' schema in Avro: Spark's, except for timeouts (see :mod:`.canonical`)."""
        return value_struct(self.value, self.encoder)


def list_families(operator: OperatorState, store: StoreState) -> frozenset[str]:
    """Return the names of the column families whose values are lists.

    They are the ``ListState`` variables of ``transformWithState``, which the operator's metadata
    names (``TransformWithStateOperatorProperties``), and both families of each side of a join in
    state format 4 (``SymmetricHashJoinStateManagerV4``). No I/O is done.

    Raises StateFormatError if the operator's metadata is damaged.
    """
    names = [family.name for family in store.families]
    lists = {name for name in names if name.endswith(_JOIN_LISTS)}
    properties = operator.metadata.properties if operator.metadata else None
    try:
        parsed = parse_json(properties) if properties else {}
        variables = parsed.get("stateVariables", []) if isinstance(parsed, dict) else []
        lists |= {v["stateName"] for v in variables if v["stateVariableType"] == "ListState"}
    except (ValueError, TypeError, KeyError) as error:
        where = f"{operator.directory}/{operator.metadata_path}"
        raise StateFormatError(where, None, "damaged operator properties") from error
    return frozenset(lists.intersection(names))


def families_of(operator: OperatorState, store: StoreState) -> list[CanonicalFamily]:
    """Return a store's column families in canonical form, from its schema and metadata."""
    lists = list_families(operator, store)
    return [
        CanonicalFamily(
            store=store.name,
            name=family.name,
            key=family.key,
            value=family.value,
            encoder=key_encoder(operator, store, family),
            lists=family.name in lists,
        )
        for family in store.families
    ]
