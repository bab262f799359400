"""Rewrite log entries and ``metadata`` for another checkpoint or other state, or create them.

A rewrite leaves everything else as Spark wrote it, unknown keys included. All functions that
rewrite raise CheckpointFormatError for bytes that are not a log entry or a ``metadata`` file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.checkpoint.format.logs import (
    NO_OFFSET,
    StateIds,
    parse_commit,
    parse_offsets,
    parse_query_id,
)
from flinkish.checkpoint.format.names import METADATA
from flinkish.checkpoint.format.text import json_bytes, parse_json

_IDS = "stateUniqueIds"


@dataclass(frozen=True)
class LogLine:
    """One source's line in an offset log entry; only version 2 writes the name."""

    name: str
    offset: str


def with_query_id(data: bytes, name: str = METADATA, *, query_id: str) -> bytes:
    """Rewrite Spark's ``metadata`` file with another query id."""
    parse_query_id(data, name)
    content = parse_json(data)
    content["id"] = query_id
    return json_bytes(content)


def empty_offsets(pins: Mapping[str, str], sources: int, timestamp_ms: int) -> bytes:
    """Return the offset log entry of a batch in which no source was read (version 1)."""
    header = {"batchWatermarkMs": 0, "batchTimestampMs": timestamp_ms, "conf": dict(pins)}
    return b"\n".join([b"v1", json_bytes(header), *[NO_OFFSET.encode()] * sources])


def empty_commit() -> bytes:
    """Return the commit log entry of a batch without a watermark or state (version 1)."""
    return b"v1\n" + json_bytes({"nextBatchWatermarkMs": 0})


def new_metadata(query_id: str) -> bytes:
    """Return the file ``metadata`` of a query."""
    return json_bytes({"id": query_id})


def with_pins(data: bytes, name: str, *, pins: Mapping[str, str]) -> bytes:
    """Rewrite an entry of the offset log with other values of pinned settings."""
    parse_offsets(data, name)
    if not pins:
        return data
    head, header, *lines = data.split(b"\n")
    content = _content(header)
    content["conf"] = {**content.get("conf", {}), **pins}
    return b"\n".join([head, json_bytes(content), *lines])


def with_lines(data: bytes, name: str, *, watermark_ms: int, lines: Sequence[LogLine]) -> bytes:
    """Rewrite an offset log entry with another watermark and other lines of sources.

    The pins stay. Version 1 identifies a line by its position, version 2 (``name:offset``) by its
    name, and there a source without an offset has no line.
    """
    version = parse_offsets(data, name).version
    head, line, *_ = data.split(b"\n")
    header = _content(line)
    header["batchWatermarkMs"] = watermark_ms
    if version == 1:
        written = [line.offset for line in lines]
        return b"\n".join([head, json_bytes(header), *map(str.encode, written)])
    offsets = {line.name: line.offset for line in lines if line.offset != NO_OFFSET}
    metadata = header.get("sourceMetadataInfo")
    if isinstance(metadata, dict):
        header["sourceMetadataInfo"] = {k: v for k, v in metadata.items() if k in offsets}
    named = [f"{source}:{offset}".encode() for source, offset in offsets.items()]
    return b"\n".join([head, json_bytes(header), *named])


def with_commit(
    data: bytes, name: str, *, watermark_ms: int, state_ids: Mapping[int, StateIds]
) -> bytes:
    """Rewrite a commit log entry with another watermark and, in version 2, other state file ids."""
    version = parse_commit(data, name).version
    head, _, body = data.partition(b"\n")
    content = _content(body)
    content["nextBatchWatermarkMs"] = watermark_ms
    if version >= 2:
        content[_IDS] = _listed(state_ids)
    return head + b"\n" + json_bytes(content)


def with_state_ids(data: bytes, name: str, *, ids: Mapping[int, StateIds] | None) -> bytes:
    """Rewrite an entry of the commit log with the unique ids of new state files.

    ``ids`` are by operator; None for state of checkpoint format 1, whose files have no ids: the
    entry becomes one of version 1.
    """
    parse_commit(data, name)
    head, _, body = data.partition(b"\n")
    content = _content(body)
    if ids is None:
        content.pop(_IDS, None)
        return b"v1\n" + json_bytes(content) if head != b"v1" else data
    content[_IDS] = _listed(ids)
    return b"v2\n" + json_bytes(content)


def _content(text: bytes | str) -> dict[str, Any]:
    """Return the object of a line that has been parsed before; an empty one for an empty line."""
    content: dict[str, Any] = parse_json(text) if text.strip() else {}
    return content


def _listed(ids: Mapping[int, StateIds]) -> dict[str, list[list[str]]]:
    return {str(operator): [list(p) for p in ids[operator]] for operator in sorted(ids)}
