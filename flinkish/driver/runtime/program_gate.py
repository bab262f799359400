"""The gate that holds the program while a request is in flight, and the queries that it guards.

The *gate* is the rule that makes a ``stop`` one action: from the moment a request quiesces the
queries until it has its result, ``awaitTermination`` does not return, ``isActive`` stays true and
``SparkSession.stop`` waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import FlinkishError
from flinkish.registry.jobs import JobState

_AWAIT_SLICE = 3600.0  # seconds; any value works, as waits are renewed


class ProgramGate:
    """The job's queries, its end, and the requests that the program waits for.

    ``ending`` is the final state of the job once its program ends, if a stop or cancel has set it;
    ``fatal`` is the error that fails the job. The condition ``changed`` guards this state, and the
    decisions that are based on it.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self._in_flight = 0
        self._queries: list[ManagedQuery] = []
        self._by_run: dict[str, ManagedQuery] = {}
        self._resumes = 0
        self.ending: JobState | None = None
        self.fatal: FlinkishError | None = None

    def end(self, state: JobState) -> None:
        """Set how the job ends; the program continues once the request in flight has settled."""
        with self.changed:
            self.ending = state
            self.changed.notify_all()

    def fail(self, error: FlinkishError) -> None:
        """Record an error that fails the job, even if the program handles it; the first counts."""
        with self.changed:
            self.fatal = self.fatal or error

    def queries(self) -> list[ManagedQuery]:
        """Return the newest run of each query name, in the order of their first starts."""
        with self.changed:
            newest = {query.name: query for query in self._queries}
        return list(newest.values())

    def add(self, query: ManagedQuery) -> None:
        """Add a query that the program has started."""
        with self.changed:
            self._queries.append(query)
            self._by_run[query.run_id] = query

    def restarted(self, query: ManagedQuery) -> None:
        """Note the new run of a query."""
        with self.changed:
            self._by_run[query.run_id] = query

    def resumed(self) -> None:
        """Note that quiesced queries continue; the program continues to wait for them."""
        with self.changed:
            self._resumes += 1

    def enter(self) -> AbstractContextManager[None]:
        """Put a request in flight; it has its result when the returned context exits."""
        with self.changed:
            self._in_flight += 1
        return self._until_done()

    @contextmanager
    def _until_done(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self.changed:
                self._in_flight -= 1
                self.changed.notify_all()

    def settle(self) -> None:
        """Wait until no request is in flight."""
        with self.changed:
            self.changed.wait_for(lambda: self._in_flight == 0)

    def await_query(
        self, query: Any, wait: Callable[[float], Any], timeout: float | None
    ) -> bool | None:
        """Run ``StreamingQuery.awaitTermination``, and return only when no request is in flight."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._rebind(query)
            left = _AWAIT_SLICE if deadline is None else max(deadline - time.monotonic(), 0.001)
            try:
                ended = wait(left)
            finally:
                self.settle()
            if self._rebind(query):
                continue
            if ended and spark_jvm.has_ended(query._jsq):
                return None if deadline is None else True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def await_any(self, wait: Callable[[float], Any], timeout: float | None) -> bool | None:
        """Run ``StreamingQueryManager.awaitAnyTermination`` as :meth:`await_query`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            resumes = self._resumes
            left = _AWAIT_SLICE if deadline is None else max(deadline - time.monotonic(), 0.001)
            try:
                ended = wait(left)
            finally:
                self.settle()
            if self._resumes != resumes:
                continue
            if ended:
                return None if deadline is None else True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def appears_active(self, query: Any) -> bool:
        """Return whether ``query`` is quiesced by a request that has no result yet."""
        with self.changed:
            self._rebind(query)
            managed = self.managed(query)
            return managed is not None and managed.quiesced and self._in_flight > 0

    def managed(self, query: Any) -> ManagedQuery | None:
        """Return the job's query behind a ``StreamingQuery``; None if it is not the job's."""
        return self._by_run.get(str(query._jsq.runId().toString()))

    def _rebind(self, query: Any) -> bool:
        """Point ``query`` at the newest run of its query; return whether it had an older run."""
        with self.changed:
            managed = self.managed(query)
            if managed is None or managed.run_id == str(query._jsq.runId().toString()):
                return False
            query._jsq = managed.jsq
            return True
