"""The run of a declarative pipeline: flows are planned before it, and taken when they start.

The program asks the server for the run (``PipelineCommand.StartRun``). The server starts the
queries of the flows itself, each flow after the flows whose tables it reads. A query ends when it
has read the available input. All flows are planned, and restored, before the program's request
reaches the server. A query is held at the event of its start while a request of flinkish's is in
flight. If the job is over after that, the query ends before its first batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from flinkish import storage
from flinkish.checkpoint.discovery import query_id_of
from flinkish.driver.connect.flows import Flow, streaming_flows
from flinkish.driver.connect.server import holder_of, session_behind
from flinkish.driver.log import log
from flinkish.driver.runtime.query_setup import Prepared
from flinkish.driver.runtime.running_query import ManagedQuery, checkpoint_location
from flinkish.driver.runtime.start_listener import at_each_start
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.driver.spark.jvm import configured
from flinkish.errors import (
    Corrupt,
    FlinkishError,
    ProgramFailed,
    StorageError,
    UsageError,
    WrongState,
)


class FlowJob(Protocol):
    """What a job's runtime does for the flows of its pipeline."""

    @property
    def restores(self) -> bool:
        """Whether the job restores a savepoint."""

    @property
    def is_guest(self) -> bool:
        """Whether no flow is refused: one that cannot be prepared runs all the same."""

    def prepare_flow(self, flow: Flow) -> Prepared:
        """Prepare the query of a flow before it starts; raise the refusal if it may not start."""

    def flows_prepared(self, waiting: Sequence[ManagedQuery]) -> Mapping[str, str]:
        """Take the flows, none of which has started; return Spark settings for all of them."""

    def flow_started(self, query: ManagedQuery, *, restored: bool) -> bool:
        """Take the query of a flow that has started; return False if it must end at once."""

    def unknown_flow(self, name: str, handle: Any, why: str) -> None:
        """Note a query that is not under flinkish's control."""


class PipelineRun:
    """One run of a pipeline, as a client asks for it."""

    def __init__(self, client: Any, request: Any) -> None:
        self._request = request
        self._holder = holder_of(client)
        self._stopping = threading.Lock()
        self.session = session_behind(client)

    def flows(self) -> list[Flow]:
        """Return the streaming flows of the pipeline; raise errors of :func:`.streaming_flows`."""
        graphs = self._holder.dataflowGraphRegistry()
        registered = graphs.getDataflowGraphOrThrow(self._request.dataflow_graph_id)
        return streaming_flows(registered, self.session, self._request.storage)

    def carry_out(self, job: FlowJob, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Plan and restore the flows, then yield the events of the run that ``begin`` asks for.

        Raises UsageError for a full refresh in a restored job, the errors of ``job``, and those of
        :meth:`flows`: ProgramFailed only in a restored job, others unless the job is a guest.
        """
        refreshed = list(self._request.full_refresh_selection)
        if job.restores and (self._request.full_refresh_all or refreshed):
            raise UsageError(
                f"a full refresh of {', '.join(refreshed) or 'all tables'} discards the state "
                "that the savepoint would restore",
                hint="leave out --full-refresh and --full-refresh-all, or the savepoint",
            )
        why = "the pipeline has not registered it as a flow"
        try:
            flows = self.flows()
        except FlinkishError as error:
            if job.restores or not (job.is_guest or isinstance(error, ProgramFailed)):
                raise
            log(error.message)  # Spark reports an error too if it cannot run the flows
            flows, why = [], error.message
        prepared = self._prepared(job, flows)
        by_name = {flow.name: flow for flow in flows}

        def started(jsq: Any, name: str | None) -> None:
            if name in by_name:
                self._started(job, _waiting(by_name[name], prepared[name]), jsq)
            else:
                job.unknown_flow(str(name), _handle_of(jsq), why)

        with at_each_start(self.session, started):
            yield from begin()

    def hold(self) -> None:
        """Let no other flow start: those that run will end before they have read all input."""
        execution = self._execution()
        if execution is not None:
            spark_jvm.field_of(execution, "concurrencyLimit").drainPermits()

    def stop(self) -> None:
        """End the run, whose flows have ended or will never start; return at once."""
        threading.Thread(target=self._stop, name="flinkish-pipeline", daemon=True).start()

    def _stop(self) -> None:
        with self._stopping:
            execution = self._execution()
            if execution is not None:
                execution.stop()

    def _execution(self) -> Any:
        """Return Spark's ``TriggeredGraphExecution``; None before the run, and after its end."""
        context = self._holder.getPipelineExecution(self._request.dataflow_graph_id)
        if context.isEmpty():
            return None
        execution = context.get().pipelineExecution().graphExecution()
        return None if execution.isEmpty() else execution.get()

    # --- before the run -----------------------------------------------------------------------

    def _prepared(self, job: FlowJob, flows: Sequence[Flow]) -> dict[str, Prepared]:
        """Prepare all flows; after a refusal remove what was restored, which Spark would use."""
        prepared: dict[str, Prepared] = {}
        try:
            for flow in flows:
                with configured(self.session, flow.settings):
                    prepared[flow.name] = job.prepare_flow(flow)
            waiting = [_waiting(flow, prepared[flow.name]) for flow in flows]
            settings = job.flows_prepared(waiting)
        except BaseException:
            for each in prepared.values():
                if each.restored_batch is not None and each.location is not None:
                    storage.remove_tree(*storage.split(storage.locate(each.location)))
            raise
        for key, value in settings.items():
            self.session.conf.set(key, value)
        return prepared

    # --- during the run -----------------------------------------------------------------------

    def _started(self, job: FlowJob, before: ManagedQuery, jsq: Any) -> None:
        """Take the query of a flow; the query waits until this returns."""
        query = replace(
            before,
            handle=_handle_of(jsq),
            root_uri=spark_jvm.checkpoint_root(jsq),
            query_id=str(jsq.id().toString()),
            run_id=str(jsq.runId().toString()),
            quiesced=False,
        )
        where = before.checkpoint
        if not storage.same_place(where, query.checkpoint):
            log(f"query '{query.name}' runs in {query.checkpoint}, and was expected in {where}")
        if not job.flow_started(query, restored=before.restored_batch is not None):
            spark_jvm.end_after_batch(self.session._jvm, jsq)


def _handle_of(jsq: Any) -> Any:
    from pyspark.sql.streaming.query import StreamingQuery

    return StreamingQuery(jsq)


def run_asked_for(client: Any, command: Any) -> PipelineRun | None:
    """Return the run of a pipeline that a command of Spark Connect's client asks for, or None."""
    if command.WhichOneof("command_type") != "pipeline_command":
        return None
    asked = command.pipeline_command
    if asked.WhichOneof("command_type") != "start_run" or asked.start_run.dry:
        return None
    return PipelineRun(client, asked.start_run)


class NotStarted:
    """Stands in for the JVM's query of a flow whose turn has not come; it seems to have ended."""

    def getClass(self) -> NotStarted:
        return self

    def getSimpleName(self) -> str:
        return type(self).__name__

    def queryExecutionThread(self) -> NotStarted:
        return self

    def isAlive(self) -> bool:
        return False

    def exception(self) -> NotStarted:
        return self

    def isEmpty(self) -> bool:
        return True

    def lastProgress(self) -> None:
        return None

    def status(self) -> NotStarted:
        return self

    def isDataAvailable(self) -> bool:
        return False

    def isTriggerActive(self) -> bool:
        return False

    def message(self) -> str:
        return ""

    def json(self) -> str:
        return '{"message": "", "isDataAvailable": false, "isTriggerActive": false}'


class _Handle:
    def __init__(self) -> None:
        self._jsq = NotStarted()


def _waiting(flow: Flow, prepared: Prepared) -> ManagedQuery:
    """Return a flow as a query of the job before it has started.

    Without a checkpoint the query has no id. It counts as active, so that its claims are kept.
    """
    location = prepared.location or prepared.own or ""
    query_id = ""
    with suppress(Corrupt, StorageError):  # there is no checkpoint yet, or flinkish cannot read it
        query_id = query_id_of(checkpoint_location(location))
    return ManagedQuery(
        name=flow.name,
        generated_name=False,
        facts=flow.facts,
        writer=flow.writer,
        begin=lambda: _refuse_start(flow.name),
        handle=_Handle(),
        root_uri=location,
        session=flow.writer._spark,
        query_id=query_id,
        run_id="",
        restored_batch=prepared.restored_batch,
        planned=prepared.planned,
        notes=prepared.notes,
        plan=prepared.plan,
        own=prepared.own,
        adopted=True,
        quiesced=True,
    )


def _refuse_start(name: str) -> Any:
    raise WrongState(
        f"query '{name}' is a flow of a pipeline, which flinkish cannot start",
        hint="run the pipeline again: the flow continues after its last committed batch",
    )
