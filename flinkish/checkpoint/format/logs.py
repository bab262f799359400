"""Parse entries of the offset log and the commit log, and the file ``metadata``.

Spark's ``OffsetSeqLog`` (``v1``, ``v2``), ``CommitLog`` (``v1``, ``v2``) and ``StreamMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.names import METADATA, parse_number
from flinkish.checkpoint.format.text import parse_json, parse_object, split_version

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

    Every source has a line, and no line is empty. A source defines the content of its offset, but
    ``Offset.json`` requires JSON: a line that begins as JSON must be valid JSON. A truncated file
    is thus detected, unless whole lines are left, or the beginning of a number.

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
        raise CheckpointFormatError(name, 0, "it names no query id")
    return query_id
