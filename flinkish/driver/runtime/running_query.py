"""One streaming query of the job as the driver keeps it, and its status for the registry."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.driver.connect.writers import ServerWriter
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.planned_queries import lasting_operators, operator_status, source_records
from flinkish.driver.plan.writer_settings import (
    Call,
    WriterFacts,
    facts_of,
    why_not_savepointable,
)
from flinkish.driver.restore import history
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import StorageError, WrongState
from flinkish.messages.plan import RestorePlan
from flinkish.messages.queries import BatchRun, OperatorStatus, QueryFacts, QueryStatus
from flinkish.storage import locate

#: The end of the repair metric's name, in lower case; RocksDB's metric has a prefix.
_REPAIRED = "numsnapshotsautorepaired"


@dataclass
class SnapshotFacts:
    """What Spark has reported about a query's state snapshots in the progress reports seen so far.

    ``version``: the oldest of all partitions' newest snapshots, but at least the first batch seen;
    ``repaired``: how many Spark has repaired by itself. The metrics are those of Spark 4's
    ``RocksDBStateStoreProvider`` and ``HDFSBackedStateStoreProvider``.
    """

    version: int | None = None
    repaired: int | None = None
    _first: int | None = None
    _seen: int | None = None

    def see(self, progress: Mapping[str, Any]) -> None:
        """Take in a progress report; a report that was seen before changes nothing."""
        batch = progress.get("batchId")
        if batch is None or batch == self._seen or not _is_of_batch(progress):
            return  # the report of an idle trigger repeats the metrics of the last batch
        self._seen = batch
        if self._first is None:
            self._first = int(batch)
        reported = [
            (name, int(value))
            for operator in progress.get("stateOperators", ())
            for name, value in operator.get("customMetrics", {}).items()
        ]
        # -1: this driver's executors have uploaded none.
        versions = [value for name, value in reported if name.startswith("SnapshotLastUploaded.")]
        self.version = max(min(versions), self._first) if versions else None
        repairs = [value for name, value in reported if name.lower().endswith(_REPAIRED)]
        if repairs:
            self.repaired = (self.repaired or 0) + sum(repairs)


#: Maximum number of batches in a query's status; with one batch a second, half a minute of them.
RECENT_BATCHES = 30


@dataclass
class ManagedQuery:
    """A started query: the program's handle, and everything needed to start it again.

    ``facts`` are the writer's settings for this query; the program may use the writer for another
    query later. ``root_uri`` is the query's checkpoint, as Spark resolved it. ``begin`` calls
    PySpark's own ``start`` or ``toTable`` on the kept writer. ``handle`` is the object that the
    program holds; a restart rebinds its ``_jsq``. ``planned`` is None if the plan could not be
    read. ``notes`` are messages for the user. ``plan`` is the query's part of the restore plan.
    ``own`` is the checkpoint location that the program sets, as the program wrote it, or None.
    ``waited_until`` is when it was last seen quiesced or without input, ISO 8601. In
    ``recent_batches`` are the newest of which a report was seen. ``quiesced``: flinkish has ended,
    or is ending, the query. ``adopted``: flinkish cannot start it again, as it is a pipeline's flow
    or ran before flinkish was attached. ``recorded``: :func:`what_lasts` at the last record.
    """

    name: str
    generated_name: bool
    facts: WriterFacts
    writer: Any
    begin: Callable[[], Any]
    handle: Any
    root_uri: str
    session: Any
    query_id: str
    run_id: str
    restored_batch: int | None = None
    planned: PlannedQuery | None = None
    notes: tuple[str, ...] = ()
    plan: RestorePlan | None = None
    own: str | None = None
    adopted: bool = False
    quiesced: bool = False
    waited_until: str | None = None
    last_batch_end: str | None = None
    recent_batches: tuple[BatchRun, ...] = ()
    snapshots: SnapshotFacts = field(default_factory=SnapshotFacts)
    progress: Mapping[str, Any] = field(default_factory=dict)
    recorded: tuple[object, ...] | None = None
    _run: spark_jvm.Run | None = field(default=None, repr=False)

    @property
    def checkpoint(self) -> str:
        """The checkpoint, as a local path if it is local."""
        return checkpoint_location(self.root_uri)

    @property
    def jsq(self) -> Any:
        """The JVM query of the current run."""
        return self.handle._jsq

    @property
    def run(self) -> spark_jvm.Run:
        """The current run, for looks at its state."""
        jsq = self.jsq
        if self._run is None or self._run.jsq is not jsq:
            self._run = spark_jvm.Run(jsq)
        return self._run

    @property
    def gateway_jvm(self) -> Any:
        """Py4J's view of the JVM."""
        return self.session._jvm

    def restart(self, *, once: bool = False) -> None:
        """Start the query again on the same checkpoint: same query id, next batch.

        With ``once``, it runs a single batch. Raises WrongState as :meth:`check_restart`, and if
        the query is ``adopted``.
        """
        if self.adopted:
            self.begin()
        self.check_restart()
        later = facts_of(self.writer).copy()
        try:
            set_again(self.writer, self.facts)
            set_identity(self.writer, self.name, self.root_uri)
            if once:
                set_once(self.writer, self.gateway_jvm)
            self.handle._jsq = self.begin()._jsq
        finally:
            set_again(self.writer, later)
        self.run_id = str(self.handle._jsq.runId().toString())
        self.quiesced = False

    def check_restart(self) -> None:
        """Raise WrongState if the writer has settings of another query that cannot be taken back.

        The program may have used the writer again since, with settings that this query lacks.
        """
        now = facts_of(self.writer)
        added = now.options.keys() - self.facts.options.keys() - {"checkpointlocation"}
        added |= (now.calls.keys() & _LASTING) - self.facts.calls.keys()
        if added:
            raise WrongState(
                f"the writer of query '{self.name}' has been given to another query since, with "
                f"settings that cannot be taken back: {', '.join(sorted(added))}",
                hint="use a writer of its own (df.writeStream) for each query",
            )


#: Methods of a writer without a call that undoes them.
_LASTING = frozenset({"format", "partitionBy", "clusterBy"})
#: The settings of a writer that the program has not changed.
_UNSET: Mapping[str, Call] = {
    "outputMode": ("outputMode", ("append",), {}),
    "trigger": ("trigger", (), {"processingTime": "0 seconds"}),
}


def set_again(writer: Any, facts: WriterFacts) -> None:
    """Give the writer of a query the settings in ``facts``, except for name and checkpoint."""
    now = facts_of(writer).copy()
    for kind, before in now.calls.items():
        call = facts.calls.get(kind) or _UNSET.get(kind)
        if call is not None and call != before:
            method, args, kwargs = call
            getattr(writer, method)(*args, **kwargs)
    for key, value in facts.options.items():
        if now.options.get(key) != value:
            writer.option(key, value)


def set_identity(writer: Any, name: str, location: str | None) -> None:
    """Give a writer a query name and, unless None, a checkpoint location.

    The program's own settings stay recorded, as the program may start the writer again.
    """
    facts = facts_of(writer)
    before = facts.copy()
    writer.queryName(name)
    if location is not None:
        writer.option("checkpointLocation", location)
    facts.query_name, facts.options = before.query_name, before.options


def set_once(writer: Any, jvm: Any) -> None:
    """Let the next start of a writer's query run a single batch."""
    if isinstance(writer, ServerWriter):
        writer.only_once()
    else:  # this changes the JVM's writer in place
        writer._jwrite.trigger(jvm.org.apache.spark.sql.streaming.Trigger.Once())


def checkpoint_location(uri: str) -> str:
    """Return Spark's checkpoint root as a local path, or unchanged if it is not local."""
    try:
        return locate(uri)
    except StorageError:
        return uri


def _newest_batch(query: ManagedQuery, progress: Mapping[str, Any]) -> int | None:
    """Return the newest committed batch: of the commit log if local, else of ``progress``."""
    if query.checkpoint.startswith("/"):
        return newest_committed_batch(query.checkpoint)
    return reported_batch(progress)


def reported_batch(progress: Mapping[str, Any]) -> int | None:
    """Return the newest batch that is committed as of a progress report. Pure."""
    batch = progress.get("batchId")
    if batch is None or _is_of_batch(progress):
        return batch
    return batch - 1 if batch > 0 else None


def _is_of_batch(progress: Mapping[str, Any]) -> bool:
    """Return False for the report of an idle trigger, which has the number of the next batch."""
    return "addBatch" in progress.get("durationMs", {})


def operators_of(progress: Mapping[str, Any]) -> tuple[OperatorStatus, ...]:
    """Return the stateful operators in a progress report.

    Spark reports them in pre-order of the physical plan, the order in which it numbers them
    (``ProgressContext.extractStateOperatorMetrics``).
    """
    return tuple(
        OperatorStatus(ordinal=i, kind=str(op.get("operatorName", "")), rows=op.get("numRowsTotal"))
        for i, op in enumerate(progress.get("stateOperators", ()))
    )


def batch_end(progress: Mapping[str, Any]) -> str | None:
    """Return when the batch of a progress report ended, in ISO 8601; None without one. Pure.

    Spark reports when the batch was triggered (UTC) and how long it took.
    """
    began, took = progress.get("timestamp"), progress.get("durationMs", {}).get("triggerExecution")
    if not began or took is None or not _is_of_batch(progress):
        return None
    moment = datetime.strptime(began, "%Y-%m-%dT%H:%M:%S.%fZ") + timedelta(milliseconds=took)
    return moment.isoformat(timespec="milliseconds") + "Z"


def with_batch(batches: tuple[BatchRun, ...], progress: Mapping[str, Any]) -> tuple[BatchRun, ...]:
    """Return the newest batches with that of a progress report, if a batch was computed. Pure.

    Spark's own list of reports is not read, as each report would be a call to the JVM.
    """
    batch, took = progress.get("batchId"), progress.get("durationMs", {}).get("triggerExecution")
    if batch is None or took is None or not _is_of_batch(progress):
        return batches
    before = tuple(each for each in batches if each.batch_id < batch)  # numbers may go back
    run = BatchRun(batch, took / 1000, progress.get("numInputRows", 0))
    return (*before, run)[-RECENT_BATCHES:]


def status_of(query: ManagedQuery) -> QueryStatus:
    """Ask the JVM and the checkpoint for the query's present status."""
    look = query.run.look()
    if look.progress is not None:
        query.progress = look.progress
    facts = query.progress
    query.snapshots.see(facts)
    query.recent_batches = with_batch(query.recent_batches, facts)
    query.last_batch_end = batch_end(facts) or query.last_batch_end
    if query.quiesced or look.waits_for_input:
        query.waited_until = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    operators = operator_status(query.planned, operators_of(facts))
    interval = query.facts.trigger_interval  # None for an irregular trigger
    return QueryStatus(
        name=query.name,
        query_id=query.query_id,
        run_id=query.run_id,
        checkpoint_dir=query.checkpoint,
        active=query.quiesced or not look.has_ended,
        batch_id=_newest_batch(query, facts),
        watermark=facts.get("eventTime", {}).get("watermark"),
        input_rows_per_second=facts.get("inputRowsPerSecond"),
        processed_rows_per_second=facts.get("processedRowsPerSecond"),
        state_rows=sum(op.rows or 0 for op in operators) if operators else None,
        operators=operators,
        error=look.error,
        notes=query.notes,
        plan=query.plan,
        waits_for_input=None if interval is None else look.waits_for_input and not query.quiesced,
        trigger_interval=interval,
        last_batch_end=query.last_batch_end,
        waited_until=query.waited_until,
        own_location=query.own or "",
        snapshot_version=query.snapshots.version,
        snapshots_repaired=query.snapshots.repaired,
        recent_batches=query.recent_batches,
    )


def sources_of(query: ManagedQuery) -> list[dict[str, Any]]:
    """Return the query's sources for a savepoint."""
    described = [str(s.get("description", "")) for s in query.progress.get("sources", ())]
    return source_records(query.planned, described)


def sink_of(query: ManagedQuery) -> dict[str, Any]:
    """Return the description of the query's sink for a savepoint."""
    return history.described(query.facts.describe_sink(query.session), query.query_id)


def what_lasts(query: ManagedQuery) -> tuple[object, ...]:
    """Return a value that changes with :func:`lasting_facts`, without a call to the JVM."""
    sources, operators = (query.progress.get(key, ()) for key in ("sources", "stateOperators"))
    return (
        query.run_id,
        *(str(source.get("description", "")) for source in sources),
        *(str(operator.get("operatorName", "")) for operator in operators),
    )


def lasting_facts(query: ManagedQuery) -> QueryFacts:
    """Return the facts that a savepoint of the query needs after this driver has ended."""
    problem = why_not_savepointable(query.facts)
    return QueryFacts(
        run_id=query.run_id,
        sources=tuple(sources_of(query)),
        sink=sink_of(query),
        operators=lasting_operators(query.planned, operators_of(query.progress)),
        python_version=platform.python_version(),
        problem=None if problem is None else problem.to_record(),
    )
