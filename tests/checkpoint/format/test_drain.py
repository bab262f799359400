"""The entry that drains a query, of entries that Spark wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.checkpoint.format.drain import MAX_WATERMARK_MS, drained_entry
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.logs import parse_offsets
from tests.support.checkpoints.recorded import NAMES, unpack


@pytest.mark.parametrize("name", NAMES)
def test_only_the_watermark_changes(tmp_path: Path, name: str) -> None:
    offsets = unpack(name, tmp_path) / "offsets"
    newest = max(offsets.glob("[0-9]*"), key=lambda path: int(path.name))
    data = newest.read_bytes()
    found = drained_entry(data, "offsets/1")
    before, after = parse_offsets(data, "a"), parse_offsets(found, "b")
    assert after == replace(before, watermark_ms=MAX_WATERMARK_MS)
    heads = [json.loads(text.split(b"\n")[1]) for text in (data, found)]
    assert {**heads[0], "batchWatermarkMs": MAX_WATERMARK_MS} == heads[1]
    assert data.split(b"\n")[2:] == found.split(b"\n")[2:]


def test_the_maximum_fits_microseconds() -> None:
    assert MAX_WATERMARK_MS * 1000 < 2**63 <= (MAX_WATERMARK_MS + 1) * 1000


@pytest.mark.parametrize("data", [b"", b"v1\n\n{}", b"v1\n{", b"v9\n{}\n{}"])
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointFormatError):
        drained_entry(data, "offsets/1")
