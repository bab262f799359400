"""A file sink's log that lacks the batches before the query's next one: completed for Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.runtime.file_sink_log import file_sink_log_ready
from flinkish.driver.spark.settings import configured

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


def test_a_query_goes_on_at_another_place_over_two_compactions(spark: Any, tmp_path: Path) -> None:
    def run(checkpoint: str, sink: str) -> None:
        frame = spark.readStream.schema("k string").option("maxFilesPerTrigger", 1)
        writer = frame.json(str(tmp_path / "in")).coalesce(1).writeStream.queryName("q")
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer = writer.trigger(availableNow=True).format("json")
        with file_sink_log_ready(spark, "q", "json", str(tmp_path / checkpoint)):
            query = writer.start(str(tmp_path / sink))
        assert query.awaitTermination(100)

    def write(*keys: str) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        for key in keys:
            (tmp_path / "in" / f"{key}.json").write_text(f'{{"k": "{key}"}}\n')

    def rows(sink: str) -> str:
        return "".join(sorted(r.k for r in spark.read.json(str(tmp_path / sink)).collect()))

    with configured(spark, {_INTERVAL: "2"}):  # batches 1, 3 and 5 have compact entries
        write("a")
        run("another", "older")
        write("b", "c")
        run("checkpoint", "old")
        shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
        write("d", "e", "f")
        run("checkpoint", "new")
        run("copy", "older")
        assert (rows("new"), rows("older")) == ("def", "adef")
        write("g")
        run("checkpoint", "new")  # a new run, whose sink takes the interval from the log
        assert rows("new") == "defg"
    names = {path.name for path in (tmp_path / "new" / "_spark_metadata").glob("[0-9]*")}
    assert names == {"1.compact", "2", "3.compact", "4", "5.compact", "6"}
