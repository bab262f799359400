"""Spark's small text files, rewritten for another checkpoint. Nothing here touches a disk.

Knowledge from Spark's ``StreamMetadata``, ``OffsetSeqLog``, ``CommitLog`` and
``OperatorStateMetadata``. What is not to change stays as Spark wrote it, unknown keys included.
All functions raise :class:`~flinkish.checkpoint.layout.LogFormatError` (a ValueError) for bytes
that are not such a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.checkpoint import layout

_STATE_MARK = f"/{layout.STATE}/"
_SCHEMA_KEY = "stateSchemaFilePaths"

#: The unique ids of an operator's state files: for each partition, one for each store.
StateIds = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Line:
    """One source's line in an offset log entry; the name is written in version 2 only."""

    name: str
    offset: str


def with_query_id(data: bytes, query_id: str) -> bytes:
    """Spark's ``metadata`` file with another query id."""
    layout.parse_query_id(data)
    content = json.loads(data)
    content["id"] = query_id
    return _json(content).encode()


def with_pins(data: bytes, pins: Mapping[str, str]) -> bytes:
    """An entry of the offset log with other values of pinned settings."""
    layout.parse_offsets(data)
    head, header, *lines = data.split(b"\n")
    content = json.loads(header)
    content["conf"] = {**content.get("conf", {}), **pins}
    return b"\n".join([head, _json(content).encode(), *lines])


def with_operator(data: bytes, root: str, ordinal: int) -> bytes | None:
    """Operator metadata (v1 or v2) for the operator ``ordinal`` of the checkpoint at ``root``.

    Its schema locations (v2) are absolute: Spark would follow them back to the old checkpoint.
    Their form (``file:/p``, ``file:///p`` or plain) stays as Spark wrote it. Returns None when
    there is nothing to change.
    """
    changed = layout.parse_operator_metadata(data).operator_id != ordinal
    head, _, body = data.decode("utf-8").partition("\n")
    content = json.loads(body)
    content["operatorInfo"]["operatorId"] = ordinal
    for store in content["stateStoreInfo"]:
        locations = store.get(_SCHEMA_KEY)
        if locations:
            store[_SCHEMA_KEY] = [moved_location(old, root, ordinal) for old in locations]
            changed = True
    return f"{head}\n{_json(content)}".encode() if changed else None


def moved_location(location: str, root: str, ordinal: int) -> str:
    """``file:/old/state/0/_stateSchema/...`` for ``state/<ordinal>`` of the checkpoint ``root``.

    ``root`` is a local path or a URL as Spark knows it.
    """
    before, mark, after = location.rpartition(_STATE_MARK)
    _, slash, rest = after.partition("/")
    if not mark or not slash:
        raise layout.LogFormatError(f"{location} lies in no state directory")
    moved = f"{root}{_STATE_MARK}{ordinal}/{rest}"
    scheme, colon, path = before.partition(":")
    if "://" in root or not colon or "/" in scheme:
        return moved
    if scheme != "file":  # from another storage
        return f"file:{moved}"
    return f"{scheme}:{'//' if path.startswith('//') else ''}{moved}"


def with_lines(data: bytes, watermark_ms: int, lines: Sequence[Line]) -> bytes:
    """An offset log entry with another watermark and other lines of sources.

    The pins stay. In version 1 a line is found by its place, in version 2 (``name:offset``) by
    its name, and a source without position has no line.
    """
    version = layout.parse_offsets(data).version
    head, rest = data.decode("utf-8").split("\n", 1)
    header: dict[str, Any] = json.loads(rest.split("\n", 1)[0] or "{}")
    header["batchWatermarkMs"] = watermark_ms
    if version == 1:
        return "\n".join([head, _json(header), *(line.offset for line in lines)]).encode()
    offsets = {line.name: line.offset for line in lines if line.offset != layout.NO_OFFSET}
    known = header.get("sourceMetadataInfo")
    if isinstance(known, dict):
        header["sourceMetadataInfo"] = {k: v for k, v in known.items() if k in offsets}
    named = [f"{name}:{offset}" for name, offset in offsets.items()]
    return "\n".join([head, _json(header), *named]).encode()


def with_commit(data: bytes, watermark_ms: int, state_ids: Mapping[int, StateIds]) -> bytes:
    """A commit log entry with another next watermark, and (version 2) other ids of state files."""
    version = layout.parse_commit(data).version
    head, _, body = data.decode("utf-8").partition("\n")
    content: dict[str, Any] = json.loads(body.strip() or "{}")
    content["nextBatchWatermarkMs"] = watermark_ms
    if version >= 2:
        content["stateUniqueIds"] = {str(op): state_ids[op] for op in sorted(state_ids)}
    return f"{head}\n{_json(content)}".encode()


def combined_watermark(watermarks: Sequence[int], policy: str | None) -> int:
    """The watermark of a query made of several, as Spark's ``MultipleWatermarkPolicy`` has it.

    ``policy`` is the pinned ``spark.sql.streaming.multipleWatermarkPolicy``: the slowest part
    counts (``min``, also when it is not pinned), or the fastest (``max``). 0 without any.
    """
    pick = max if (policy or "").lower() == "max" else min
    return pick(watermarks, default=0)


def _json(content: object) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
