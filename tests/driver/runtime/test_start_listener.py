"""The moment a query starts, also one whose thread has job tags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.runtime.start_listener import at_start

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_query_whose_thread_has_job_tags(spark: Any, tmp_path: Path) -> None:
    seen: list[str] = []
    (tmp_path / "in").mkdir()
    frame = spark.readStream.schema("k string").json(str(tmp_path / "in"))
    writer = frame.writeStream.format("noop").trigger(availableNow=True).queryName("tagged")
    spark.sparkContext.addJobTag("nightly")
    try:
        with at_start(spark, "tagged", lambda jsq: seen.append(str(jsq.id().toString()))):
            query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(100)
    finally:
        spark.sparkContext.clearJobTags()
    assert seen == [str(query.id)]
