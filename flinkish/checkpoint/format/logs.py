"""Parse entries of the offset, commit and file source logs, and the file ``metadata``.

Spark writes them in ``OffsetSeqLog`` (``v1``, ``v2``), ``CommitLog`` (``v1``, ``v2``),
``StreamMetadata`` and, for file sources, ``FileStreamSourceLog`` and ``CompactibleFileStreamLog``.

A query is drained by a batch that repeats offsets. When a query starts, Spark first runs a batch
that is in the offset log but not in the commit log, from the log alone. A batch that repeats the
offsets of the batch before has no input; with the greatest watermark it emits and removes all that
waits for the watermark: windows, sessions, rows of outer joins, event-time timers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.names import METADATA, is_plain, parse_number
from flinkish.checkpoint.format.text import json_bytes, parse_json, parse_object, split_version

COMPACT_SUFFIX: Final = ".compact"
_DEFAULT_INTERVAL: Final = 10


def log_offset(offset: str) -> int | None:
    """Return a file source's log position (``{"logOffset":n}``); None for other sources."""
    try:
        parsed = parse_json(offset)
    except ValueError:
        return None
    value = parsed.get("logOffset") if isinstance(parsed, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_file_source_log(data: bytes) -> bool:
    """Return whether an entry of ``sources/<i>/`` is a file source's (JSON lines with a path)."""
    lines = data.split(b"\n", 2)
    return len(lines) > 1 and lines[0].startswith(b"v") and b'"path"' in lines[1]


def compacted_number(name: str) -> int | None:
    """Return the number of a compacted entry, ``<n>.compact``; None for other files."""
    number = name.removesuffix(COMPACT_SUFFIX)
    return parse_number(number) if number != name else None


def source_log_entries(names: Iterable[str], limit: int) -> tuple[list[str], list[str]]:
    """Return the entries of a file source's log that make up position ``limit``.

    Returns the entries that exist, and those missing (of very many only the first). They start at
    the newest ``<n>.compact`` not above ``limit``. Later entries are left out, as their files would
    count as read. The compacted entry before the newest, if any, comes first: Spark does not read
    its content, but derives the log's compaction interval from the distance of the two.
    """
    existing = set(names)
    compacts = _compacts(existing, limit)
    start = compacts[-1] if compacts else -1
    present = [f"{n}{COMPACT_SUFFIX}" for n in compacts]
    missing: list[str] = []
    for n in range(start + 1, limit + 1):
        (present if str(n) in existing else missing).append(str(n))
        if len(missing) > len(existing):  # a position that no log has: the rest is missing too
            break
    return present, missing


def is_readable(entries: Iterable[str], limit: int) -> bool:
    """Return whether Spark can read the entries of a position as they are.

    ``entries`` are those of :func:`source_log_entries`, none missing. Spark derives a log's
    compaction interval from its compacted entries: it is the distance of the last two, or, for a
    single one, a divisor of its number of entries (``CompactibleFileStreamLog.compactInterval``;
    its default is ``spark.sql.streaming.fileSource.log.compactInterval``). From the interval it
    concludes which compacted entries must exist, and fails if one does not: "``<n>.compact``
    doesn't exist". That happens if the log was compacted with another setting and only one of its
    compacted entries is kept.
    """
    compacts = _compacts(set(entries), limit)
    count = compacts[-1] + 1 if compacts else 0
    since = limit + 1 - count
    if len(compacts) > 1:
        interval = compacts[-1] - compacts[-2]
        return count % interval == 0 and since < interval
    if not compacts:
        return since < _DEFAULT_INTERVAL
    # Spark's deriveCompactInterval: the first divisor not below the default, or the whole number.
    half = count // 2 if count // 2 > _DEFAULT_INTERVAL else 0
    divisors = range(_DEFAULT_INTERVAL, min(since, half) + 1)
    return since < count and not any(count % n == 0 for n in divisors)


def _compacts(names: set[str], limit: int) -> list[int]:
    """Return the numbers of the last two compacted entries up to ``limit``, or fewer."""
    numbers = (number for name in names if (number := compacted_number(name)) is not None)
    return sorted(n for n in numbers if n <= limit)[-2:]


#: The largest watermark, in milliseconds since the epoch, whose microseconds fit into Spark's long
#: (as Flink's MAX_WATERMARK).
MAX_WATERMARK_MS: Final = 9_223_372_036_854_775


def drained_entry(data: bytes, name: str) -> bytes:
    """Return an entry of the offset log that repeats another with the watermark at its maximum.

    ``data`` is the entry ``offsets/N`` of a committed batch; ``name`` is for errors. Raises
    UnsupportedCheckpointFormat and CheckpointFormatError, also without metadata (Spark before 2.2).
    """
    parse_offsets(data, name)
    _, start = split_version(data, name, "log")
    header, newline, rest = data[start:].partition(b"\n")
    if not header.strip():
        raise CheckpointFormatError(name, start, "it has no metadata")
    head = json.loads(header)
    head["batchWatermarkMs"] = MAX_WATERMARK_MS
    return data[:start] + json_bytes(head) + newline + rest


#: Offset log entry of a source that has not produced an offset yet.
NO_OFFSET: Final = "-"
_INT64: Final = 1 << 63
_JSON_BEGINS: Final = frozenset('{["')

#: Unique ids of an operator's state files: for each partition, one for each store.
StateIds = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class OffsetEntry:
    """One ``offsets/N``: the offset of every source, and the settings pinned at first start.

    Times are in milliseconds since the epoch; 0 is none. ``sources`` are the directory names below
    ``sources/`` ("0", "1", ...; names in v2), ``offsets`` the JSON of each source, or ``-``.
    """

    version: int
    watermark_ms: int
    timestamp_ms: int
    pins: Mapping[str, str]
    sources: tuple[str, ...]
    offsets: tuple[str, ...]


@dataclass(frozen=True)
class CommitEntry:
    """One ``commits/N``.

    ``next_watermark_ms`` is the watermark of the next batch, in milliseconds since the epoch; 0 is
    none. ``state_ids`` are the unique ids of state files by operator; empty in checkpoint format 1.
    """

    version: int
    next_watermark_ms: int
    state_ids: Mapping[int, StateIds] = field(default_factory=dict)


def parse_offsets(data: bytes, name: str) -> OffsetEntry:
    """Parse an entry of the offset log.

    Every source (in version 2, every source with an offset) has a line, and no line is empty. A
    source defines the content of its offset, but ``Offset.json`` requires JSON: a line that begins
    as JSON must be valid JSON. A truncated file is thus detected, unless whole lines are left, or
    the beginning of a number.

    Raises UnsupportedCheckpointFormat for a newer version, and CheckpointFormatError for damage.
    """
    version, start = split_version(data, name, "log")
    header, newline, rest = data[start:].partition(b"\n")
    # Up to Spark 2.1 an entry of version 1 may have no metadata: an empty line.
    head = parse_object(header, name, start) if header.strip() or version == 2 else {}
    first = start + len(header) + 1
    sources = list(_sources(rest, name, first, version)) if newline else []
    # Version 2 leaves out sources without an offset, and without any it names no source.
    if not sources and (version == 1 or head.get("sourceMetadataInfo")):
        raise CheckpointFormatError(name, len(data), "no source has a line: it ends too early")
    if version == 2:
        sources.sort(key=lambda pair: (parse_number(pair[0]) is None, pair[0].zfill(20)))
    if len({source for source, _ in sources}) != len(sources):
        raise CheckpointFormatError(name, first, "a source has two lines")
    return OffsetEntry(
        version=version,
        watermark_ms=_integer(head, "batchWatermarkMs", name, start),
        timestamp_ms=_integer(head, "batchTimestampMs", name, start),
        pins=_pins(head, name, start),
        sources=tuple(source for source, _ in sources),
        offsets=tuple(offset for _, offset in sources),
    )


def _sources(data: bytes, name: str, at: int, version: int) -> Iterator[tuple[str, str]]:
    """Yield the name of each source (in version 1 its number), and its offset."""
    # Only "\n" splits, as in Spark's reader: JSON has no raw line ends.
    for number, line in enumerate(data.split(b"\n")):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            reason = "the file is not UTF-8 text"
            raise CheckpointFormatError(name, at + error.start, reason) from error
        if not text:
            raise CheckpointFormatError(name, at, "the line of a source is empty")
        source, colon, offset = (str(number), ":", text) if version == 1 else text.partition(":")
        if not (source and colon and offset):
            raise CheckpointFormatError(name, at, "a line lacks its source id or its offset")
        if not is_plain(source):
            reason = f"the source id {source[:100]!r} is not the name of a directory"
            raise CheckpointFormatError(name, at, reason)
        if offset[0] in _JSON_BEGINS:
            try:
                parse_json(offset)
            except ValueError as error:
                reason = f"the offset of a source is not JSON: {error}"
                raise CheckpointFormatError(name, at, reason) from error
        yield source, offset
        at += len(line) + 1


def _pins(head: Mapping[str, Any], name: str, start: int) -> dict[str, str]:
    conf = head.get("conf", {})
    if not isinstance(conf, dict):
        raise CheckpointFormatError(name, start, "conf is not an object")
    for key, value in conf.items():
        if not isinstance(value, (str, type(None))):
            raise CheckpointFormatError(name, start, f"the setting {key[:200]!r} is not a text")
    return {key: value for key, value in conf.items() if value is not None}


def _integer(data: Mapping[str, Any], key: str, name: str, start: int) -> int:
    value = data.get(key, 0)
    if type(value) is not int or not -_INT64 <= value < _INT64:
        raise CheckpointFormatError(name, start, f"{key} is not a number")
    return value


def parse_commit(data: bytes, name: str) -> CommitEntry:
    """Parse an entry of the commit log: a version and an object, which Spark has always written.

    Raises UnsupportedCheckpointFormat for a newer version, and CheckpointFormatError for damage.
    """
    version, start = split_version(data, name, "log")
    head = parse_object(data[start:], name, start)
    watermark = _integer(head, "nextBatchWatermarkMs", name, start)
    return CommitEntry(version, watermark, _state_ids(head, name, start))


def _state_ids(head: Mapping[str, Any], name: str, start: int) -> dict[int, StateIds]:
    try:
        return {
            int(operator): tuple(tuple(_text(i) for i in stores) for stores in partitions)
            for operator, partitions in (head.get("stateUniqueIds") or {}).items()
        }
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        reason = "stateUniqueIds has an unknown form"
        raise CheckpointFormatError(name, start, reason) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def parse_query_id(data: bytes, name: str = METADATA) -> str:
    """Return the query's id from the file ``metadata``.

    Raises CheckpointFormatError if it is damaged, or has no id.
    """
    if not data:
        raise CheckpointFormatError(name, 0, "the file ends too early: it is empty")
    query_id = parse_object(data, name).get("id")
    if not isinstance(query_id, str) or not query_id:
        raise CheckpointFormatError(name, 0, "it has no query id")
    return query_id
