"""Describe mode: the user's program runs; its queries are planned, but not started.

``flinkish info`` and ``check`` request it (:class:`~flinkish.messages.calls.DescribeTask`).
``DataStreamWriter.start`` and ``toTable`` plan the query and return a query that has already ended.
The rest of the program runs unchanged, to its end.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from flinkish.driver.connect.server import stop_session
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.planned_queries import query_record
from flinkish.driver.plan.restore_environment import DriverRestoreEnvironment
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts, own_location
from flinkish.driver.restore.query_restores import (
    check_names,
    offers_here,
    plan_start,
    planning_settings,
    settings_of,
)
from flinkish.driver.runtime.hook import Hook
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.naming import Names, one_spelling
from flinkish.driver.runtime.pipeline_run import PipelineRun
from flinkish.driver.script import ProgramOutcome, print_traceback, program_failed
from flinkish.driver.spark.jvm import configured
from flinkish.driver.tasks.answering import answer_with
from flinkish.errors import FlinkishError
from flinkish.messages.calls import Described, DescribeTask, RestoreQuestion
from flinkish.messages.launch import RestoreSpec
from flinkish.operators.graph import require_uids
from flinkish.registry.jobs import JobState
from flinkish.restore.origin.restore_inputs import NewQuery
from flinkish.restore.plan.query_id import OtherRun
from flinkish.restore.plan.query_restore import QueryRestore
from flinkish.restore.plan.restore_planner import RestorePlanner


def main(
    task: DescribeTask, options: Mapping[str, str], call_path: str, argv: Sequence[str]
) -> int:
    """Run the driver in this mode; ``argv`` as in :mod:`.bootstrap`.

    Writes a :class:`~flinkish.messages.calls.Described` and returns the driver's exit status.
    """

    def planning() -> PlanningRuntime:
        runtime = PlanningRuntime(options)
        if task.restore is not None:
            runtime.plan_restore(task.restore)
        return runtime

    return answer_with(planning, call_path, argv)


_STOPPED = {"message": "Stopped", "isDataAvailable": False, "isTriggerActive": False}


class PlanningRuntime:
    """Stands in for the job's runtime that the hook calls: it plans queries and starts none.

    ``queries`` are the planned queries, as pairs of name and plan; none if a restore is planned.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._planning = Planning(options)
        self._names = Names("")  # no query gets a checkpoint from these names
        self.queries: list[tuple[str, PlannedQuery]] = []
        self._fatal: FlinkishError | None = None
        self._session: Any = None
        self._planner: RestorePlanner | None = None
        self._spec: RestoreSpec | None = None
        self._starting: list[NewQuery] = []

    def plan_restore(self, question: RestoreQuestion) -> None:
        """Also plan the restore of a savepoint or a job, with the queries that the program starts.

        Raises SavepointNotFound or another error of :func:`offers_here`, or UsageError.
        """
        runs = {
            query_id: [OtherRun.of(run, JobState(run.state)) for run in runs_of_id]
            for query_id, runs_of_id in question.runs.items()
        }

        def known_runs(query_id: str, *, other_id: bool = False) -> list[OtherRun]:
            runs_of_query = runs.get(query_id, ())
            return [run for run in runs_of_query if (run.since is not None) is other_id]

        self._spec = question.spec
        self._planner = RestorePlanner(
            offers_here(self._spec, question.job),
            self._spec.options,
            DriverRestoreEnvironment(
                known_runs,
                under_other_ids=partial(known_runs, other_id=True),
                read_elsewhere=question.read_elsewhere.get,
                begun_elsewhere=question.begun_elsewhere.get,
                offline=self._spec.options.offline,
                writers=lambda: question.writers,
            ),
            settings_of(self._spec, self._planning),
        )

    def answer(self) -> object:
        """Describe the queries, and plan the restore if one was requested."""
        queries = tuple(query_record(name, planned) for name, planned in self.queries)
        plan = None if self._planner is None else self._planner.restore_plan(complete=True)
        return Described(queries, plan)

    def run(self, program: Callable[[], ProgramOutcome]) -> ProgramOutcome:
        """Run ``program`` with PySpark's writers intercepted."""
        hook = Hook(cast(Runtime, self))  # it has the members that the hook uses
        hook.install()
        try:
            return program()
        finally:
            hook.remove()

    def failure(self, outcome: ProgramOutcome) -> FlinkishError | None:
        """Return the error with which a submission of the program would end, or None."""
        if self._fatal is not None:
            return self._fatal
        if outcome.status != 0:
            if outcome.error is not None:
                print_traceback(outcome.error)
            return program_failed(outcome)
        if self._spec is not None:
            try:
                check_names(self._spec, self._starting)
            except FlinkishError as unused:
                return unused
        if self._planning.uids_required:
            try:
                # All queries are checked at once, so that the error lists every operator.
                require_uids(node for _, planned in self.queries for node in planned.graph)
            except FlinkishError as missing:
                return missing
        return None

    def close(self) -> None:
        """Remove the temporary files of the run."""

    def stop_session(self) -> None:
        """Stop Spark if the program has not."""
        if self._session is not None:
            stop_session(self._session)

    # --- what the hook calls ----------------------------------------------------------------

    def session_created(self, session: Any) -> None:
        """Keep the session, so that it can be stopped at the end."""
        self._session = session

    def before_session_stop(self) -> None:
        """Forget the session, as the program stops Spark itself."""
        self._session = None

    def fail(self, error: FlinkishError) -> None:
        """Record an error, even if the program handles it."""
        self._fatal = self._fatal or error

    def start_query(self, writer: Any, facts: WriterFacts, begin: Callable[[], Any]) -> Any:
        """Plan the query, and return a query that has ended; ``begin`` is never called."""
        self.session_created(writer._spark)
        name = self._name_of(facts, writer._spark)
        try:
            if self._planner is not None:
                self._plan_restore(self._planner, name, writer, facts)
                return ended_query(name)
            planned, notes = self._planning.plan(name, writer, facts, require_uids=False)
        except FlinkishError as error:
            self.fail(error)
            raise
        planned = replace(planned, notes=tuple(notes))
        self.queries.append((name, planned))
        return ended_query(name)

    def run_pipeline(self, run: PipelineRun, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Plan the flows of a pipeline; the run that ``begin`` would ask for never takes place."""
        for flow in run.flows():
            with configured(run.session, flow.settings):
                self.start_query(flow.writer, flow.facts, begin)
        yield from ()

    def _plan_restore(
        self, planner: RestorePlanner, name: str, writer: Any, facts: WriterFacts
    ) -> tuple[PlannedQuery | None, QueryRestore]:
        """Plan the query and its restore, as a job does before it makes the checkpoint."""
        planned, _ = self._planning.plan_to_run(
            name, writer, facts, planning_settings(planner.offers, name)
        )
        modules = self._planning.snapshot_modules(planned)
        new, restore = plan_start(planner, name, planned, facts, writer._spark, modules)
        self._starting.append(new)
        return planned, restore

    def await_query(self, query: Any, wait: Callable[[float], Any], timeout: float | None) -> Any:
        """Return at once, as no query runs."""
        return None if timeout is None else True

    def await_any(self, wait: Callable[[float], Any], timeout: float | None) -> Any:
        """Return at once, as :meth:`await_query` does."""
        return None if timeout is None else True

    def wait_for_requests(self) -> None:
        """Return at once, as there are no requests."""

    def program_asks(self) -> None:
        """Do nothing, as no query is held."""

    def appears_active(self, query: Any) -> bool:
        """Return False, as no query is active."""
        return False

    # --- inside -----------------------------------------------------------------------------

    def _name_of(self, facts: WriterFacts, session: Any) -> str:
        """Return a query's name; an unnamed one is named as in a job in which no query fails."""
        if facts.query_name is None:
            own = own_location(facts, session)
            return self._names.generate(own and one_spelling(own, session), None)
        return self._names.given(str(facts.query_name))


def ended_query(name: str) -> Any:
    """Return a ``StreamingQuery`` that has ended without an error and without a batch."""
    from pyspark.sql.streaming.query import StreamingQuery

    class EndedQuery(StreamingQuery):
        """Answers at once and without data; PySpark's own class calls the JVM."""

        id = property(lambda self: query_id)
        runId = property(lambda self: run_id)
        name = property(lambda self: name)
        isActive = property(lambda self: False)
        lastProgress = property(lambda self: None)
        recentProgress = property(lambda self: [])
        status = property(lambda self: dict(_STOPPED))

        def __init__(self) -> None:
            pass

        def awaitTermination(self, timeout: int | None = None) -> bool | None:
            return None if timeout is None else True

        def processAllAvailable(self) -> None:
            pass

        def stop(self) -> None:
            pass

        def explain(self, extended: bool = False) -> None:
            pass

        def exception(self) -> None:
            pass

    query_id, run_id = str(uuid.uuid4()), str(uuid.uuid4())
    return EndedQuery()
