"""What a real run leaves in its checkpoint, to compare plans with."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkish.checkpoint.format.logs import parse_offsets
from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.checkpoint.operators import StateOnDisk, read_operator
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.spark.jvm import last_progress

_PLACE = re.compile(r'file:[^"]*?/state/')
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class RealRun:
    """A checkpoint after one batch, and its operators by ordinal."""

    directory: Path
    operators: dict[int, StateOnDisk]


def really_run(df: Any, mode: str, directory: Path) -> RealRun:
    """Run one batch for real."""
    writer = df.writeStream.format("noop").outputMode(mode).trigger(once=True)
    query = writer.option("checkpointLocation", f"file://{directory}").start()
    try:
        assert query.awaitTermination(120)
        progress = last_progress(query._jsq)
    finally:
        query.stop()
    pins = parse_offsets((directory / "offsets/0").read_bytes(), "offsets/0").pins
    found: dict[int, StateOnDisk] = {}
    for name in sorted(os.listdir(directory / "state"), key=int):
        read = read_operator(str(directory), int(name), version=1, pins=pins, state_ids=None)
        assert read is not None
        found[int(name)] = read[0]
    assert progress is not None
    assert len(progress["stateOperators"]) == len(found)
    return RealRun(directory, found)


def compare(planned: PlannedQuery, real: RealRun) -> None:
    """Check ordinals, kinds, partitions, schemas and (4.x) files of a plan."""
    assert [op.node.ordinal for op in planned.operators] == list(real.operators)
    for mine in (operator.node for operator in planned.operators):
        theirs = real.operators[mine.ordinal]
        assert theirs.kind in (None, mine.kind)  # Spark 3.5 does not note it
        assert mine.partitions == theirs.partitions
        assert _schemas(mine.stores, theirs.kind) == _schemas(theirs.stores, theirs.kind)
        if theirs.kind is None:
            assert mine.files == {}
        else:
            written = _written(real.directory / "state" / str(mine.ordinal))
            assert _comparable(mine.files) == _comparable(written)


def _written(directory: Path) -> dict[str, bytes]:
    """Metadata and schemas below ``state/<ordinal>``."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
        and {"_metadata", "_stateSchema"} & set(path.parts)
        and path.suffix != ".crc"
    }


def _comparable(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Files of two runs differ in where they were written, and in the names of schema files."""
    return {
        _ID.sub("<id>", path): _ID.sub(
            "<id>", _PLACE.sub("file:/state/", data.decode("latin-1"))
        ).encode("latin-1")
        for path, data in files.items()
    }


def _schemas(stores: tuple[StoreInfo, ...], noted_kind: str | None) -> dict[str, Any]:
    """Schemas by store. Spark 3.5 takes them from what runs: a real scan that has dropped columns
    knows better than a planned one what cannot be null."""
    text = json.dumps({s.name: (s.key_schema, s.value_schema) for s in stores}, sort_keys=True)
    if noted_kind is None:
        text = text.replace('"nullable": false', '"nullable": true')
    found: dict[str, Any] = json.loads(text)
    return found
