"""The job inside its driver: its queries and its lifecycle.

Three kinds of threads use it: the program's own (through the hook), the agent's (requests) and the
heartbeat's. One condition, that of the :class:`.program_gate.ProgramGate`, guards their shared
state.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from flinkish.connectors.path_map import NO_MAP, PathMap
from flinkish.driver.connect.flows import Flow, next_version
from flinkish.driver.log import log
from flinkish.driver.plan.planned_queries import new_sink
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts, own_location
from flinkish.driver.restore.other_jobs import OtherJobs
from flinkish.driver.restore.restorer import Restorer, lost_origin
from flinkish.driver.restore.start_judge import Adviser, StartJudge
from flinkish.driver.runtime.earlier_runs import earlier_runs
from flinkish.driver.runtime.file_sink_log import complete_log, file_sink_log_ready, map_log
from flinkish.driver.runtime.handover import await_turn
from flinkish.driver.runtime.pipeline_run import PipelineRun
from flinkish.driver.runtime.program_gate import ProgramGate
from flinkish.driver.runtime.query_setup import Prepared, Preparer, own_place
from flinkish.driver.runtime.quiesce import quiesce, stop_hard
from flinkish.driver.runtime.restore_gate import RestoreGate
from flinkish.driver.runtime.running_query import (
    ManagedQuery,
    lasting_facts,
    set_identity,
    set_once,
    status_of,
)
from flinkish.driver.runtime.start_phase import StartPhase
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import (
    FlinkishError,
    GivenUp,
    ProgramFailed,
    UnsupportedSession,
    UsageError,
)
from flinkish.launch.known_jobs import check_stands
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import LeftOut
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState

#: The setting with the number of queries that the program starts (``run --queries``).
QUERIES = "execution.start.queries"
#: Seconds after which a stream thread, whose end was requested and then taken back, has ended if it
#: is going to.
_LEAVING = 0.5
_END_GRACE = 10.0  # seconds that a batch gets when the program has ended before its query


class Runtime:
    """The state of one job in its driver.

    ``job`` is in state INITIALIZING or CREATED; RESTARTING if it resumes where its last driver
    stopped. The job's queries get their checkpoints below ``checkpoint_root``.
    """

    def __init__(self, registry: Registry, job: JobRecord, checkpoint_root: str) -> None:
        self.registry = registry
        self.job_id = job.job_id
        self.launch = job.launch
        self._gate = ProgramGate()
        planning = Planning(job.launch.options)
        spec = job.launch.restore
        earlier = earlier_runs(registry, job)
        lost = None
        if spec is None or spec.is_awaited:
            self.restorer = None
        elif job.state is JobState.RESTARTING:
            pinned = {
                name: (run.restored_batch, run.checkpoint)
                for name, run in earlier.items()
                if run.restored_batch is not None
            }
            plans = {name: run.plan for name, run in earlier.items()}
            try:
                self.restorer = Restorer.resumed(
                    registry, job.job_id, spec, planning, pinned, plans
                )
            except FlinkishError as error:
                self.restorer = None
                lost = lost_origin(registry, job, spec, error)
        else:
            check_stands(registry, job)
            self.restorer = Restorer(registry, job.job_id, spec, planning)
        path = None if spec is None else spec.path
        mode = job.launch.sink_ahead if spec is None else spec.options.sink_ahead
        #: A program that was started by another launcher runs with or without flinkish. A restore
        #: that it asks for is different: it must not start without that.
        self.is_guest = job.launch.external is not None and spec is None
        judge = Adviser if self.is_guest else StartJudge
        self._others = OtherJobs(registry, job.job_id, path)
        self._judge = judge(registry, job, self._others, mode)
        self._preparer = Preparer(
            checkpoint_root,
            planning,
            self.restorer,
            self.queries,
            earlier,
            self._judge,
            lost,
            place=None
            if job.launch.external is None
            else partial(own_place, beside=f"restored-{job.job_id[:6]}"),
        )
        self._checkpoint_root = checkpoint_root
        self._hold_lock = threading.Lock()
        #: Names of the queries that are being started: their last reports are those of runs before.
        self._starting: list[str] = []
        self._reporting = threading.Lock()
        #: The final state of the job once its program ends; set by stop and cancel.
        self.ending: JobState | None = None
        self.fatal: FlinkishError | None = None
        #: Queries of the program that are not under flinkish's control, and why, by name.
        self._not_served: dict[str, tuple[Any, str]] = {}
        #: The run of the pipeline whose flows are the job's queries.
        self._pipeline: PipelineRun | None = None
        self._flows: Sequence[str] = ()
        self._announced = False
        self._is_running = False
        self._session: Any = None
        self.session_stopped = False
        self._failed_before_stop: tuple[str, str] | None = None
        self.restore_gate = RestoreGate(self.restorer, self.queries, self.fail, self._let_go)
        announced = job.launch.options.get(QUERIES)
        self.start_phase = StartPhase(int(announced) if announced else None)
        #: Interrupts a program that waits for nothing when its job is over.
        self.interrupt: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGINT)

    # --- what the agent needs ---------------------------------------------------------------

    def queries(self) -> list[ManagedQuery]:
        """Return the newest run of each query name, in the order of their first starts."""
        return self._gate.queries()

    def not_served(self) -> dict[str, str]:
        """Return the running queries that are not under flinkish's control, with the reasons."""
        return {
            name: why
            for name, (handle, why) in self._not_served.items()
            if not spark_jvm.has_ended(handle._jsq)
        }

    def try_in_flight(self) -> AbstractContextManager[None] | None:
        """Return :meth:`in_flight`, entered before the program can start another query.

        Returns None while the program starts its queries: a savepoint would lack one.
        """
        with self._gate.changed:
            if not self.start_phase.is_over or self.start_phase.in_flight:
                return None
            return self._gate.enter()

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Keep the program from continuing past an ended query inside the block."""
        with self._gate.enter():
            yield

    def resume(self, queries: list[ManagedQuery]) -> None:
        """Let quiesced queries continue as if nothing had happened.

        A query that cannot be started again fails the job; the others continue. Raises nothing, as
        the caller reports the error that led here.
        """
        for query in queries:
            try:
                self._go_on(query)
            except Exception as error:  # noqa: BLE001 - any refusal of Spark; it becomes the failure
                traceback.print_exc()
                self.fail(
                    ProgramFailed(
                        f"query '{query.name}' could not be started again after a failed stop: "
                        f"{type(error).__name__}: {error}"
                    )
                )
            query.quiesced = False
        self._gate.resumed()
        if self._pipeline is not None:
            self._pipeline.stop()

    def _go_on(self, query: ManagedQuery) -> None:
        """Start ``query`` again, unless its run could be kept from ending."""
        deadline = time.monotonic() + _LEAVING
        while not spark_jvm.has_ended(query.jsq):
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
        with self._preparer.session_settings(query.session, query.name):
            query.restart()
        self._gate.restarted(query)

    def run_once(self, query: ManagedQuery) -> None:
        """Start a quiesced query for the one batch that its log has planned; it ends after that.

        It loses its trigger by this, and does not continue afterwards.
        """
        set_once(query.writer, query.gateway_jvm)
        with self._preparer.session_settings(query.session, query.name):
            query.restart()
        query.quiesced = True
        self._gate.restarted(query)

    def end(self, state: JobState) -> None:
        """Set how the job ends; the program continues once the request in flight has settled."""
        with self._gate.changed:
            self.ending = state
            self._gate.changed.notify_all()
        if self._pipeline is not None:
            self._pipeline.stop()

    def fail(self, error: FlinkishError) -> None:
        """Record an error that fails the job, even if the program handles it."""
        with self._gate.changed:
            self.fatal = self.fatal or error

    def statuses(self) -> list[QueryStatus]:
        """Return the present status of every query (asks the JVM).

        Queries that are being restarted are left out: the end of their last run would release their
        present claims. So are those whose table must be rolled back first: if the driver is killed
        before that, they have not started, and the next driver restores them again.
        """
        left = {*self._starting}
        if self.restorer is not None:
            left |= self.restorer.to_roll_back()
        return [status_of(query) for query in self.queries() if query.name not in left]

    def report(self) -> JobState:
        """Write the heartbeat and, while Spark can be asked, the status of every query.

        Returns the job's state in the registry, as a reader may have declared the job lost
        meanwhile.
        """
        self.restore_gate.settle_late(self.interrupt)
        self.start_phase.look()
        self._running_if_started()
        state, statuses = self._beat()
        self.settle_claim({s.name: s.batch_id for s in statuses})
        return state

    def _beat(self) -> tuple[JobState, Sequence[QueryStatus]]:
        """Write the heartbeat, and the facts of queries that are new or have changed.

        Spark describes the sources of a query in its first progress report, so facts can change.
        """
        with self._reporting:
            statuses = [] if self.session_stopped else self.statuses()
            state = self.registry.heartbeat(self.job_id, statuses)
            reported = {status.name for status in statuses}
            for query in self.queries():
                if query.name not in reported:
                    continue
                facts = lasting_facts(query)
                if facts != query.recorded:
                    self.registry.record_facts(self.job_id, query.name, query.query_id, facts)
                    query.recorded = facts
        return state, statuses

    @contextmanager
    def _taking(self, name: str, session: Any) -> Iterator[list[Any]]:
        """Start query ``name`` inside the block, which appends Spark's handle of it.

        Before, the queries that have ended are reported: what they held is free for this one. Its
        own claims are released if Spark does not start it.

        Raises UsageError if a query of the name runs in another session; Spark only checks the
        names of its own.
        """
        with self._reporting:
            if self._is_taken(name, session):
                error = _name_of_two(name)
                self.fail(error)
                raise error
            ended = [query for query in self.queries() if spark_jvm.has_ended(query.jsq)]
            if ended:
                self.registry.heartbeat(self.job_id, [status_of(query) for query in ended])
            self._starting.append(name)
        handles: list[Any] = []
        try:
            yield handles
        except BaseException:
            if not handles:
                self._give_up(name)
            raise
        finally:
            self._starting.remove(name)

    def _is_taken(self, name: str, session: Any) -> bool:
        """Return whether a query of another session has the name, and runs or is being started."""
        if name in self._starting:
            return True
        own = session._jsparkSession
        return any(
            not query.session._jsparkSession.equals(own)
            for query in self.queries()
            if query.name == name and not spark_jvm.has_ended(query.jsq)
        )

    def _give_up(self, name: str) -> None:
        """Release the claims of a query that does not start, unless a run of it is active."""
        runs = [query for query in self.queries() if query.name == name]
        if any(query.quiesced or not spark_jvm.has_ended(query.jsq) for query in runs):
            return
        try:
            self.registry.claim_resources(self.job_id, name, [])
        except FlinkishError as error:  # what kept the query from starting is what counts
            log(f"query '{name}' has not started, and may still hold its output: {error.message}")

    @property
    def is_held(self) -> bool:
        """Whether the savepoint that the job restores is not taken yet (a handover)."""
        return self.launch.restore is not None and self.launch.restore.is_awaited

    # --- what the hook needs ----------------------------------------------------------------

    def session_created(self, session: Any) -> None:
        """Record the session, and once its Spark version and application id."""
        self._session, self.session_stopped = session, False
        if not self._announced:
            self._announced = True
            context = session.sparkContext
            self.registry.update_job(
                self.job_id, spark_version=session.version, application_id=context.applicationId
            )

    def start_query(self, writer: Any, facts: WriterFacts, begin: Callable[[], Any]) -> Any:
        """Start one query of the program under flinkish's control.

        Names it, gives it a checkpoint (a restored one in a restored job), starts it, and makes the
        job RUNNING.

        Raises SystemExit if the job has been stopped or cancelled, and FlinkishError if the restore
        is refused; the job then fails with this error.
        """
        self._hold(writer, facts)
        with self._start_after_requests(str(facts.query_name or "without a name")):
            if self.is_guest:
                return self._start_guest(writer, facts, begin)
            return self._start_query(writer, facts, begin)

    def _start_guest(self, writer: Any, facts: WriterFacts, begin: Callable[[], Any]) -> Any:
        """Start a query as :meth:`_start_query`, or without flinkish if that cannot serve it."""
        handles: list[Any] = []

        def begin_once() -> Any:
            handles.append(begin())
            return handles[-1]

        try:
            return self._start_query(writer, facts, begin_once)
        except FlinkishError as error:
            self.fatal = None  # nobody is refused
            name = str(facts.query_name or "without a name")
            log(f"query '{name}' runs without flinkish: {error.message}")
            handle = handles[-1] if handles else begin()
            self._not_served[name] = handle, error.message
            return handle

    def adopt(self, query: ManagedQuery) -> None:
        """Take charge of a query that ran before flinkish was attached."""
        session = query.session
        try:
            self._others.take(
                query.name,
                new_sink(query.facts, session),
                query.query_id,
                session,
                checkpoint=query.root_uri,
            )
        except FlinkishError as error:
            query.notes = (*query.notes, error.message)
        with self.start_phase.starting(query.name):
            self._gate.add(query)
        self.start_phase.started(query.name)

    def _hold(self, writer: Any, facts: WriterFacts) -> None:
        """Hold the program until the savepoint that it restores is taken (a handover)."""
        with self._hold_lock:
            if not self.is_held:
                return
            self.session_created(writer._spark)
            try:
                spec = await_turn(
                    self.registry,
                    self.job_id,
                    writer,
                    facts,
                    is_over=lambda: self.ending is not None,
                )
                planning = Planning(self.launch.options)
                restorer = Restorer(self.registry, self.job_id, spec, planning)
                others = OtherJobs(self.registry, self.job_id, spec.path)
                job = self.registry.job(self.job_id)
                self._judge = StartJudge(self.registry, job, others, spec.options.sink_ahead)
            except FlinkishError as error:
                self.fail(error)
                raise
            with self._gate.changed:
                self.restorer = restorer
                self._preparer = Preparer(
                    self._checkpoint_root, planning, restorer, self.queries, judge=self._judge
                )
                self.restore_gate = RestoreGate(restorer, self.queries, self.fail, self._let_go)
                self.launch = replace(self.launch, restore=spec)

    @contextmanager
    def _start_after_requests(self, name: str) -> Iterator[None]:
        """Start a query inside the block, which is entered when no request is in flight."""
        with ExitStack() as starting:
            with self._gate.changed:
                self._gate.settle()
                if self.ending is not None:
                    raise SystemExit(0)
                starting.enter_context(self.start_phase.starting(name))
            with self.restore_gate.starting():
                yield
        self._running_if_started()

    def _start_query(self, writer: Any, facts: WriterFacts, begin: Callable[[], Any]) -> Any:
        session = writer._spark
        self.session_created(session)
        try:
            name = self._preparer.name_of(facts, session)
        except FlinkishError as error:
            self.fail(error)
            raise
        with self._taking(name, session) as handles:
            query = self._begun(name, writer, facts, begin, handles)
            self._gate.add(query)
        self.start_phase.started(query.name)
        self._beat()
        return query.handle

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
        try:
            prepared = self._preparer.prepare(name, writer, facts)
        except FlinkishError as error:
            self.fail(error)
            raise
        set_identity(writer, prepared.name, prepared.location)
        kept = facts.copy()
        checkpoint = prepared.location or own_location(facts, session)
        with (
            self._preparer.session_settings(session, prepared.name),
            self.restore_gate.watching(prepared, session) as started,
            file_sink_log_ready(session, prepared.name, facts.format, checkpoint, self._paths()),
        ):
            handle = begin()
            handles.append(handle)
            started(handle._jsq)  # at once: before it plans a batch
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

    # --- what a pipeline's run needs --------------------------------------------------------

    def run_pipeline(self, run: PipelineRun, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Run a pipeline with its flows under flinkish's control; yields the run's events."""
        if self.is_held:
            error = UnsupportedSession(
                "a pipeline cannot take over the queries of a running job",
                hint="stop the job with a savepoint, and run the pipeline from that: flinkish run "
                "-s SAVEPOINT",
            )
            self.fail(error)
            raise error
        self._pipeline = run
        yield from run.carry_out(self, begin)

    @property
    def restores(self) -> bool:
        """Whether the job restores a savepoint."""
        return self.restorer is not None

    def prepare_flow(self, flow: Flow) -> Prepared:
        """Do everything that can be refused before the query of a flow starts.

        The refusal fails the job, unless it would run without flinkish, too.
        """
        own = own_location(flow.facts, flow.writer._spark)
        try:
            return self._preparer.prepare(flow.name, flow.writer, flow.facts, place=next_version)
        except FlinkishError as error:
            if not self.is_guest:
                self.fail(error)
                raise
            log(f"query '{flow.name}': {error.message}")
            return Prepared(flow.name, False, own, None, None, (error.message,), own=own)

    def flows_prepared(self, waiting: Sequence[ManagedQuery]) -> Mapping[str, str]:
        """Take all flows of the pipeline, none of which has started.

        Returns the Spark settings that the restored checkpoints need. Raises the errors of
        :meth:`Restorer.check` and :meth:`Restorer.roll_back`.
        """
        settings: Mapping[str, str] = {}
        if self.restorer is not None:
            try:
                self.restorer.check(more_to_come=False)
                self.restorer.roll_back([query.name for query in waiting])
            except FlinkishError as error:
                self.fail(error)
                raise
            settings = self.restorer.session_settings()
        for query in waiting:
            if query.query_id:  # its last run's checkpoint is there
                self._gate.add(query)
        self._flows = [query.name for query in waiting]
        self.start_phase.ended()
        self._running_if_started()
        return settings

    def flow_started(self, query: ManagedQuery, *, restored: bool) -> bool:
        """Take the query of a flow, unless the job is over when no request is in flight any more.

        The query has planned no batch yet.
        """
        with self._gate.changed:
            self._gate.settle()
            if self.ending is not None or self.fatal is not None:
                return False
            self._gate.add(query)
        self._running_if_started()
        if restored:
            for note in (
                map_log(query.jsq, query.session, self._paths()) if self._paths() else None,
                complete_log(query.jsq),
            ):
                if note is not None:
                    log(f"query '{query.name}': {note}")
        return True

    def unknown_flow(self, name: str, handle: Any) -> None:
        """Note a query of the pipeline that flinkish has not seen in its graph."""
        self._not_served[name] = handle, "it is none of the flows that the pipeline has registered"

    def flows_to_come(self) -> tuple[LeftOut, ...]:
        """Return the flows of the pipeline that have never run, as a savepoint lacks them."""
        names = {query.name for query in self.queries()}
        reason = "its turn in the pipeline has not come, and it has never run"
        return tuple(
            LeftOut(name, reason, pending=True) for name in self._flows if name not in names
        )

    def hold_starts(self) -> None:
        """Keep a pipeline from starting other flows, as those that run are about to end."""
        if self._pipeline is not None:
            self._pipeline.hold()

    def _let_go(self, _queries: Sequence[ManagedQuery]) -> None:
        """Carry out the steps that are due when held queries may run."""
        self._beat()  # with those that were not reported while their tables had to go back
        self._running_if_started()

    def _running_if_started(self) -> None:
        """Make the job RUNNING, once, when the program has started its queries."""
        queries = self.queries()
        if self._is_running or self.fatal is not None or not queries:
            return
        if not self.start_phase.is_over or self.restore_gate.closed:
            return
        self._is_running = True
        self._beat()
        names = ", ".join(f"'{query.name}'" for query in queries)
        reason = f"{'query' if len(queries) == 1 else 'queries'} {names} started"
        missing = self.start_phase.missing
        if missing:
            reason += f", {missing} more announced"
            log(f"{reason}; the job counts as running")
        self.registry.transition(self.job_id, JobState.RUNNING, reason)

    def _program_waits(self) -> None:
        """Do what follows when the program starts no other query for now."""
        self.restore_gate.settle()
        self.start_phase.waited()
        self._running_if_started()

    def program_asks(self) -> None:
        """React to the program asking for the state of a query.

        A held query makes no progress, so a program that polls would wait forever.
        """
        self.restore_gate.settle()
        self.start_phase.asked()
        self._running_if_started()

    def program_ended(self) -> None:
        """Do what follows when the program starts no other query."""
        self.start_phase.ended()
        self._running_if_started()

    def await_query(
        self, query: Any, wait: Callable[[float], Any], timeout: float | None
    ) -> bool | None:
        """Run ``StreamingQuery.awaitTermination``, subject to the gate."""
        self._program_waits()
        return self._gate.await_query(query, wait, timeout)

    def await_any(
        self, manager: Any, wait: Callable[[float], Any], timeout: float | None
    ) -> bool | None:
        """Run ``StreamingQueryManager.awaitAnyTermination``, subject to the gate."""
        self._program_waits()
        return self._gate.await_any(manager, wait, timeout)

    def appears_active(self, query: Any) -> bool:
        """Return whether ``query`` is quiesced by a request that has no result yet."""
        self.program_asks()
        return self._gate.appears_active(query)

    def before_session_stop(self) -> None:
        """Let the request in flight finish before the program stops Spark."""
        self.program_ended()
        self._gate.settle()
        self.report()
        self._failed_before_stop = self.failed_query()
        self.session_stopped = True

    # --- the end of the program -------------------------------------------------------------

    def wait_for_requests(self) -> None:
        """Wait until no request is in flight."""
        self._gate.settle()

    def jvm_is_gone(self) -> bool:
        """Return whether the session's JVM no longer answers."""
        if self._session is None or self.session_stopped:
            return False
        from py4j.protocol import Py4JError

        try:
            self._session._jvm.java.lang.System.nanoTime()
        except (Py4JError, OSError):
            return True
        return False

    def failed_query(self) -> tuple[str, str] | None:
        """Return name and error of a query whose newest run failed, or None."""
        if self.session_stopped:
            return self._failed_before_stop
        for query in self.queries():
            error = spark_jvm.error_of(query.jsq)
            if error is not None:
                return query.name, error
        return None

    def end_queries(self) -> None:
        """End the queries of an ended program, at a batch boundary if one comes in time."""
        for query in self.queries():
            query.quiesced = False
        if self.session_stopped:
            return
        self.restore_gate.close()
        running = [q for q in self.queries() if not spark_jvm.has_ended(q.jsq)]
        if not running:
            return
        names = ", ".join(f"'{q.name}'" for q in running)
        log(f"the program ended while {names} ran: ending them (did it miss awaitTermination?)")
        try:
            quiesce(running[0].gateway_jvm, [q.jsq for q in running], _END_GRACE)
        except GivenUp:
            stop_hard([q.jsq for q in running])

    def stop_session(self) -> None:
        """Stop Spark, so that nothing of the job still runs when its end is recorded."""
        if self._session is not None and not self.session_stopped:
            self.session_stopped = True
            self._session.stop()

    def settle_claim(self, committed: Mapping[str, int | None]) -> None:
        """Settle the claimed savepoint: see :meth:`Restorer.settle_claim`."""
        if self.restorer is not None:
            self.restorer.settle_claim(committed)


def _name_of_two(name: str) -> UsageError:
    """Return the refusal of a second query of a name: a job knows its queries by their names."""
    return UsageError(
        f"two queries of the program that run at once are named '{name}'",
        hint="give each query a queryName of its own, also in another session (newSession)",
    )
