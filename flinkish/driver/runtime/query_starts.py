"""The start of a job's queries: from a restore, from an earlier driver's checkpoints, or anew."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from flinkish.connectors.path_map import NO_MAP, PathMap
from flinkish.driver.log import log
from flinkish.driver.plan.planned_queries import new_sink
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts, own_location, qualified
from flinkish.driver.restore.other_jobs import OtherJobs
from flinkish.driver.restore.restorer import Restorer, lost_origin
from flinkish.driver.restore.start_judge import Adviser, StartJudge
from flinkish.driver.runtime.earlier_runs import EarlierRun, earlier_runs
from flinkish.driver.runtime.file_sink_log import file_sink_log_ready
from flinkish.driver.runtime.flow_starts import FlowStarts
from flinkish.driver.runtime.handover import await_turn
from flinkish.driver.runtime.job_session import JobSession
from flinkish.driver.runtime.naming import own_place
from flinkish.driver.runtime.program_gate import ProgramGate
from flinkish.driver.runtime.query_reports import QueryReports, patient
from flinkish.driver.runtime.query_setup import Preparer
from flinkish.driver.runtime.restore_gate import RestoreGate
from flinkish.driver.runtime.running_query import ManagedQuery, set_identity
from flinkish.driver.runtime.start_phase import StartPhase
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import FlinkishError, UnsupportedSession
from flinkish.launch.known_jobs import check_stands
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.restore.plan.non_restored_state import LostOrigin
from flinkish.storage import one_name

#: The setting with the number of queries that the program starts (``run --queries``).
QUERIES = "execution.start.queries"


class QueryStarts:
    """Starts the queries of one job, and decides what each of them starts from.

    ``let_go`` is called with held queries before they run (:class:`.RestoreGate`). A handover
    replaces ``launch``, ``restorer`` and ``restore_gate`` when its savepoint is named.
    """

    def __init__(
        self,
        registry: Registry,
        job: JobRecord,
        checkpoint_root: str,
        gate: ProgramGate,
        session: JobSession,
        reports: QueryReports,
        let_go: Callable[[Sequence[ManagedQuery]], None],
    ) -> None:
        spec = job.launch.restore
        #: Of a program that another launcher started, a query that flinkish cannot serve runs
        #: without flinkish. But a program that asks for a restore must not start without it.
        self.is_guest = job.launch.external is not None and spec is None
        if not self.is_guest:
            registry = patient(registry)
        self._registry = registry
        self._job_id = job.job_id
        self._checkpoint_root = checkpoint_root
        self._gate = gate
        self._session = session
        self._reports = reports
        self._let_go = let_go
        self.launch = job.launch
        planning = Planning(job.launch.options)
        earlier = earlier_runs(registry, job)
        self.restorer, lost = _restorer(registry, job, planning, earlier)
        mode = job.launch.sink_ahead if spec is None else spec.options.sink_ahead
        judge = Adviser if self.is_guest else StartJudge
        self._others = OtherJobs(registry, job.job_id, None if spec is None else spec.path)
        self._judge = judge(registry, job, self._others, mode)
        self._preparer = Preparer(
            checkpoint_root,
            planning,
            self.restorer,
            gate.queries,
            earlier,
            self._judge,
            lost,
            place=None
            if job.launch.external is None
            else partial(own_place, beside=f"restored-{job.job_id[:6]}"),
        )
        self._hold_lock = threading.Lock()
        #: Name and handle of queries that are not under flinkish's control, and why. Names may
        #: repeat, as several queries may have no name.
        self._not_served: list[tuple[str, Any, str]] = []
        self.restore_gate = RestoreGate(self.restorer, gate.queries, gate.fail, let_go)
        announced = job.launch.options.get(QUERIES)
        self.start_phase = StartPhase(int(announced) if announced else None)

    def not_served(self) -> dict[str, str]:
        """Return the running queries that are not under flinkish's control, with the reasons."""
        return {
            name: why
            for name, handle, why in self._not_served
            if not spark_jvm.has_ended(handle._jsq)
        }

    @property
    def is_held(self) -> bool:
        """Whether the savepoint that the job restores is not taken yet (a handover)."""
        return self.launch.restore is not None and self.launch.restore.is_awaited

    def start(self, writer: Any, facts: WriterFacts, begin: Callable[[], Any]) -> Any:
        """Start one query of the program under flinkish's control.

        Names it, gives it a checkpoint (a restored one in a restored job), and starts it.

        Raises SystemExit if the job has been stopped or cancelled, Spark's own errors, and
        FlinkishError if the restore or the start is refused; the job then fails with this error. A
        guest's query is not refused, but runs without flinkish.
        """
        self._hold(writer, facts)
        with self._start_after_requests(str(facts.query_name or "without a name")):
            if self.is_guest:
                return self._start_guest(writer, facts, begin)
            return self._start_query(writer, facts, begin)

    def _start_guest(self, writer: Any, facts: WriterFacts, begin: Callable[[], Any]) -> Any:
        """Start a query as :meth:`_start_query`, or plainly if flinkish cannot serve it."""
        handles: list[Any] = []

        def begin_once() -> Any:
            handles.append(begin())
            return handles[-1]

        try:
            return self._start_query(writer, facts, begin_once)
        except FlinkishError as error:
            self._gate.fatal = None  # a guest is never refused
            name = str(facts.query_name or "without a name")
            log(f"query '{name}' runs without flinkish: {error.message}")
            handle = handles[-1] if handles else begin()
            running = [e for e in self._not_served if not spark_jvm.has_ended(e[1]._jsq)]
            self._not_served[:] = [*running, (name, handle, error.message)]
            return handle

    def adopt(self, query: ManagedQuery) -> None:
        """Take charge of a query that ran before flinkish was attached."""
        names = self._preparer.names
        names.given(query.name)
        if query.generated_name:  # the query keeps the name if it is started again
            names.resume(query.name, query.checkpoint, [one_name(query.root_uri)])
        self._take(query)
        with self.start_phase.starting(query.name):
            self._gate.add(query)
        self.start_phase.started(query.name)

    def take_late(self) -> None:
        """Take the resources that queries could not take at first, once the registry is reached."""
        for query in self._gate.queries() if self._registry.is_reached else ():
            if query.name in self._others.untaken and not spark_jvm.has_ended(query.jsq):
                self._take(query)

    def _take(self, query: ManagedQuery) -> None:
        """Take what a running query uses, for this job; a refusal becomes a note."""
        try:
            sink = new_sink(query.facts, query.session)
            self._others.take(
                query.name, sink, query.query_id, query.session, checkpoint=query.root_uri
            )
        except FlinkishError as error:
            log(f"query '{query.name}': {error.message}")
            query.notes = tuple(dict.fromkeys((*query.notes, error.message)))

    def flow_starts(self, on_start: Callable[[], None]) -> FlowStarts:
        """Return what prepares and takes the flows of a pipeline that the program runs.

        Raises UnsupportedSession in a handover; the job then fails with this error.
        """
        if self.is_held:
            error = UnsupportedSession(
                "a pipeline cannot take over the queries of a running job",
                hint="stop the job with a savepoint, and run the pipeline from that: flinkish run "
                "-s SAVEPOINT",
            )
            self._gate.fail(error)
            raise error
        return FlowStarts(
            self._preparer,
            self.restorer,
            self._gate,
            self.start_phase,
            self._not_served,
            on_start,
            self._reports.record,
            paths=self._paths(),
            is_guest=self.is_guest,
        )

    def session_settings(self, query: ManagedQuery) -> AbstractContextManager[None]:
        """Give the session the settings of a query that is started again inside the block."""
        return self._preparer.session_settings(query.session, query.name)

    def _hold(self, writer: Any, facts: WriterFacts) -> None:
        """Hold the program until the savepoint that it restores is taken (a handover)."""
        with self._hold_lock:
            if not self.is_held:
                return
            self._session.created(writer._spark)
            with self._failing():
                spec = await_turn(
                    self._registry,
                    self._job_id,
                    writer,
                    facts,
                    is_over=lambda: self._gate.ending is not None,
                )
                planning = Planning(self.launch.options)
                restorer = Restorer(self._registry, self._job_id, spec, planning)
                others = OtherJobs(self._registry, self._job_id, spec.path)
                job = self._registry.job(self._job_id)
                self._judge = StartJudge(self._registry, job, others, spec.options.sink_ahead)
            with self._gate.changed:
                self.restorer = restorer
                self._preparer = Preparer(
                    self._checkpoint_root, planning, restorer, self._gate.queries, judge=self._judge
                )
                self.restore_gate = RestoreGate(
                    restorer, self._gate.queries, self._gate.fail, self._let_go
                )
                self.launch = replace(self.launch, restore=spec)

    @contextmanager
    def _start_after_requests(self, name: str) -> Iterator[None]:
        """Start a query inside the block, which is entered when no request is in flight."""
        with ExitStack() as starting:
            with self._gate.changed:
                self._gate.settle()
                if self._gate.ending is not None:
                    raise SystemExit(0)
                starting.enter_context(self.start_phase.starting(name))
            with self.restore_gate.starting():
                yield

    def _start_query(self, writer: Any, facts: WriterFacts, begin: Callable[[], Any]) -> Any:
        session = writer._spark
        self._session.created(session)
        with self._failing():
            name = self._preparer.name_of(facts, session, writer)
        with self._reports.starting(name, session) as handles:
            try:
                query = self._begun(name, writer, facts, begin, handles)
            except Exception as error:
                # A refusal of flinkish fails the job; after one of Spark the program may try again.
                if not handles and not isinstance(error, FlinkishError):
                    self._preparer.not_started(name, writer, facts)
                raise
            self._gate.add(query)
        self.start_phase.started(query.name)
        self._reports.try_send()
        return query.handle

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Let a refusal inside the block fail the job, even if the program handles it."""
        try:
            yield
        except FlinkishError as error:
            self._gate.fail(error)
            raise

    def _paths(self) -> PathMap:
        spec = self.launch.restore
        return NO_MAP if spec is None else PathMap(spec.options.path_map)

    def _begun(
        self,
        name: str,
        writer: Any,
        facts: WriterFacts,
        begin: Callable[[], Any],
        handles: list[Any],
    ) -> ManagedQuery:
        """Prepare a query and let Spark start it; its handle is appended to ``handles`` at once."""
        session = writer._spark
        with self._failing():
            prepared = self._preparer.prepare(name, writer, facts)
        # The writer may have the location of another query, which was started from it before.
        set_identity(writer, prepared.name, prepared.location or prepared.own)
        kept = facts.copy()
        checkpoint = prepared.location or qualified(own_location(facts, session), session)

        def managed(handle: Any) -> ManagedQuery:
            return ManagedQuery(
                name=prepared.name,
                generated_name=prepared.generated_name,
                facts=kept,
                writer=writer,
                begin=begin,
                handle=handle,
                root_uri=spark_jvm.checkpoint_root(handle._jsq),
                session=session,
                query_id=str(handle._jsq.id().toString()),
                run_id=str(handle._jsq.runId().toString()),
                restored_batch=prepared.restored_batch,
                planned=prepared.planned,
                notes=prepared.notes,
                plan=prepared.plan,
                own=prepared.own,
            )

        fail = None if self.is_guest else self._gate.fail
        with (
            nullcontext() if self.is_guest else self._reports.recording(name, session, managed),
            self._preparer.session_settings(session, prepared.name),
            self.restore_gate.watching(prepared, session) as started,
            file_sink_log_ready(
                session, prepared.name, facts.format, checkpoint, self._paths(), fail
            ),
        ):
            handles.append(begin())
            started(handles[-1]._jsq)  # at once, before the query plans a batch
        return managed(handles[-1])


def _restorer(
    registry: Registry, job: JobRecord, planning: Planning, earlier: Mapping[str, EarlierRun]
) -> tuple[Restorer | None, LostOrigin | None]:
    """Return the restorer of a job's queries and its lost origin; None for each that it lacks.

    The lost origin is what a resuming job was restored from, if that can no longer be read.
    """
    spec = job.launch.restore
    if spec is None or spec.is_awaited:
        return None, None
    if job.state is not JobState.RESTARTING:
        check_stands(registry, job)
        return Restorer(registry, job.job_id, spec, planning), None
    pinned = {
        name: (run.restored_batch, run.checkpoint)
        for name, run in earlier.items()
        if run.restored_batch is not None
    }
    plans = {name: run.plan for name, run in earlier.items()}
    try:
        return Restorer.resumed(registry, job.job_id, spec, planning, pinned, plans), None
    except FlinkishError as error:
        return None, lost_origin(registry, job, spec, error)
