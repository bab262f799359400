"""What a driver reports about its job's queries, and the names and claims that they hold.

A query that is being started takes its name and its claims before Spark knows it, so reports must
leave out its earlier run meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from flinkish.driver.log import log
from flinkish.driver.runtime.job_session import JobSession
from flinkish.driver.runtime.running_query import (
    ManagedQuery,
    lasting_facts,
    status_of,
    what_lasts,
)
from flinkish.driver.runtime.start_listener import at_start
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import FlinkishError, RegistryError, UsageError
from flinkish.messages.queries import QueryStatus
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobState
from flinkish.registry.liveness import process_ref

#: Seconds after a reader has declared the job lost during which its driver may go on. Later, people
#: may have used the job's state where the registry does not see it, as with plain Spark.
_OUT_OF_SIGHT = 300.0
#: Seconds for which :func:`persistently` repeats an action, and between two attempts.
_PATIENCE = 300.0
_PAUSE = 1.0
_T = TypeVar("_T")


class QueryReports:
    """Reports the queries of one job to the registry; thread-safe.

    ``queries`` returns the newest run of each query. ``to_roll_back`` returns the names of queries
    whose table must be rolled back before they run. ``fail`` records the job's error.
    """

    def __init__(
        self,
        registry: Registry,
        job_id: str,
        session: JobSession,
        queries: Callable[[], Sequence[ManagedQuery]],
        to_roll_back: Callable[[], AbstractSet[str]],
        fail: Callable[[FlinkishError], None],
    ) -> None:
        self._registry = registry
        self._job_id = job_id
        self._session = session
        self._queries = queries
        self._to_roll_back = to_roll_back
        self._fail = fail
        self._lock = threading.Lock()
        #: Names of the queries that are being started, whose last reports are of earlier runs.
        self._starting: list[str] = []

    def statuses(self) -> list[QueryStatus]:
        """Return the present status of every query (asks the JVM).

        Queries that are being started again are left out, because the end of their last run would
        release their present claims. So are queries whose table must be rolled back first. If the
        driver is killed before that, these have not started, and the next driver restores them.
        """
        left = {*self._starting, *self._to_roll_back()}
        return [status_of(query) for query in self._queries() if query.name not in left]

    def send(self) -> tuple[JobState, Sequence[QueryStatus]]:
        """Write the heartbeat, the statuses, and the facts of queries that are new or have changed.

        Returns the job's state in the registry, and the statuses: none once Spark is stopped. A
        job that a reader has wrongly declared lost is taken back. Raises RegistryError.

        Spark describes the sources of a query in its first progress report, so facts can change.
        """
        with self._lock:
            statuses = [] if self._session.is_stopped else self.statuses()
            state = self._registry.heartbeat(self._job_id, statuses)
            if state is JobState.FAILED:
                state = self._taken_back()
            reported = {status.name for status in statuses}
            for query in self._queries():
                described = what_lasts(query)
                if query.name in reported and described != query.recorded:
                    facts = lasting_facts(query)
                    self._registry.record_facts(self._job_id, query.name, query.query_id, facts)
                    query.recorded = described
        return state, statuses

    def _taken_back(self) -> JobState:
        """Take back the end of a job that a reader wrongly declared lost; return the job's state.

        After a failover of the registry's server, or a network failure, no driver has reported for
        long, and the first reader declares lost all jobs whose drivers it cannot see.
        """
        try:
            state = self._registry.take_back(self._job_id, process_ref(), within=_OUT_OF_SIGHT)
        except RegistryError:
            raise
        except FlinkishError as error:
            log(f"the registry counts this job as lost, and it cannot go on: {error.message}")
            return JobState.FAILED
        if not state.is_final:
            log("the registry had counted this job as lost, and has it again")
        return state

    def try_send(self) -> bool:
        """Send a report, and return whether it arrived; if not, the next heartbeat sends one."""
        try:
            self.send()
        except RegistryError as error:  # the job continues
            log(f"registry: {error.message}")
            return False
        return True

    def record(self, query: ManagedQuery | None = None) -> None:
        """Report all queries, or one that is being started, before Spark may run batches of them.

        Else the job's next run would not know their checkpoints if this driver died before the next
        report. Waits for the registry, and raises RegistryError if it stays unavailable.
        """

        def report() -> None:
            if query is None:
                self.send()
            else:
                self._registry.heartbeat(self._job_id, [status_of(query)])
            if not self._registry.is_reached:
                raise RegistryError("the registry has not been reached")

        persistently(report)

    @contextmanager
    def recording(
        self, name: str, session: Any, query_of: Callable[[Any], ManagedQuery]
    ) -> Iterator[None]:
        """Record query ``name`` when it starts inside the block, before it plans a batch.

        Enter this before what may hold the query at its start. ``query_of`` makes the query of
        Spark's handle. If it cannot be recorded, it runs no batch, and the error fails the job. A
        query whose table must be rolled back is recorded after that.
        """
        errors: list[FlinkishError] = []

        def record(jsq: Any) -> None:
            if name in self._to_roll_back():
                return
            try:
                self.record(query_of(SimpleNamespace(_jsq=jsq)))
            except FlinkishError as error:
                spark_jvm.end_after_batch(session._jvm, jsq)
                self._fail(error)
                errors.append(error)

        with at_start(session, name, record):
            yield
        if errors:
            raise errors[0]

    @contextmanager
    def starting(self, name: str, session: Any) -> Iterator[list[Any]]:
        """Start query ``name`` inside the block, which appends Spark's handle to the yielded list.

        The queries that have ended are reported first, which frees their claims. The claims of
        query ``name`` are released if Spark does not start it and no run of it is active.

        Raises UsageError if the name is taken (:meth:`_is_taken`); Spark checks names only within a
        session.
        """
        persistently(lambda: self._reserve(name, session))  # each attempt takes the lock anew
        handles: list[Any] = []
        try:
            yield handles
        except BaseException:
            if not handles:
                self._give_up(name)
            raise
        finally:
            self._starting.remove(name)

    def _reserve(self, name: str, session: Any) -> None:
        """Count query ``name`` as being started, once the queries that have ended are reported."""
        with self._lock:
            if self._is_taken(name, session):
                error = _name_of_two(name)
                self._fail(error)
                raise error
            ended = [query for query in self._queries() if spark_jvm.has_ended(query.jsq)]
            if ended:
                self._registry.heartbeat(self._job_id, [status_of(query) for query in ended])
            self._starting.append(name)

    def _is_taken(self, name: str, session: Any) -> bool:
        """Return whether query ``name`` is being started, or runs where Spark does not notice it.

        Spark notices no query of another session, and none whose name it does not know.
        """
        if name in self._starting:
            return True
        own = session._jsparkSession
        return any(
            (query.adopted and query.generated_name) or not query.session._jsparkSession.equals(own)
            for query in self._queries()
            if query.name == name and not spark_jvm.has_ended(query.jsq)
        )

    def _give_up(self, name: str) -> None:
        """Release the claims of a query that does not start, unless a run of it is active."""
        runs = [query for query in self._queries() if query.name == name]
        if any(query.quiesced or not spark_jvm.has_ended(query.jsq) for query in runs):
            return
        try:
            self._registry.claim_resources(self._job_id, name, [])
        except FlinkishError as error:  # why the query has not started matters more
            log(f"query '{name}' has not started, and may still hold its output: {error.message}")


def _name_of_two(name: str) -> UsageError:
    """Return the refusal of a second query of the same name: names identify a job's queries."""
    return UsageError(
        f"two running queries of the program have the same name: '{name}'",
        hint="give each query a different queryName, even across sessions (newSession)",
    )


def persistently(action: Callable[[], _T]) -> _T:
    """Return the action's result; repeat the action for a while if the registry is unavailable.

    Raises RegistryError if the registry stays unavailable. A job whose end is not recorded would
    count as failed, and might be restarted.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return action()
        except RegistryError as error:
            log(f"registry: {error.message}")
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)


def patient(registry: Registry) -> Registry:
    """Return a registry each of whose methods is called :func:`persistently`."""
    return cast("Registry", _Patient(registry))


class _Patient:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._registry, name)
        if not callable(value):
            return value
        return lambda *given, **named: persistently(lambda: value(*given, **named))
