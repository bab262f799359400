"""The queries that ran before flinkish was attached, and which of them it can take charge of.

The settings that the program gave its writers are gone, but the running query shows most of them:
its plan (with uids), its trigger and its sink. flinkish cannot start such a query again. So the
query does not continue after a failed ``stop``, and it cannot be drained.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from flinkish.checkpoint.cut import newest_entries
from flinkish.driver.log import log
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts, why_not_savepointable
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.running_query import ManagedQuery, checkpoint_location
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import FlinkishError, WrongState

#: The formats of sinks that do not keep the name of their format, by their class.
_FORMATS = {
    "ForeachBatchSink": "foreachBatch",
    "ForeachWriterTable": "foreach",
    "MemorySink": "memory",
    "NoopTable$": "noop",
    "ConsoleTable$": "console",
    "KafkaTable": "kafka",
    "DeltaSink": "delta",
}

#: What Spark names the checkpoint of a query that has none (``Utils.createTempDir``).
_TEMPORARY = re.compile(r"/temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/?\Z")


@dataclass(frozen=True)
class Adoption:
    """The queries that ran already: those taken charge of, and the others with the reasons."""

    adopted: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)


class AdoptedWriter:
    """Stands for the writer of a query whose start flinkish has not seen."""

    def __init__(self, frame: Any, session: Any, facts: WriterFacts) -> None:
        self._df = frame
        self._spark = session
        self._flinkish_facts = facts

    def queryName(self, name: str) -> None:
        """Do nothing: the query has its name already."""

    def option(self, key: str, value: str) -> None:
        """Do nothing: the query has its checkpoint already."""


def adopt(runtime: Runtime, session: Any) -> Adoption:
    """Take charge of the queries of a session that run already, as far as that is possible."""
    adopted: list[str] = []
    left: dict[str, str] = {}
    planning = Planning(runtime.launch.options)
    active = list(session.streams.active)
    for name, handle in zip(names_of(active), active, strict=True):
        try:
            why = _why_not(handle)
            if why is None:
                runtime.adopt(_managed(name, handle, session, planning))
        except FlinkishError as error:
            why = error.message
        if why is None:
            adopted.append(name)
        else:
            left[name] = why
    return Adoption(tuple(adopted), left)


def names_of(handles: Sequence[Any]) -> list[str]:
    """Return a name for each running query: its own, or a ``query-N`` that no other has. Pure."""
    taken = {str(handle.name) for handle in handles if handle.name}
    free = (name for number in count(1) if (name := f"query-{number}") not in taken)
    return [str(handle.name) if handle.name else next(free) for handle in handles]


def _why_not(handle: Any) -> str | None:
    """Return why a running query is left alone, or None."""
    execution = spark_jvm.stream_execution(handle._jsq)
    if str(execution.getClass().getSimpleName()) == "ContinuousExecution":
        return "it uses a continuous trigger, which commits no batches"
    if is_temporary(spark_jvm.checkpoint_root(handle._jsq)):
        return "its temporary checkpoint is deleted by Spark: give the query a checkpointLocation"
    problem = why_not_savepointable(facts_of_running(execution))
    return None if problem is None else problem.message


def is_temporary(root: str) -> bool:
    """Return whether a query's checkpoint is one that Spark makes and deletes. Pure."""
    return _TEMPORARY.search(root) is not None


def _managed(name: str, handle: Any, session: Any, planning: Planning) -> ManagedQuery:
    execution = spark_jvm.stream_execution(handle._jsq)
    facts = facts_of_running(execution)
    facts.query_name = name
    root = spark_jvm.checkpoint_root(handle._jsq)
    entries = newest_entries(checkpoint_location(root))
    pins = {} if entries is None else entries[0].pins
    writer = AdoptedWriter(None, session, facts)
    planned: PlannedQuery | None
    try:
        writer = AdoptedWriter(_frame(execution, session), session, facts)
        planned, notes = planning.plan_to_run(name, writer, facts, pins)
    except Exception as error:  # noqa: BLE001 - without uids, its state is known by position
        planned, notes = None, [f"the operators of query '{name}' cannot be read: {error}"]
        log(notes[0])
    return ManagedQuery(
        name=name,
        generated_name=handle.name is None,
        facts=facts,
        writer=writer,
        begin=lambda: _refuse_start(name),
        handle=handle,
        root_uri=root,
        session=session,
        query_id=str(handle.id),
        run_id=str(handle.runId),
        planned=planned,
        notes=(f"query '{name}' ran before flinkish was attached", *notes),
        own=root,
        adopted=True,
    )


def _refuse_start(name: str) -> Any:
    raise WrongState(
        f"flinkish cannot start query '{name}' again, because it ran before flinkish was attached",
        hint="start it again in the program: it continues after its last committed batch",
    )


def _frame(execution: Any, session: Any) -> Any:
    """Return the DataFrame that a running query writes."""
    from py4j.java_gateway import JavaClass
    from pyspark.sql import DataFrame

    sql = session._jvm.org.apache.spark.sql
    # The first is 4.x's, the second 3.5's. For Py4J the name of a missing class is a package's.
    classes = (each for each in (sql.classic.Dataset, sql.Dataset) if isinstance(each, JavaClass))
    jdf = next(classes).ofRows(execution.sparkSession(), execution.analyzedPlan())
    return DataFrame(jdf, session)


def facts_of_running(execution: Any) -> WriterFacts:
    """Return what a running query shows of the settings of its writer."""
    sink = execution.sink()
    kind = str(sink.getClass().getSimpleName())
    format_, path = _FORMATS.get(kind, kind), None
    if kind == "FileStreamSink":
        format_ = str(spark_jvm.field_of(sink, "fileFormat").shortName())
        path = str(spark_jvm.field_of(sink, "path"))
    return WriterFacts(
        format=format_,
        output_mode=str(execution.outputMode().toString()).lower(),
        trigger=trigger_of(str(execution.trigger().toString())),
        path=path,
    )


def trigger_of(text: str) -> dict[str, Any]:
    """Return the arguments of ``trigger`` for the text of a trigger of the JVM. Pure."""
    kind, _, inner = text.partition("(")
    if kind == "ProcessingTimeTrigger":
        milliseconds = inner.rstrip(")")
        return {} if milliseconds == "0" else {"processingTime": f"{milliseconds} milliseconds"}
    names = {
        "OneTimeTrigger": "once",
        "AvailableNowTrigger": "availableNow",
        "ContinuousTrigger": "continuous",
        "RealTimeTrigger": "realTime",
    }
    return {names[kind]: True} if kind in names else {}
