"""Spark's checkpoint format stands in one place, and that place reads what real Sparks wrote."""

from __future__ import annotations

from pathlib import Path

import flinkish
from flinkish.checkpoint.format.log_rewrites import (
    LogLine,
    with_commit,
    with_lines,
    with_pins,
    with_query_id,
    with_state_ids,
)
from flinkish.checkpoint.format.logs import parse_commit, parse_offsets, parse_query_id
from flinkish.checkpoint.format.pins import PIN_CODEC, pinned, pinned_partitions

PACKAGE = Path(flinkish.__file__).parent
#: Keys that only Spark's own JSON files have.
KEYS = (
    *("batchWatermarkMs", "batchTimestampMs", "sourceMetadataInfo", "nextBatchWatermarkMs"),
    *("stateUniqueIds", "operatorInfo", "stateStoreInfo", "stateSchemaFilePaths"),
    *("operatorPropertiesJson", "dfsSstFileName", "columnFamilyMapping", "checkpointUniqueId"),
)


def test_no_other_module_knows_the_keys_of_sparks_files() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "format"
        if any(f'"{key}"' in path.read_text(encoding="utf-8") for key in KEYS)
    }
    assert found == {"driver/plan/pinned_planning.py"}  # which makes a log for Spark itself to read


def test_logs_of_real_runs_are_written_as_they_were(recorded: Path) -> None:
    """What does not change is the same bytes again, whichever function writes it."""
    seen = 0
    for path in sorted((recorded / "offsets").glob("[0-9]*")):
        data, name = path.read_bytes(), f"offsets/{path.name}"
        entry = parse_offsets(data, name)
        lines = [LogLine(*pair) for pair in zip(entry.sources, entry.offsets, strict=True)]
        assert with_lines(data, name, watermark_ms=entry.watermark_ms, lines=lines) == data
        assert with_pins(data, name, pins=entry.pins) == data
        assert pinned(entry.pins, PIN_CODEC) == "lz4"
        assert pinned_partitions(entry.pins) == 2
        seen += 1
    for path in sorted((recorded / "commits").glob("[0-9]*")):
        data, name = path.read_bytes(), f"commits/{path.name}"
        commit = parse_commit(data, name)
        same = commit.next_watermark_ms
        assert with_commit(data, name, watermark_ms=same, state_ids=commit.state_ids) == data
        assert with_state_ids(data, name, ids=commit.state_ids or None) == data
        assert (commit.version == 2) == bool(commit.state_ids)
        seen += 1
    data = (recorded / "metadata").read_bytes()
    assert with_query_id(data, query_id=parse_query_id(data)) == data
    assert seen > 4
