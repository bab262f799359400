"""A file sink's log that lacks the batches before the query's next one: completed for Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.spark.jvm import configured
from flinkish.messages.launch import RestoreSpec
from flinkish.registry.jobs import JobState
from tests.support.driver.in_process_job import InProcessJob

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_restore_writes_to_another_place_over_two_compactions(
    spark: Any, new_job: Callable[..., InProcessJob], tmp_path: Path
) -> None:
    """A new place, and one with an older log that ends before the savepoint's batch."""

    def start(sink: str, checkpoint: str | None = None) -> Any:
        frame = spark.readStream.schema("k string").option("maxFilesPerTrigger", 1)
        writer = frame.json(str(tmp_path / "in")).coalesce(1).writeStream.queryName("q")
        if checkpoint is not None:
            writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        return writer.trigger(availableNow=True).format("json").start(str(tmp_path / sink))

    def restored(sink: str) -> None:
        job = new_job(restore=RestoreSpec(str(tmp_path / "plain")))
        assert job.start(lambda: start(sink).awaitTermination()).wait().state is JobState.FINISHED

    def write(*keys: str) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        for key in keys:
            (tmp_path / "in" / f"{key}.json").write_text(f'{{"k": "{key}"}}\n')

    def rows(sink: str) -> str:
        return "".join(sorted(r.k for r in spark.read.json(str(tmp_path / sink)).collect()))

    interval = {"spark.sql.streaming.fileSink.log.compactInterval": "2"}
    with configured(spark, interval):  # batches 1, 3 and 5 have compact entries
        write("a")
        assert start("older", "another").awaitTermination(100)
        write("b", "c")
        assert start("old", "plain").awaitTermination(100)
        write("d", "e", "f")
        restored("older")
        restored("new")
        assert (rows("new"), rows("older")) == ("def", "adef")
    names = {path.name for path in (tmp_path / "new" / "_spark_metadata").glob("[0-9]*")}
    assert names == {"1.compact", "2", "3.compact", "4", "5.compact"}
