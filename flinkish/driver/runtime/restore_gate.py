"""Keeps the queries of a restored job from their first batch until all state has an owner.

A program starts its queries one after the other, so whether it takes all that is in the savepoint
is known only when it has started the last: it waits for them, asks one how it is, or does neither
for a while. Until then what has been started is held; so a refused restore has processed nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flinkish.driver.restore.first_batch import FirstBatch
from flinkish.driver.restore.restorer import Restorer
from flinkish.driver.runtime.query_setup import Prepared
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.runtime.start_listener import at_start
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import FlinkishError

#: Seconds a query is held for a program that neither starts the rest nor waits for anything.
_HOLD_LIMIT = 30.0
#: Seconds that another thread of the program gets to begin the start of its next query.
_PATIENCE = 1.0
_END_GRACE = 10.0
_INTERRUPTED = 1.0  # seconds, generously, between Spark's TERMINATED and its interrupt


class RestoreGate:
    """One job's gate; without a ``restorer`` it is always open.

    Parameters
    ----------
    queries: gives the newest run of every query.
    fail: notes the error that the job fails with.
    let_go: called with the queries that may run, once they may.
    """

    def __init__(
        self,
        restorer: Restorer | None,
        queries: Callable[[], Sequence[ManagedQuery]],
        fail: Callable[[FlinkishError], None],
        let_go: Callable[[Sequence[ManagedQuery]], None],
    ) -> None:
        self._restorer = restorer
        self._queries = queries
        self._fail = fail
        self._let_go = let_go
        self._watches: list[FirstBatch] = []
        self._held_since: float | None = None
        self._lock = threading.Lock()
        self._starting = 0
        self._settled = False

    @property
    def closed(self) -> bool:
        """True while queries are held."""
        return self._held_since is not None

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While a query is being started: it may be the one that takes what is left."""
        with self._lock:
            self._starting += 1
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1

    @contextmanager
    def watching(self, prepared: Prepared, session: Any) -> Iterator[Callable[[Any], None]]:
        """Around the start of a query: yields what is to be called with the query (the JVM's) at
        the moment it runs. From then on it is held where state waits for another query; its plan
        is compared before its first commit where it was given state."""
        held = self._restorer is not None and self._restorer.is_waiting()
        expected = None
        if prepared.restored_batch is not None and prepared.planned is not None:
            expected = [(op.ordinal, op.kind) for op in prepared.planned.operators]
        if self._restorer is None or not (held or expected):
            yield lambda jsq: self.open()
            return
        watch = FirstBatch(prepared.name, session, expected, self._fail)
        watch.get_ready()

        def started(jsq: Any) -> None:
            watch.start(jsq, held=held)
            self._watches.append(watch)
            if held:
                self._held_since = time.monotonic()
            else:
                self.open()

        try:
            # The watch begins before Spark plans a batch: after the start of the query has
            # returned, a slow driver could be too late for the comparison.
            with at_start(session, prepared.name, lambda jsq: watch.start(jsq, held=held)):
                yield started
        except BaseException:
            watch.give_up()
            raise

    def open(self) -> None:
        """Let all queries go on that are held."""
        for watch in self._watches:
            watch.release()
        self._held_since = None

    def settle(self) -> None:
        """The program starts no other query for now: all of the savepoint must have an owner.

        Raises
        ------
        NonRestoredState: it has not, and ``-n`` was not given.
        """
        if self._restorer is None or self._settled:
            return
        self._wait_for_starts(self._restorer)
        queries = self._queries()
        # Behind a query that ends by itself the program may start others.
        more = any(query.facts.bounded for query in queries)
        try:
            notes = self._restorer.check(more_to_come=more)
        except FlinkishError as error:
            self._fail(error)
            self._end_held()
            raise
        if notes and queries:
            queries[-1].notes = (*queries[-1].notes, *notes)
            queries[-1].plan = self._restorer.document()
        self._settled = not more
        if self.closed:
            self.open()
            self._let_go(queries)

    def _wait_for_starts(self, restorer: Restorer) -> None:
        """A program with threads may wait for one query while it starts the next."""
        while self._held_since is not None and restorer.is_waiting():
            if not self._starting and time.monotonic() - self._held_since > _PATIENCE:
                return
            time.sleep(0.05)

    def settle_late(self, interrupt: Callable[[], None]) -> None:
        """The same, after a while, for a program that does not wait for its queries; called now
        and then. ``interrupt`` ends a program whose restore is refused."""
        if self._held_since is None or time.monotonic() - self._held_since < _HOLD_LIMIT:
            return
        try:
            self.settle()
        except FlinkishError:
            interrupt()

    def check_at_end(self) -> None:
        """The program has ended well: raise NonRestoredState when it has left state behind."""
        if self._restorer is not None:
            self._restorer.check(more_to_come=False)

    def close(self) -> None:
        """The job ends: whatever is held ends with it."""
        self._end_held()
        for watch in self._watches:
            watch.give_up()

    def _end_held(self) -> None:
        """End queries that are held, so that they process nothing when they are let go."""
        if not self.closed:
            return
        queries = self._queries()
        for query in queries:
            threading.Thread(target=query.jsq.stop, name="flinkish-stop", daemon=True).start()
        deadline = time.monotonic() + _END_GRACE
        while time.monotonic() < deadline and not all(
            spark_jvm.is_told_to_end(query.jsq) for query in queries
        ):
            time.sleep(0.01)
        time.sleep(_INTERRUPTED)
        self.open()
