"""The input and the queries of a test that changes a query's checkpoint between its runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flinkish.checkpoint.cut import read_cut
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.recipe import EmptyState, OriginCheckpoint, Recipe

SCHEMA = "k string, v long, ts timestamp"
Rows = list[tuple[Any, ...]]


def is_old(spark: Any) -> bool:
    return bool(spark.version.startswith("3."))


class World:
    """The input of one test, and its queries."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.clock = 1_700_000_000

    def write(self, stream: str, *rows: tuple[str, int, int]) -> None:
        """One more file of (k, v, second) rows; files are read in the order they are written."""
        directory = self.root / "in" / stream
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.clock}.json"
        lines = (
            json.dumps({"k": k, "v": v, "ts": f"2024-01-01T00:{s // 60:02}:{s % 60:02}"})
            for k, v, s in rows
        )
        hidden = directory / f".{self.clock}"
        hidden.write_text("\n".join(lines))
        os.utime(hidden, (self.clock, self.clock))
        hidden.rename(path)
        self.clock += 1

    def stream(self, name: str) -> Any:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.root / "in" / name))

    def batch(self, name: str, skip: int = 0) -> Any:
        """The same input without its first ``skip`` files, as a batch."""
        paths = sorted(str(p) for p in (self.root / "in" / name).iterdir())[skip:]
        return self.spark.read.schema(SCHEMA).json(paths)

    def run(
        self, frame: Any, checkpoint: str, mode: str = "append", fail_at: int | None = None
    ) -> Rows:
        """Run a query over all input that is there; its rows in order of output."""
        rows: Rows = []

        def collect(batch: Any, number: int) -> None:
            if number == fail_at:
                raise InterruptedError("as if killed")
            rows.extend(tuple(row) for row in batch.collect())

        query = (
            frame.writeStream.outputMode(mode)
            .option("checkpointLocation", str(self.root / checkpoint))
            .trigger(availableNow=True)
            .foreachBatch(collect)
            .start()
        )
        try:
            assert query.awaitTermination(100), f"{checkpoint} did not end"
            assert fail_at is None, "the query did not come to that batch"
        except Exception as error:
            if fail_at is None or "as if killed" not in str(error):
                raise
        return rows

    def origin(self, checkpoint: str) -> OriginCheckpoint:
        cut = read_cut(str(self.root / checkpoint))
        return OriginCheckpoint(cut.root, tuple(cut.files), cut.batch_id)

    def make(self, target: str, *origins: str, **recipe: Any) -> str:
        made = Recipe(tuple(self.origin(name) for name in origins), **recipe)
        make_checkpoint(made, str(self.root / target))
        assert read_cut(str(self.root / target)).batch_id == made.batch_id
        return target

    def planned_files(self, frame: Any, ordinal: int, mode: str) -> Mapping[str, bytes] | None:
        """What Spark 4.x writes for an operator when it plans it: from a run in a scratch place."""
        if is_old(self.spark):
            return None
        scratch = self.root / f"scratch{self.clock}"
        self.clock += 1
        self.run(frame, scratch.name, mode)
        operator = scratch / "state" / str(ordinal)
        return {
            path.relative_to(operator).as_posix(): path.read_bytes()
            for path in operator.rglob("*")
            if path.is_file()
            and not path.name.startswith(".")
            and {"_metadata", "_stateSchema"} & set(path.parts)
        }

    def empty(
        self,
        frame: Any,
        ordinal: int,
        *,
        mode: str = "append",
        partitions: int = 2,
        stores: tuple[str, ...] = ("default",),
    ) -> EmptyState:
        return EmptyState(partitions, stores, self.planned_files(frame, ordinal, mode))
