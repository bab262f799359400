"""Writers and queries of Spark Connect whose server is in this process, seen as classic ones.

The server makes the plan of a query from the client's description. :class:`ServerWriter` makes
the same plan before the query starts, so that flinkish can read it. The client's own command starts
the query, which is then found in the server's session by its id.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from flinkish.driver.connect.server import holder_of, session_behind
from flinkish.driver.plan.writer_settings import WriterFacts, facts_of

#: The arguments of ``DataStreamWriter.trigger`` by the fields of ``WriteStreamOperationStart``.
_TRIGGERS = {
    "processing_time_interval": "processingTime",
    "available_now": "availableNow",
    "once": "once",
    "continuous_checkpoint_interval": "continuous",
    "real_time_batch_duration": "realTime",
}


class ServerWriter:
    """A client's ``DataStreamWriter`` with the members of a classic writer that flinkish uses.

    It keeps a copy of the client's writer, for one query and its restarts. The program may use the
    client's writer for another query, which must not get what flinkish sets for this one.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = type(writer)(writer._write_stream._child, writer._session)
        self._writer._write_proto.CopyFrom(writer._write_proto)
        self._spark = session_behind(writer._session.client)
        self.__dict__["_flinkish_facts"] = told(writer._write_proto)

    @functools.cached_property
    def _df(self) -> Any:
        """The DataFrame that is written, as the server plans it."""
        from pyspark.sql import DataFrame

        client, jvm = self._writer._session.client, self._spark._jvm
        described = self._writer._write_stream.command(client).write_stream_operation_start.input
        relation = jvm.org.apache.spark.connect.proto.Relation.parseFrom(
            described.SerializeToString()
        )
        planner = jvm.org.apache.spark.sql.connect.planner.SparkConnectPlanner(
            holder_of(client), jvm.scala.Option.empty()
        )
        plan = planner.transformRelation(relation)
        frame = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, plan)
        return DataFrame(frame, self._spark)

    @property
    def _jwrite(self) -> Any:
        """The JVM's writer of the same DataFrame, for a query that flinkish starts on its own."""
        writer = self._df.writeStream
        mode = facts_of(self).output_mode
        return (writer if mode is None else writer.outputMode(mode))._jwrite

    def queryName(self, name: str) -> None:
        """Set the name of the query."""
        self._writer.queryName(name)

    def option(self, key: str, value: str) -> None:
        """Set an option of the query, however the program spells it."""
        options = self._writer._write_proto.options
        # The server ignores the case of a key and takes the last; the map's order is random.
        for same in [each for each in options if each.lower() == key.lower()]:
            del options[same]
        self._writer.option(key, value)

    def only_once(self) -> None:
        """Let the next start of the query run a single batch."""
        self._writer.trigger(once=True)


def start_through(
    writer: Any,
    asked: Mapping[str, Any],
    start: Callable[[Any, WriterFacts, Callable[[], Any]], Any],
    begin: Callable[[Any], Any],
) -> Any:
    """Start the query of a client's writer by calling ``start``, a method of the runtime.

    ``asked`` are the arguments of ``DataStreamWriter.start`` or ``toTable``. ``begin`` sends the
    client's own command for the writer that it gets, which is a copy.
    """
    _tell(writer, **asked)
    server = ServerWriter(writer)
    return start(server, facts_of(server), lambda: served(begin(server._writer), server._spark))


def _tell(
    writer: Any,
    *,
    path: str | None = None,
    tableName: str | None = None,
    format: str | None = None,  # PySpark's own parameter name
    outputMode: str | None = None,
    partitionBy: Any = None,
    queryName: str | None = None,
    **options: Any,
) -> None:
    """Set on a writer what the program has passed to ``start`` or ``toTable``."""
    writer.options(**options)
    for tell, value in (
        (writer.outputMode, outputMode),
        (writer.partitionBy, partitionBy),
        (writer.format, format),
        (writer.queryName, queryName),
    ):
        if value is not None:
            tell(value)
    if path:
        writer._write_proto.path = path
    if tableName:
        writer._write_proto.table_name = tableName


def served(query: Any, session: Any) -> Any:
    """Return a client's query with the JVM's query as ``_jsq``, which gives it the run id.

    ``session`` is the classic session behind the client's session.
    """
    query._jsq = session._jsparkSession.streams().get(query.id)
    kind: Any = type(query)
    query.__class__ = _served_class(kind)
    return query


def is_served(query: Any) -> bool:
    """Return whether a client's query has the JVM's query, which is looked up if needed."""
    if not hasattr(query, "_jsq"):
        session = session_behind(query._session.client)
        if session._jsparkSession.streams().get(query.id) is None:  # it has ended
            return False
        served(query, session)
    return True


@functools.cache
def _served_class(plain: Any) -> Any:
    return type(plain.__name__, (plain,), {"_run_id": property(_run_id, lambda query, value: None)})


def _run_id(query: Any) -> str:
    return str(query._jsq.runId().toString())


def told(asked: Any) -> WriterFacts:
    """Return what a client has set on its writer (``WriteStreamOperationStart``)."""
    kind = asked.WhichOneof("trigger")
    target = asked.WhichOneof("sink_destination")
    facts = WriterFacts(
        query_name=asked.query_name or None,
        format=asked.format or None,
        output_mode=asked.output_mode.lower() or None,
        trigger={} if kind is None else {_TRIGGERS[kind]: getattr(asked, kind)},
        options={key.lower(): value for key, value in asked.options.items()},
        path=asked.path if target == "path" else None,
        table=asked.table_name if target == "table_name" else None,
    )
    for name in ("foreach_writer", "foreach_batch"):
        if asked.HasField(name):
            facts.format = {"foreach_writer": "foreach", "foreach_batch": "foreachBatch"}[name]
    return facts
