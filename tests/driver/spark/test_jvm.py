"""What the JVM says of a query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
