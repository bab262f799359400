"""Names and small text files of Spark's checkpoint directory, parsed. Nothing here touches a disk.

Knowledge from Spark's ``OffsetSeqLog``, ``CommitLog``, ``OperatorStateMetadata`` and
``CompactibleFileStreamLog``; the same for 3.5 and 4.x, whose additions (v2 logs, operator
metadata) are optional here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

METADATA = "metadata"
OFFSETS = "offsets"
COMMITS = "commits"
SOURCES = "sources"
STATE = "state"
#: Stands in the offset log for a source that has not produced an offset yet.
NO_OFFSET = "-"
COMPACT_SUFFIX = ".compact"

PIN_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PIN_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
#: From 4.1: the number of state partitions where it differs from the shuffle's.
PIN_STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"
PIN_WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
PIN_DEDUP_ORDER = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"
#: Not pinned, although a checkpoint written with 2 needs it set again before Spark 4.3.
SETTING_CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


_INT64 = 1 << 63
#: Batches and positions of file sources: one each microsecond for three hundred years.
MAX_BATCH = 10**16


class LogFormatError(ValueError):
    """A log file is not what Spark writes (or of a newer version)."""


@dataclass(frozen=True)
class OffsetEntry:
    """One ``offsets/N``: where every source stood, and the configuration pinned at first start."""

    version: int
    watermark_ms: int
    timestamp_ms: int
    pins: Mapping[str, str]
    #: Directory name of each source below ``sources/`` ("0", "1", ...; names are possible in v2).
    sources: tuple[str, ...]
    #: Offset JSON of each source, or ``-``.
    offsets: tuple[str, ...]


@dataclass(frozen=True)
class CommitEntry:
    """One ``commits/N``; ``state_ids``: operator -> partition -> ids of its stores' files."""

    version: int
    next_watermark_ms: int
    state_ids: Mapping[int, tuple[tuple[str, ...], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class OperatorMetadata:
    """``state/<op>/_metadata`` of Spark 4.x."""

    version: int
    operator_id: int
    name: str
    stores: tuple[str, ...]
    #: Store -> absolute locations of its schema files (v2 only), oldest first.
    schema_files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _version_and_lines(data: bytes, newest: int) -> tuple[int, list[str]]:
    try:
        # As Spark's reader does: only line ends split, a JSON string holds none of them raw.
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise LogFormatError("the file is not UTF-8 text") from error
    head = lines[0].strip()
    if not (head[:1] == "v" and _is_number(head[1:]) and len(head) < 10):
        raise LogFormatError(f"the first line is {head[:20]!r}, not a version")
    version = int(head[1:])
    if not 1 <= version <= newest:
        raise LogFormatError(f"log version v{version} is newer than v{newest}, the newest known")
    return version, lines[1:]


def _object(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LogFormatError(f"not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise LogFormatError("not a JSON object")
    return parsed


def _integer(data: Mapping[str, Any], key: str) -> int:
    value = data.get(key, 0)
    if not isinstance(value, int) or not -_INT64 <= value < _INT64:
        raise LogFormatError(f"{key} is not a number")
    return value


def parse_offsets(data: bytes) -> OffsetEntry:
    """Parse an offset log entry (Spark's ``OffsetSeqLog``, v1 and v2); LogFormatError if bad."""
    version, lines = _version_and_lines(data, newest=2)
    if not lines:
        raise LogFormatError("the file ends too early")
    head = _object(lines[0]) if lines[0].strip() else {}
    conf = head.get("conf", {})
    if not isinstance(conf, dict):
        raise LogFormatError("conf is not an object")
    entries = [line for line in lines[1:] if line]
    if version == 1:
        names = [str(i) for i in range(len(entries))]
    else:  # sourceId:offset
        pairs = [line.partition(":") for line in entries]
        if not all(colon for _, colon, _ in pairs):
            raise LogFormatError("a line lacks its source id")
        pairs.sort(key=lambda pair: (not _is_number(pair[0]), pair[0].zfill(20)))
        names = [name for name, _, _ in pairs]
        entries = [offset for _, _, offset in pairs]
    return OffsetEntry(
        version=version,
        watermark_ms=_integer(head, "batchWatermarkMs"),
        timestamp_ms=_integer(head, "batchTimestampMs"),
        pins={str(k): str(v) for k, v in conf.items()},
        sources=tuple(names),
        offsets=tuple(entries),
    )


def parse_commit(data: bytes) -> CommitEntry:
    """Parse a commit log entry (Spark's ``CommitLog``, v1 and v2); LogFormatError if bad."""
    version, lines = _version_and_lines(data, newest=2)
    head = _object(lines[0]) if lines and lines[0].strip() else {}
    ids = head.get("stateUniqueIds") or {}
    try:
        state_ids = {
            int(operator): tuple(tuple(str(i) for i in stores) for stores in partitions)
            for operator, partitions in ids.items()
        }
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise LogFormatError("stateUniqueIds has an unknown form") from error
    return CommitEntry(version, _integer(head, "nextBatchWatermarkMs"), state_ids)


def parse_query_id(data: bytes) -> str:
    """The query id in ``metadata`` (Spark's ``StreamMetadata``); LogFormatError if bad."""
    try:
        query_id = _object(data.decode("utf-8")).get("id")
    except UnicodeDecodeError as error:
        raise LogFormatError("the file is not UTF-8 text") from error
    if not isinstance(query_id, str) or not query_id:
        raise LogFormatError("it names no query id")
    return query_id


def parse_operator_metadata(data: bytes) -> OperatorMetadata:
    """Parse operator metadata v1 or v2 (Spark 4.x); LogFormatError if bad."""
    version, lines = _version_and_lines(data, newest=2)
    head = _object("\n".join(lines))
    try:
        info, stores = head["operatorInfo"], head["stateStoreInfo"]
        return OperatorMetadata(
            version=version,
            operator_id=int(info["operatorId"]),
            name=str(info["operatorName"]),
            stores=tuple(str(s["storeName"]) for s in stores),
            schema_files={
                str(s["storeName"]): tuple(str(p) for p in s.get("stateSchemaFilePaths") or ())
                for s in stores
            },
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise LogFormatError(f"operator metadata lacks {error}") from error


def batch_numbers(names: Iterable[str]) -> list[int]:
    """The batch numbers among the names of a log directory, ascending."""
    found = (int(name) for name in names if name.isascii() and name.isdigit())
    return sorted(number for number in found if number < MAX_BATCH)


def log_offset(offset: str) -> int | None:
    """The file source's position in its own log (``{"logOffset": n}``); None for other sources."""
    try:
        parsed = json.loads(offset)
    except (ValueError, RecursionError):
        return None
    value = parsed.get("logOffset") if isinstance(parsed, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_file_source_log(data: bytes) -> bool:
    """True when an entry of ``sources/<i>/`` is of a file source (JSON lines with a path)."""
    lines = data.split(b"\n", 2)
    return len(lines) > 1 and lines[0].startswith(b"v") and b'"path"' in lines[1]


def source_log_entries(names: Iterable[str], limit: int) -> tuple[list[str], list[str]]:
    """Entries of a file source's log that make up position ``limit``: (present, missing).

    From the newest ``<n>.compact`` not above ``limit`` on; later entries are left out, because a
    file named there counts as read (Spark's ``CompactibleFileStreamLog``).
    """
    known = set(names)
    compacts = [
        int(name[: -len(COMPACT_SUFFIX)])
        for name in known
        if name.endswith(COMPACT_SUFFIX) and _is_number(name[: -len(COMPACT_SUFFIX)])
    ]
    start = max((n for n in compacts if n <= limit), default=-1)
    present = [f"{start}{COMPACT_SUFFIX}"] if start >= 0 else []
    missing: list[str] = []
    for n in range(start + 1, limit + 1):
        (present if str(n) in known else missing).append(str(n))
        if len(missing) > len(known):  # a position that no log has: the rest is missing too
            break
    return present, missing


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def backend_of(pins: Mapping[str, str]) -> str | None:
    """``hdfs``, ``rocksdb``, or None when the pinned state store provider is another or unnamed."""
    provider = pins.get(PIN_PROVIDER, "")
    if "RocksDB" in provider:
        return "rocksdb"
    return "hdfs" if "HDFSBacked" in provider else None


def pinned_partitions(pins: Mapping[str, str]) -> int | None:
    """The number of state partitions pinned at the query's first start, if it was recorded."""
    for key in (PIN_STATE_PARTITIONS, PIN_SHUFFLE_PARTITIONS):
        value = pins.get(key, "")
        if value.isascii() and value.isdigit():
            return int(value)
    return None
