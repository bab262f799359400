"""The job inside its driver: its queries and its lifecycle.

Several threads use the :class:`Runtime`: the program's (through the hook), the agent's (requests),
the heartbeat's, and those on which Spark reports the start of a pipeline's flow. The condition of
:class:`.ProgramGate` guards the queries and the job's end; starts, reports and restore have locks.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from flinkish.driver.log import log
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.restore.restorer import Restorer
from flinkish.driver.runtime.flow_starts import FlowStarts
from flinkish.driver.runtime.job_session import JobSession
from flinkish.driver.runtime.pipeline_run import PipelineRun
from flinkish.driver.runtime.program_gate import ProgramGate
from flinkish.driver.runtime.query_reports import QueryReports
from flinkish.driver.runtime.query_starts import QueryStarts
from flinkish.driver.runtime.restore_gate import RestoreGate
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.runtime.start_phase import StartPhase
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import FlinkishError, ProgramFailed, RegistryError
from flinkish.messages.launch import Launch
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import LeftOut
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState

#: Seconds within which a stream thread may still end after its end was requested and taken back.
_LEAVING = 0.5


class Runtime:
    """The state of one job in its driver.

    ``job`` is in state INITIALIZING or CREATED; RESTARTING if it resumes where its last driver
    stopped. The job's queries get their checkpoints below ``checkpoint_root``.
    """

    def __init__(self, registry: Registry, job: JobRecord, checkpoint_root: str) -> None:
        self.registry = registry
        self.job_id, self.name = job.job_id, job.name
        self._gate = ProgramGate()
        self.session = JobSession(registry, job.job_id, self._gate.queries)
        self._reports = QueryReports(
            registry,
            job.job_id,
            self.session,
            self._gate.queries,
            to_roll_back=self._to_roll_back,
            fail=self.fail,
        )
        self._starts = QueryStarts(
            registry,
            job,
            checkpoint_root,
            self._gate,
            self.session,
            self._reports,
            let_go=self._let_go,
        )
        #: The run of the pipeline whose flows are the job's queries, and what prepares the flows.
        self._pipeline: PipelineRun | None = None
        self._flow_starts: FlowStarts | None = None
        self._is_running = False
        #: Ends a program that waits for none of its queries, when their restore is refused.
        self.interrupt: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGINT)

    @property
    def launch(self) -> Launch:
        """How the job was launched; in a handover, with the savepoint once the upgrade names it."""
        return self._starts.launch

    @property
    def restorer(self) -> Restorer | None:
        """What restores the job's queries; None if nothing is restored."""
        return self._starts.restorer

    @property
    def restore_gate(self) -> RestoreGate:
        """Holds the queries of a restored job."""
        return self._starts.restore_gate

    @property
    def start_phase(self) -> StartPhase:
        """Tells whether the program has started its queries."""
        return self._starts.start_phase

    @property
    def is_guest(self) -> bool:
        """Whether another launcher started the program without a restore; no query is refused."""
        return self._starts.is_guest

    @property
    def is_held(self) -> bool:
        """Whether the savepoint that the job restores is not taken yet (a handover)."""
        return self._starts.is_held

    @property
    def ending(self) -> JobState | None:
        """The final state of the job once its program ends; set by stop and cancel."""
        return self._gate.ending

    @property
    def fatal(self) -> FlinkishError | None:
        """The error that fails the job."""
        return self._gate.fatal

    def _to_roll_back(self) -> AbstractSet[str]:
        """Return the names of the queries whose table must be rolled back before they run."""
        return frozenset() if self.restorer is None else self.restorer.to_roll_back()

    # --- what the agent needs ---------------------------------------------------------------

    def queries(self) -> list[ManagedQuery]:
        """Return the newest run of each query name, in the order of their first starts."""
        return self._gate.queries()

    def not_served(self) -> dict[str, str]:
        """Return the running queries that are not under flinkish's control, with the reasons."""
        return self._starts.not_served()

    def try_in_flight(self) -> AbstractContextManager[None] | None:
        """Put a request in flight, as :meth:`in_flight`, unless the program is starting queries.

        While queries are being started it returns None, as a savepoint would lack one. No query can
        start between the check and the request.
        """
        with self._gate.changed:
            if not self.start_phase.is_over or self.start_phase.in_flight:
                return None
            return self._gate.enter()

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """While the block runs, keep the program from continuing past a query that has ended."""
        with self._gate.enter():
            yield

    def resume(self, queries: list[ManagedQuery], forget_ends: Callable[[], None]) -> None:
        """Let quiesced queries continue as if nothing had happened.

        ``forget_ends`` is what :func:`spark_jvm.forgetting_ends` returned before the queries were
        quiesced. A query that cannot be started again fails the job, and the others continue. Its
        error is not raised: the caller reports the error for which the queries continue.
        """
        ended = [query for query in queries if _has_left(query)]
        forget_ends()
        for query in ended:
            try:
                with self._starts.session_settings(query):
                    query.restart()
                self._gate.restarted(query)
            except Exception as error:  # noqa: BLE001 - any refusal of Spark; it becomes the failure
                traceback.print_exc()
                self.fail(
                    ProgramFailed(
                        f"query '{query.name}' could not be started again after a failed stop: "
                        f"{type(error).__name__}: {error}"
                    )
                )
        for query in queries:
            query.quiesced = False
        self._gate.resumed()
        self._stop_pipeline()

    def run_once(self, query: ManagedQuery) -> None:
        """Start a quiesced query for the one batch that its log has planned; then it ends.

        This replaces its trigger, so the query cannot continue afterwards.
        """
        with self._starts.session_settings(query):
            query.restart(once=True)
        query.quiesced = True
        self._gate.restarted(query)

    def end(self, state: JobState) -> None:
        """Set how the job ends; the program continues once the request in flight has settled."""
        self._gate.end(state)
        self._stop_pipeline()

    def hold_starts(self) -> None:
        """Keep a pipeline from starting other flows, as those that run are about to end."""
        if self._pipeline is not None:
            self._pipeline.hold()

    def flows_to_come(self) -> tuple[LeftOut, ...]:
        """Return the flows of the pipeline that have never run, which a savepoint lacks."""
        return () if self._flow_starts is None else self._flow_starts.to_come()

    def _stop_pipeline(self) -> None:
        if self._pipeline is not None:
            self._pipeline.stop()

    def fail(self, error: FlinkishError) -> None:
        """Record an error that fails the job, even if the program handles it."""
        self._gate.fail(error)

    def statuses(self) -> list[QueryStatus]:
        """Return the present status of every query that has begun (asks the JVM)."""
        return self._reports.statuses()

    def report(self) -> JobState:
        """Write the heartbeat and, while Spark can be asked, the status of every query.

        Returns the job's state in the registry: a reader may have declared the job lost.
        """
        self.restore_gate.settle_late(self.interrupt)
        self.start_phase.look()
        self._running_if_started()
        state, statuses = self._reports.send()
        self._starts.take_late()
        if self.restorer is not None:
            self.restorer.settle_claim({s.name: s.batch_id for s in statuses})
        return state

    # --- what the hook needs ----------------------------------------------------------------

    def session_created(self, session: Any) -> None:
        """Record the session and, the first time, its Spark version and application id."""
        self.session.created(session)

    def start_query(self, writer: Any, facts: WriterFacts, begin: Callable[[], Any]) -> Any:
        """Start one query of the program under flinkish's control, as :meth:`.QueryStarts.start`.

        The job becomes RUNNING once the program has started its queries.
        """
        handle = self._starts.start(writer, facts, begin)
        self._running_if_started()
        return handle

    def run_pipeline(self, run: PipelineRun, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Run a pipeline with its flows under flinkish's control; yields the run's events."""
        self._flow_starts = self._starts.flow_starts(self._running_if_started)
        self._pipeline = run
        yield from run.carry_out(self._flow_starts, begin)

    def adopt(self, query: ManagedQuery) -> None:
        """Take charge of a query that ran before flinkish was attached."""
        self._starts.adopt(query)

    def _let_go(self, _queries: Sequence[ManagedQuery]) -> None:
        """Record held queries, among them those whose tables were rolled back, before they run."""
        self._reports.record()

    def _running_if_started(self) -> None:
        """Make the job RUNNING, once, when the program has started its queries."""
        queries = self.queries()
        started = queries and self.start_phase.is_over and not self.restore_gate.closed
        if self._is_running or self.fatal is not None or not started:
            return
        self._is_running = True  # set first, as several threads call this
        names = ", ".join(f"'{query.name}'" for query in queries)
        reason = f"{'query' if len(queries) == 1 else 'queries'} {names} started"
        if missing := self.start_phase.missing:
            reason += f", {missing} more announced"
            log(f"{reason}; the job counts as running")
        try:
            self._reports.send()
            self.registry.transition(self.job_id, JobState.RUNNING, reason)
        except RegistryError as error:
            self._is_running = False  # the next heartbeat tries again
            log(f"registry: {error.message}")

    def _program_waits(self, awaited: ManagedQuery | None = None) -> None:
        """React to the program waiting for its queries: it starts no other query for now.

        ``awaited`` is the query that it waits for without a limit; None for any other wait.
        """
        self.restore_gate.settle(awaited)
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
        """React to the end of the program: it starts no other query."""
        self.start_phase.ended()
        self._running_if_started()

    def await_query(
        self, query: Any, wait: Callable[[float], Any], timeout: float | None
    ) -> bool | None:
        """Run ``StreamingQuery.awaitTermination``, subject to the gate."""
        self._program_waits(self._gate.managed(query) if timeout is None else None)
        return self._gate.await_query(query, wait, timeout)

    def await_any(self, wait: Callable[[float], Any], timeout: float | None) -> bool | None:
        """Run ``StreamingQueryManager.awaitAnyTermination``, subject to the gate."""
        self._program_waits()
        return self._gate.await_any(wait, timeout)

    def appears_active(self, query: Any) -> bool:
        """Return whether ``query`` is quiesced by a request that has no result yet."""
        self.program_asks()
        return self._gate.appears_active(query)

    def before_session_stop(self) -> None:
        """Let the request in flight finish, and end the queries, before the program stops Spark."""
        self.program_ended()
        self._gate.settle()
        self.end_queries()  # Spark would interrupt them in the middle of a batch
        try:
            self.report()
        except RegistryError as error:  # the program goes on; its end is recorded later
            log(f"registry: {error.message}")
        self.session.before_stop()

    # --- the end of the program -------------------------------------------------------------

    def wait_for_requests(self) -> None:
        """Wait until no request is in flight."""
        self._gate.settle()

    def end_queries(self, why: str | None = None) -> tuple[str, str] | None:
        """End the job's queries, as :meth:`.JobSession.end_queries`."""
        for query in self.queries():
            query.quiesced = False
        if self.session.is_stopped:
            return None
        self.restore_gate.close()
        return self.session.end_queries(why)


def _has_left(query: ManagedQuery) -> bool:
    """Return whether the run of a quiesced query has ended; wait as long as that may take."""
    deadline = time.monotonic() + _LEAVING
    while not spark_jvm.has_ended(query.jsq):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
