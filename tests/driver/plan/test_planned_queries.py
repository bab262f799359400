"""What a starting query is to others: its sink by the format that Spark would use."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flinkish.driver.plan.outputs import Output, output_of
from flinkish.driver.plan.planned_queries import new_sink
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.tables.sink_tables import SinkPlace, open_table

_SQL = "org.apache.spark.sql"


@pytest.mark.parametrize(
    ("given", "default", "format", "output"),
    [
        (None, "parquet", "parquet", Output("/out", False)),
        (None, "delta", "delta", Output("/out", True)),
        ("csv", "delta", "csv", Output("/out", False)),
        (f"{_SQL}.execution.datasources.orc.OrcFileFormat", "delta", "orc", Output("/out", False)),
        (f"{_SQL}.delta.sources.DeltaDataSource", "parquet", "delta", Output("/out", True)),
        ("com.databricks.spark.csv", "parquet", "csv", Output("/out", False)),
        (f"{_SQL}.kafka010.KafkaSourceProvider", "parquet", "kafka", None),
        ("org.acme.json.Sink", "parquet", "org.acme.json.Sink", None),
    ],
)
def test_a_sink_has_the_format_that_spark_would_use(
    given: str | None, default: str, format: str, output: Output | None
) -> None:
    """By which its batches, its claim and its table are found: one for all three."""
    hadoop = SimpleNamespace(get=lambda _: "file:///")
    session = SimpleNamespace(
        conf=SimpleNamespace(get=lambda _key, _default=None: default),
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop),
        _jsparkSession=None,
        _jvm=None,
    )
    sink = new_sink(WriterFacts(format=given, path="/out"), session)
    assert (sink.format, sink.path) == (format, "/out")
    assert output_of(sink, session) == output
    table = open_table(SinkPlace(sink.format, sink.path), session)
    assert (table is not None) is (format == "delta")
