"""The streaming flows of a declarative pipeline: their plans and the places of their checkpoints.

A pipeline registers its flows with the server. When a run is requested, the server itself starts
the flows' queries, each after those whose tables it reads. flinkish knows the plans before that,
because it resolves the pipeline's graph as the run does (``PipelineExecution``, 4.1 to 4.3).

The checkpoint of a flow is ``STORAGE/_checkpoints/TABLE/FLOW/N``, in the directory with the largest
number N (``FlowSystemMetadata``). A full refresh begins a new number. So does a restore, unless
the flow has no checkpoint yet.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish import storage
from flinkish.checkpoint.discovery import PIPELINE
from flinkish.checkpoint.format.names import numbers_among
from flinkish.driver.connectors.table import first_line
from flinkish.driver.plan.writer_settings import WriterFacts, qualified
from flinkish.errors import ProgramFailed
from flinkish.launch.tracebacks import java_cause
from flinkish.restore.materialize.new_checkpoint import is_taken

#: In the class names of flows that apply a change feed to a table, which write with foreachBatch.
_CHANGES = "AutoCdc"


@dataclass(frozen=True)
class Flow:
    """A streaming flow of a pipeline.

    ``name`` is the name of its query. ``writer`` is a classic session's writer of the flow's plan;
    it is never started. ``facts`` are what the run sets on its own writer. ``settings`` are the
    Spark settings that the run adds for this flow.
    """

    name: str
    writer: Any
    facts: WriterFacts
    settings: Mapping[str, str]


def streaming_flows(registered: Any, session: Any, storage_root: str) -> list[Flow]:
    """Return the streaming flows of a registered pipeline (``GraphRegistrationContext``).

    ``session`` is the server's classic session. Raises ProgramFailed if Spark cannot resolve the
    pipeline, or if a flow reads one of the pipeline's tables that does not exist yet, because until
    then Spark plans the flow without reading the table. Raises StorageError if the places of
    checkpoints cannot be listed.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
    by_case = session.conf.get("spark.sql.caseSensitive", "false") == "true"
    try:
        graph = _called(registered.toDataflowGraph(), "resolve", by_case)
        _called(graph, "validate", by_case)
        flows = []
        for flow in _each(graph.materializedFlows()):
            if not flow.df().isStreaming():
                continue
            tables = _tables_read(graph, flow)
            if missing := [name for name in tables if not session.catalog.tableExists(name)]:
                name = flow.identifier().unquotedString()
                raise ProgramFailed(
                    f"flow '{name}' reads {', '.join(missing)}, which this run of the pipeline "
                    "creates: its flows are under flinkish's control from the next run on",
                    hint="run the pipeline once without a savepoint",
                )
            # The run analyzes the flow again, so that it reads the pipeline's tables as tables.
            flow = _called(graph, "reanalyzeFlow", flow, by_case)
            facts = _facts(graph, flow, session, storage_root)
            writer = DataFrame(flow.df(), session).writeStream
            flows.append(Flow(str(facts.query_name), writer, facts, _settings(flow)))
    except (Py4JError, PySparkException) as error:
        why = first_line(java_cause(str(error)) or error)
        raise ProgramFailed(f"the flows of the pipeline cannot be planned: {why}") from error
    return flows


def next_version(own: str) -> str:
    """Return the place for a flow's restored checkpoint, where it is the newest one for Spark.

    ``own`` is the place of the flow's newest checkpoint. If the flow has no checkpoint yet, the
    restored one goes to ``own``.
    """
    own = own.rstrip("/")
    if not is_taken(own):
        return own
    parent = posixpath.dirname(own)
    return f"{parent}/{_newest_version(parent) + 1}"


def newest_checkpoint(storage_root: str, table: Sequence[str], flow: str) -> str:
    """Return where Spark looks for a flow's checkpoint.

    ``storage_root`` is a path or URL as Spark accepts it. ``table`` are the parts of the name of
    the flow's table.
    """
    parent = posixpath.join(storage_root.rstrip("/"), PIPELINE, *table, flow)
    return f"{parent}/{max(_newest_version(storage.locate(parent)), 0)}"


def _newest_version(parent: str) -> int:
    """Return the largest number that names a checkpoint in ``parent``; -1 without a checkpoint."""
    return max(numbers_among(storage.list_directory(parent).directories), default=-1)


def _facts(graph: Any, flow: Any, session: Any, storage_root: str) -> WriterFacts:
    """Return what the run sets on a flow's writer (``StreamingTableWrite``, ``SinkWrite``)."""
    target = flow.destinationIdentifier()
    parts = [str(part) for part in _each(target.nameParts())]
    output = graph.output().apply(target)
    root = str(qualified(storage_root, session))
    own = newest_checkpoint(root, parts, str(flow.identifier().table()))
    facts = WriterFacts(
        query_name=str(flow.identifier().unquotedString()),
        output_mode="append",
        trigger={"availableNow": True},
        options={"checkpointlocation": own},
    )
    if _CHANGES in str(flow.getClass().getSimpleName()):
        facts.format = "foreachBatch"
    elif output.getClass().getSimpleName() == "Table":
        facts.table = str(target.unquotedString())
        facts.format = str(output.format().get()) if output.format().isDefined() else None
    else:
        facts.format = str(output.format())
        facts.options |= {
            str(each._1()).lower(): str(each._2()) for each in _each(output.options())
        }
    return facts


def _tables_read(graph: Any, flow: Any) -> list[str]:
    """Return the names of the pipeline's tables that a flow reads, itself or through views."""
    nodes, tables, views = graph.flowNodes(), graph.table(), graph.view()
    names = []
    inputs = list(_each(nodes.apply(flow.identifier()).inputs()))
    while inputs:
        each = inputs.pop()
        if tables.contains(each):
            names.append(str(each.unquotedString()))
        elif views.contains(each):
            for writer in _each(graph.flowsTo().apply(each)):
                inputs += _each(nodes.apply(writer.identifier()).inputs())
    return names


def _settings(flow: Any) -> dict[str, str]:
    return {str(each._1()): str(each._2()) for each in _each(flow.sqlConf())}


def _each(collection: Any) -> Iterator[Any]:
    """Yield the elements of a Scala collection."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _called(instance: Any, method: str, *arguments: Any) -> Any:
    """Call a method, without the last argument (the case sensitivity) on older Sparks."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        return getattr(instance, method)(*arguments)
    except Py4JJavaError:
        raise
    except Py4JError as error:
        if "does not exist" not in str(error):
            raise
        return getattr(instance, method)(*arguments[:-1])
