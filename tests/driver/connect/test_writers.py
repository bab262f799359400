"""What a client of Spark Connect has told its writer, read from the message that it sends."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.driver.connect.writers import told
from flinkish.driver.plan.writer_settings import WriterFacts

commands = pytest.importorskip("pyspark.sql.connect.proto", reason="needs Spark Connect's packages")


@pytest.mark.parametrize(
    ("asked", "facts"),
    [
        ({}, WriterFacts()),
        (
            {
                "format": "parquet",
                "output_mode": "Append",
                "query_name": "counts",
                "options": {"checkpointLocation": "/ck", "Path": "/elsewhere"},
                "path": "/out",
                "processing_time_interval": "10 seconds",
            },
            WriterFacts(
                query_name="counts",
                format="parquet",
                output_mode="append",
                trigger={"processingTime": "10 seconds"},
                options={"checkpointlocation": "/ck", "path": "/elsewhere"},
                path="/out",
            ),
        ),
        (
            {"table_name": "a.b", "available_now": True},
            WriterFacts(table="a.b", trigger={"availableNow": True}),
        ),
        ({"once": True}, WriterFacts(trigger={"once": True})),
        (
            {"continuous_checkpoint_interval": "1 second"},
            WriterFacts(trigger={"continuous": "1 second"}),
        ),
        (
            {"foreach_batch": {"python_function": {"python_ver": "3.11"}}},
            WriterFacts(format="foreachBatch"),
        ),
        (
            {"foreach_writer": {"python_function": {"python_ver": "3.11"}}},
            WriterFacts(format="foreach"),
        ),
    ],
)
def test_the_message_says_it_all(asked: dict[str, Any], facts: WriterFacts) -> None:
    assert told(commands.WriteStreamOperationStart(**asked)) == facts
