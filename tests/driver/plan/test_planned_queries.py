"""What a starting query is to others: its sink by the format that Spark would use."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.driver.connectors.sinks import open_table, resolve
from flinkish.driver.connectors.table import SinkPlace
from flinkish.driver.plan.plan_extraction import PlannedQuery, PlannedSource
from flinkish.driver.plan.planned_queries import empty_states, new_sink, source_records
from flinkish.driver.plan.writer_settings import Output, WriterFacts, output_of
from flinkish.operators.identity import UNKNOWN, PlannedNode
from flinkish.restore.origin.restore_origin import saved_sources
from flinkish.savepoint.format.contents import QueryRecord

_SQL = "org.apache.spark.sql"


@pytest.mark.parametrize(
    ("given", "default", "format", "output"),
    [
        (None, "parquet", "parquet", Output("/out", False, "/out")),
        (None, "delta", "delta", Output("/out", True, "/out")),
        ("csv", "delta", "csv", Output("/out", False, "/out")),
        (
            f"{_SQL}.execution.datasources.orc.OrcFileFormat",
            "delta",
            "orc",
            Output("/out", False, "/out"),
        ),
        (f"{_SQL}.delta.sources.DeltaDataSource", "parquet", "delta", Output("/out", True, "/out")),
        ("com.databricks.spark.csv", "parquet", "csv", Output("/out", False, "/out")),
        (f"{_SQL}.kafka010.KafkaSourceProvider", "parquet", "kafka", None),
        ("org.acme.json.Sink", "parquet", "org.acme.json.Sink", None),
    ],
)
def test_a_sink_has_the_format_that_spark_would_use(
    given: str | None, default: str, format: str, output: Output | None
) -> None:
    """By which its batches, its claim and its table are found, and what a savepoint records."""
    hadoop = SimpleNamespace(get=lambda _: "file:///")
    session = SimpleNamespace(
        conf=SimpleNamespace(get=lambda _key, _default=None: default),
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop),
        _jsparkSession=None,
        _jvm=None,
    )
    facts = WriterFacts(format=given, path="/out")
    sink = new_sink(facts, session)
    assert (sink.format, sink.path) == (format, "/out")
    assert output_of(sink, session) == output
    assert sink.place == (None if output is None else output.place)
    assert facts.describe_sink(session)["format"] == format
    for place in (SinkPlace(sink.format, sink.path), resolve(facts.place, session)):
        assert (open_table(place, session) is not None) is (format == "delta")


def test_a_savepoint_has_the_options_of_a_file_source_that_decide_which_files_wait() -> None:
    given = {"maxFilesPerTrigger": "1", "latestFirst": "true", "path": "/in", "header": "true"}
    given["sourceArchiveDir"] = "s3a://key:hush@b/old/"
    sources = (
        PlannedSource(0, "0", 0, UNKNOWN, "file[/in]", (), given),
        PlannedSource(1, "1", 1, UNKNOWN, "kafka[subscribe=t]", (), {"subscribe": "t"}),
    )
    planned = SimpleNamespace(sources=sources, operators=())
    records = source_records(cast("PlannedQuery", planned), [])
    saved = SimpleNamespace(name="q", source=records, offsets=("1", "2"))
    file, kafka = saved_sources(cast("QueryRecord", saved)) or ()
    assert file.options == {
        "latestfirst": "true",
        "maxfilespertrigger": "1",
        "sourcearchivedir": "s3a://b/old",
    }
    assert kafka.options is None
    for wrong in ([1, 2], [{"signature": "x"}] * 2, [{**records[0], "inputs": "ab"}] * 2):
        damaged = SimpleNamespace(name="q", source=wrong, offsets=("1", "2"))
        assert saved_sources(cast("QueryRecord", damaged)) is None
    for name in ("signature", "uid"):
        damaged.source = [{**records[0], name: [1]}] * 2
        assert saved_sources(cast("QueryRecord", damaged)) is None
    records[0]["options"] = ["damaged"]
    assert (saved_sources(cast("QueryRecord", saved)) or ())[0].options is None


@pytest.mark.parametrize("fields", [[], [{"name": "k", "type": "string"}]])
def test_empty_state_says_whether_its_operator_has_keys(fields: list[dict[str, str]]) -> None:
    store = StoreInfo("default", {"type": "struct", "fields": fields}, None)
    node = PlannedNode(0, "stateStoreSave", partitions=1, stores=(store,))
    planned = cast(PlannedQuery, SimpleNamespace(operators=[SimpleNamespace(node=node)]))
    assert empty_states(planned)[0].is_keyed is bool(fields)
