"""What a client of Spark Connect has told its writer, read from the message that it sends."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.driver.connect import writers
from flinkish.driver.connect.writers import ServerWriter, start_through, told
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime.running_query import ManagedQuery, set_identity

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


class Query:
    """The client's handle of a query."""

    id = "id"


def test_a_query_is_started_again_as_it_was_though_its_writer_was_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would write its rows to the output of the other, and the other to its checkpoint."""
    client = pytest.importorskip("pyspark.sql.connect.streaming.readwriter")
    jsq = SimpleNamespace(runId=lambda: SimpleNamespace(toString=lambda: "run"))
    streams = SimpleNamespace(get=lambda _id: jsq)
    server = SimpleNamespace(_jsparkSession=SimpleNamespace(streams=lambda: streams), _jvm=None)
    monkeypatch.setattr(writers, "session_behind", lambda _client: server)
    sent = list[Any]()

    def send(writer: Any) -> Query:
        sent.append(commands.WriteStreamOperationStart())
        sent[-1].CopyFrom(writer._write_proto)
        return Query()

    def start(writer: Any, facts: WriterFacts, begin: Callable[[], Any]) -> ManagedQuery:
        name = str(facts.query_name)
        set_identity(writer, name, f"/{name}")
        kept = facts.copy()
        return ManagedQuery(name, False, kept, writer, begin, begin(), f"/{name}", server, "", "")

    writer = client.DataStreamWriter(None, SimpleNamespace(client=None)).queryName("a")
    one = start_through(writer, {"format": "kafka", "topic": "a"}, start, send)
    writer.queryName("b").trigger(availableNow=True).option("header", "yes")
    two = start_through(writer, {"path": "/out", "format": "csv", "topic": "b"}, start, send)
    for query in (one, two):
        query.restart()
    first, second = (
        commands.WriteStreamOperationStart(
            query_name="a",
            format="kafka",
            options={"topic": "a", "checkpointLocation": "/a"},
        ),
        commands.WriteStreamOperationStart(
            query_name="b",
            format="csv",
            path="/out",
            available_now=True,
            options={"topic": "b", "header": "yes", "checkpointLocation": "/b"},
        ),
    )
    assert sent == [first, second, first, second]
    one.restart(once=True)
    assert sent[-1].once
    del second.options["checkpointLocation"]
    assert writer._write_proto == second, "the program's own has only the program's settings"


def test_what_flinkish_sets_replaces_the_option_that_the_program_spells_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server ignores the case and takes the last, and a message's map has no order."""
    client = pytest.importorskip("pyspark.sql.connect.streaming.readwriter")
    monkeypatch.setattr(writers, "session_behind", lambda _client: None)
    writer = client.DataStreamWriter(None, SimpleNamespace(client=None))
    kept = ServerWriter(writer.options(checkpointlocation="/own", path="/out"))
    kept.option("checkpointLocation", "/restored")
    assert dict(kept._writer._write_proto.options) == {
        "checkpointLocation": "/restored",
        "path": "/out",
    }
