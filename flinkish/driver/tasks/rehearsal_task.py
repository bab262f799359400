"""Rehearse mode: the user's program runs, and its queries run a few batches on copies of state.

``flinkish rehearse`` requests it (:class:`~flinkish.messages.calls.RehearsalTask`).
``DataStreamWriter.start`` and ``toTable`` run the query to the end of its rehearsal, one query
after the other, and return a query that has ended. The rest of the program runs unchanged, to its
end. The output of a file sink goes into the rehearsal's directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flinkish import storage
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime.rehearsal import Rehearsal
from flinkish.driver.tasks.answering import answer_with
from flinkish.driver.tasks.describe import PlanningRuntime, ended_query
from flinkish.errors import FlinkishError, UsageError
from flinkish.messages.calls import RehearsalTask
from flinkish.messages.rehearsals import Rehearsed, RehearsedQuery
from flinkish.savepoint.directory.leases import Kind, Lease

#: The owner of the lease, as there is no job.
OWNER = "flinkish rehearse"

_FILES = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "xml"})
#: Sinks that store no output outside the driver.
_HARMLESS = frozenset({"noop", "console", "memory"})


def main(
    task: RehearsalTask, options: Mapping[str, str], call_path: str, argv: Sequence[str]
) -> int:
    """Run the driver in this mode; ``argv`` as in :mod:`.bootstrap`.

    Writes a :class:`~flinkish.messages.rehearsals.Rehearsed` and returns the driver's exit status.
    """
    return answer_with(lambda: RehearsedProgram(task, options), call_path, argv)


class RehearsedProgram(PlanningRuntime):
    """Replaces the runtime that the hook calls, and runs each query that is started."""

    def __init__(self, task: RehearsalTask, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._task = task
        self._spec = task.question.spec
        self._rehearsal = Rehearsal(task.question.spec, task.question.job, options, task.directory)
        # The lease in the rehearsal's directory tells a purge that the directory is in use.
        self._lease = Lease.take(task.directory, Kind.REWRITE, owner=OWNER, path=task.directory)
        self._rehearsed: list[RehearsedQuery] = []

    def start_query(self, writer: Any, facts: WriterFacts, begin: Callable[[], Any]) -> Any:
        """Rehearse the query, and return a query that has ended; ``begin`` is never called.

        After a failed query no other query runs, as it may need the output of the failed one.
        """
        session = writer._spark
        self.session_created(session)
        name = self._name_of(facts, session)
        if any(query.error is not None for query in self._rehearsed):
            return ended_query(name)
        try:
            facts = facts.copy()  # as the program set them, without the name set below
            writer.queryName(name)
            jwriter = self._redirected(writer._jwrite, name, facts)
            trigger = session._jvm.org.apache.spark.sql.streaming.Trigger
            jwriter = jwriter.trigger(trigger.ProcessingTime(0))
            self._rehearsed.append(
                self._rehearsal.run(name, writer, facts, jwriter, self._task.limits)
            )
        except FlinkishError as error:
            self.fail(error)
            raise
        self._starting = list(self._rehearsal.starting.values())
        if self._rehearsed[-1].error is not None:
            self._spec = None  # so that names of queries that are not run are not errors
        return ended_query(name)

    def answer(self) -> Rehearsed:
        """Return the outcomes of the queries, and the plan of the restore."""
        return Rehearsed(
            tuple(self._rehearsed), self._rehearsal.planner.restore_plan(complete=True)
        )

    def close(self) -> None:
        """Release the lease, and remove everything that the rehearsal has written."""
        try:
            self._lease.release()
        finally:
            self._rehearsal.close()

    def _redirected(self, jwriter: Any, name: str, facts: WriterFacts) -> Any:
        """Return the writer with a sink that writes nothing outside the rehearsal's directory."""
        if self._task.drop_output:
            return jwriter.format("noop")
        format_ = facts.format or "parquet"
        if facts.table is None and format_.lower() in _FILES:
            output = self._rehearsal.names.directory(f"output-{name}", fresh=False)
            return jwriter.option("path", storage.for_spark(output))
        if facts.table is None and format_.lower() in _HARMLESS:
            return jwriter
        what = f"the table {facts.table}" if facts.table is not None else f"a {format_} sink"
        raise UsageError(
            f"query '{name}' writes to {what}, which a rehearsal cannot redirect",
            hint="discard the output of all queries with --sink noop",
        )
