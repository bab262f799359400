"""The gate that holds a restored job's queries before their first batch.

It holds them until all state has an owner, and until each name in an option (``--reset-source`` and
others) has been found in a query.

A program starts its queries one after the other. Whether it restores all state of the savepoint is
known only when it has started the last one: it then waits for its queries, asks for the status of
one, or does neither for a while. Until then the started queries are held, so a refused restore has
processed nothing, and changed nothing outside the job. Tables are rolled back to the savepoint
(``--sink-ahead rollback``), and the logs of file sinks are completed, before the first batch, but
only when the start can no longer be refused.

A program that waits for a bounded query may start others after it, which are not known yet. Then
the queries that it has started are judged; only their tables are rolled back, and they run. Queries
that it starts later are judged, and their tables rolled back, at the program's next wait. The first
wait would be too early for these tables: the earlier query may write to one of them, or must finish
before one is read, and a query's plan depends on its table at the start of that query.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from flinkish.driver.restore.first_batch import FirstBatch
from flinkish.driver.restore.restorer import Restorer
from flinkish.driver.runtime.query_setup import Prepared
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.runtime.start_listener import at_start
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import FlinkishError, UsageError
from flinkish.restore.plan.document import with_earlier

#: Seconds that a query is held if the program neither starts the rest nor waits for anything.
_HOLD_LIMIT = 30.0
#: Seconds that another thread of the program gets to begin the start of its next query.
_PATIENCE = 1.0
_END_GRACE = 10.0


class RestoreGate:
    """The gate of one job; without a ``restorer`` it is always open.

    ``queries`` returns the newest run of every query. ``fail`` records the error that the job fails
    with. ``let_go`` is called with the queries before they may run; its error refuses the start.
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
        self._ended_held = False
        self._lock = threading.Lock()
        self._starting = 0
        self._settled = False
        self._late: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """True while queries are held."""
        return self._held_since is not None

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Mark a query as being started: it may be the one that takes the remaining state."""
        with self._lock:
            self._starting += 1
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1

    @contextmanager
    def watching(self, prepared: Prepared, session: Any) -> Iterator[Callable[[Any], None]]:
        """Watch the start of a query; yield a function to call with the JVM's query once it runs.

        The query is held from its start if state, or a name in an option, has no owner yet, or a
        table must be rolled back. If the query was given state, its plan is compared before its
        first commit.
        """
        held = self._restorer is not None and (
            self._restorer.is_waiting() or bool(self._restorer.to_roll_back())
        )
        expected = None
        if prepared.restored_batch is not None and prepared.planned is not None:
            expected = [(op.node.ordinal, op.node.kind) for op in prepared.planned.operators]
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
            begin = watch.hold if held else partial(watch.start, held=False)
            with at_start(session, prepared.name, begin):
                yield started
        except BaseException:
            watch.give_up()
            raise

    def open(self) -> None:
        """Let all held queries continue, except those whose tables must be rolled back first."""
        left = frozenset[str]() if self._restorer is None else self._restorer.to_roll_back()
        for watch in self._watches:
            if watch.name not in left:
                watch.release()
        if all(watch.is_released for watch in self._watches):
            self._held_since = None

    def settle(self, awaited: ManagedQuery | None = None) -> None:
        """Check that all state has an owner, roll tables back, and let held queries continue.

        Called when the program is not about to start another query. ``awaited`` is the query that
        the program waits for without a limit; None if it waits for any, or for a while only.

        Raises NonRestoredState if state has no owner and ``-n`` was not given, UsageError if an
        option names something that no query has or can still have, TableError if a table cannot be
        rolled back to the savepoint, and the errors of ``let_go``.
        """
        if self._restorer is None or (self._settled and not self.closed):
            return
        self._wait_for_starts(self._restorer)
        queries = self._queries()
        # After a query that ends on its own the program may start others. One that has ended no
        # longer counts if the program waits for another.
        more = any(
            query.facts.bounded
            and (awaited is None or query is awaited or not spark_jvm.has_ended(query.jsq))
            for query in queries
        )
        try:
            notes = self._restorer.check(more_to_come=more)
            self._restorer.roll_back([query.name for query in queries])
            self._noted(notes)
            if self.closed:
                self._let_go(queries)
        except FlinkishError as error:
            self._fail(error)
            self._end_held()
            raise
        self._settled = not more
        if self.closed:
            self.open()

    def _wait_for_starts(self, restorer: Restorer) -> None:
        """Wait for queries that other threads of the program start.

        A program with threads may wait for one query while it starts the next. No table is rolled
        back while Spark may still refuse to start its query.
        """
        while self._held_since is not None and (
            restorer.is_waiting() or (self._starting and restorer.to_roll_back())
        ):
            if not self._starting and time.monotonic() - self._held_since > _PATIENCE:
                return
            time.sleep(0.05)

    def settle_late(self, interrupt: Callable[[], None]) -> None:
        """Settle, after a while, for a program that does not wait for its queries.

        Called by every heartbeat, and never waits: a restore that copies state, or a table that is
        rolled back, can take longer than a job may go without a heartbeat. ``interrupt`` ends a
        program whose restore is refused.
        """
        held_since = self._held_since
        if held_since is None or time.monotonic() - held_since < _HOLD_LIMIT or self._starting:
            return
        if self._late is None or not self._late.is_alive():
            self._late = threading.Thread(
                target=self._settle_or, args=(interrupt,), name="flinkish-settle", daemon=True
            )
            self._late.start()

    def _settle_or(self, interrupt: Callable[[], None]) -> None:
        try:
            self.settle()
        except FlinkishError:
            interrupt()

    def check_at_end(self) -> None:
        """Raise NonRestoredState if a program that ended well has not restored all state.

        Raises UsageError for a name in an option that matches nothing.
        """
        if self._restorer is None:
            return
        try:
            self._noted(self._restorer.check(more_to_come=False))
        except UsageError as error:
            if not self.closed and not self._ended_held:
                error.message += "; the queries that were started have run without it"
            raise

    def _noted(self, notes: Sequence[str]) -> None:
        """Add notes, and the plan to which they belong, to the newest query."""
        queries = self._queries()
        if notes and queries and self._restorer is not None:
            queries[-1].notes = (*queries[-1].notes, *notes)
            # A driver that was started again plans only what was not restored before.
            earlier = [query.plan for query in queries if query.plan is not None]
            queries[-1].plan = with_earlier(self._restorer.restore_plan(), earlier)

    def close(self) -> None:
        """End the held queries and all watches when the job ends."""
        self._end_held()
        if self._late is not None:
            self._late.join(_END_GRACE)  # a rollback should not outlast the job
        for watch in self._watches:
            watch.give_up()

    def end_or_open(self) -> None:
        """Release held queries for a request that ends them, or end them if a table is ahead.

        A query whose table was not rolled back must never run: its first batch would be written to
        a table that has later batches.
        """
        if self._restorer is not None and self._restorer.to_roll_back():
            self._end_held()
        else:
            self.open()

    def _end_held(self) -> None:
        """End held queries, so that they process nothing when they are released."""
        if not self.closed:
            return
        self._ended_held = True
        for watch in self._watches:
            if watch.is_at_start and not watch.is_released:
                watch.end()
        every = [query.jsq for query in self._queries()]
        are_ending = [spark_jvm.is_told_to_end(jsq) for jsq in every]
        others = [jsq for jsq, is_ending in zip(every, are_ending, strict=True) if not is_ending]
        for jsq in others:
            threading.Thread(target=jsq.stop, name="flinkish-stop", daemon=True).start()
        deadline = time.monotonic() + _END_GRACE
        for jsq in others:
            _keep_from_batches(jsq, deadline)
        for watch in self._watches:
            watch.release()
        self._held_since = None
        while time.monotonic() < deadline and not all(map(spark_jvm.has_ended, every)):
            time.sleep(0.01)


def _keep_from_batches(jsq: Any, deadline: float) -> None:
    """Make sure that a held query that is being stopped does nothing when it is released.

    The query loses access to its logs when it has read them and waits for the lock, or when it has
    ended, or at the deadline.
    """
    while time.monotonic() < deadline and not spark_jvm.has_ended(jsq):
        if spark_jvm.is_told_to_end(jsq) and spark_jvm.waits_for_lock(jsq):
            break
        time.sleep(0.01)
    spark_jvm.forbid_batches(jsq)
