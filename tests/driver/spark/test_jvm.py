"""What the JVM says of a query."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from flinkish.driver.script import reason
from flinkish.driver.spark import jvm

pytestmark = pytest.mark.spark


def test_the_error_of_a_query_that_writes_files_has_its_root_cause(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"id": 7}')
    rows = spark.readStream.schema("id long").json(str(tmp_path / "in"))
    checked = rows.selectExpr("if(id > 0, raise_error(concat(id, ' is too much')), id) AS id")
    writer = checked.writeStream.format("json").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    with pytest.raises(Exception, match=r"TASK_WRITE_FAILED|Task failed while writing|too much"):
        query.awaitTermination()
    error = jvm.error_of(query._jsq)
    assert error is not None
    assert "7 is too much" in reason(error)


@pytest.mark.parametrize("fails", [True, False])
def test_an_ended_query_of_the_program_is_kept(spark: Any, tmp_path: Path, fails: bool) -> None:
    def run(name: str, value: str) -> None:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        writer = rows.selectExpr(value).writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / name)).start()
        while query.isActive:
            time.sleep(0.01)

    spark.streams.resetTerminated()
    forget = jvm.forgetting_ends([spark])
    run("first", "raise_error('broken') as a" if fails else "1 as a")
    kept = jvm.forgetting_ends([spark])
    kept()
    if fails:
        with pytest.raises(StreamingQueryException):
            spark.streams.awaitAnyTermination(1)
    else:
        assert spark.streams.awaitAnyTermination(1)
    forget()
    assert not spark.streams.awaitAnyTermination(1)
