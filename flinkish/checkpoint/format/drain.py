"""The batch that drains a query: the same offsets again, with the watermark at its maximum. Pure.

Spark runs a batch that is in the offset log and not in the commit log first, from the log alone.
One that repeats the offsets of the batch before has no input; with the greatest watermark it emits
and removes all that waits for the watermark: windows, sessions, rows of outer joins, event-time
timers.
"""

from __future__ import annotations

import json
from typing import Final

from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.logs import parse_offsets
from flinkish.checkpoint.format.text import split_version

#: Milliseconds since the epoch: the largest whose microseconds Spark can still keep (Flink's
#: MAX_WATERMARK).
MAX_WATERMARK_MS: Final = 9_223_372_036_854_775


def drained_entry(data: bytes, name: str) -> bytes:
    """Return an entry of the offset log that repeats another with the watermark at its maximum.

    ``data`` is the entry ``offsets/N``, whose batch is committed; ``name`` is for errors. Raises
    UnsupportedCheckpointFormat and CheckpointFormatError, also for an entry without metadata (Spark
    before 2.2).
    """
    parse_offsets(data, name)
    _, start = split_version(data, name, "log")
    header, newline, rest = data[start:].partition(b"\n")
    if not header.strip():
        raise CheckpointFormatError(name, start, "it has no metadata")
    head = json.loads(header)
    head["batchWatermarkMs"] = MAX_WATERMARK_MS
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    return data[:start] + text + newline + rest
