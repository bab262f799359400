"""The first batch of a restored query: held until all state has an owner, then checked.

A restored query is held at the event of its start, before it has read its logs, until the program
has started the other queries whose state is in the savepoint. So nothing has been processed if one
of them is missing. The progress lock would not be enough: Spark takes it to plan and to commit a
batch, but runs one that is planned in the savepoint without the lock, up to its commit (4.3.0).

Then, before the first batch can commit, the ordinals of Spark's real plan are compared with those
that the state was restored to. The progress lock is fair, and another thread that
holds it keeps the query from its commit without harm (3.5.9 and 4.3.0).
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from flinkish.driver.plan.plan_nodes import executed_operators
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import FlinkishError, Incompatible

_POLL = 0.002  # seconds; a batch takes longer from its plan to its commit
_IDLE_POLL = 0.02  # seconds, after _IDLE_AFTER seconds without a batch
_IDLE_AFTER = 5.0

#: Ordinal and kind of stateful operators.
Operators = Sequence[tuple[int, str]]


class _Look:
    """One of the two threads that read the plan; ``jvm_thread`` takes the lock for it."""

    def __init__(self, jvm_thread: Any) -> None:
        self._jvm_thread = jvm_thread
        #: Set when this thread will not take the lock again.
        self.over = threading.Event()

    def wait_until_queued(self, lock: Any) -> None:
        """Wait until this thread is queued for the lock, or is over."""
        while not self.over.is_set() and not lock.hasQueuedThread(self._jvm_thread):
            time.sleep(_POLL / 4)


class FirstBatch:
    """Watches one restored query, in threads of its own.

    Parameters
    ----------
    expected
        The operators that the state was restored to; None if there is nothing to compare.
    refuse
        Fails the job with the error if Spark's plan differs, or if the query cannot be held.
    """

    def __init__(
        self,
        name: str,
        session: Any,
        expected: Operators | None,
        refuse: Callable[[FlinkishError], None],
    ) -> None:
        self.name = name
        self._session = session
        self._jsq: Any = None
        self._expected = expected
        self._refuse = refuse
        self._ready = threading.Event()
        self._started = threading.Event()
        self._locked = threading.Event()
        self._released = threading.Event()
        self._given_up = threading.Event()
        self._seen = threading.Event()
        #: Whether the query's own thread waits, or has waited, in :meth:`hold`.
        self.is_at_start = False
        # Py4J gives each Python thread a JVM thread of its own, and a JVM thread owns the lock.
        self._thread = threading.Thread(target=self._run, name="flinkish-first-batch", daemon=True)

    def get_ready(self) -> None:
        """Start the watching thread before the query starts.

        Its JVM thread, which takes the lock, must exist by then: its creation takes too long.
        """
        self._thread.start()
        self._ready.wait(10.0)

    def start(self, jsq: Any, *, held: bool) -> None:
        """Begin to watch the query, which now runs.

        Parameters
        ----------
        jsq
            The JVM's query.
        held
            Keep the query from planning a batch until :meth:`release` is called.
        """
        self._jsq = jsq
        if not held:
            self._released.set()
        self._started.set()
        self._locked.wait(10.0)

    def hold(self, jsq: Any) -> None:
        """Watch a query, and keep it where it is until :meth:`release` or :meth:`give_up`.

        Called on the query's own thread, at the event of its start.
        """
        self.start(jsq, held=True)
        try:
            spark_jvm.let_start_return(jsq)
        except RuntimeError as error:  # an unknown StreamExecution: better no batch at all
            self.end()
            self._refuse(
                Incompatible(
                    f"query '{self.name}' cannot be held before its first batch: {error}",
                    hint="report it with the version of Spark; the savepoint is untouched",
                )
            )
            return
        self.is_at_start = True
        self._released.wait()

    def end(self) -> None:
        """End a query that is held at its start: it runs no batch, and is not interrupted."""
        spark_jvm.end_after_batch(self._session._jvm, self._jsq)
        self.give_up()

    @property
    def is_released(self) -> bool:
        """Whether the query may run, or has been ended."""
        return self._released.is_set()

    def release(self) -> None:
        """Let the query continue."""
        self._released.set()

    def give_up(self) -> None:
        """End the watch without a verdict on the plan."""
        self._given_up.set()
        self._released.set()
        self._started.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(10.0)

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        first = None
        try:
            first = _Look(self._current_jvm_thread())
            self._ready.set()
            self._started.wait()
            if self._jsq is None:  # Spark has refused to start it
                return
            lock = spark_jvm.progress_lock(self._jsq)
            lock.lock()
            self._locked.set()
            try:
                self._released.wait()
                if self._expected is None or self._given_up.is_set():
                    return
                expected = list(self._expected)
                second = self._second_look(lock, first, expected)
                second.wait_until_queued(lock)
            finally:
                lock.unlock()
            self._verify(lock, second, expected)
        except Exception:  # noqa: BLE001 - logged; Spark is being stopped under the watch
            if not self._given_up.is_set():
                traceback.print_exc()
        finally:
            if first is not None:
                first.over.set()  # the second thread may hold the lock and wait for this one
            self._ready.set()
            self._locked.set()

    def _current_jvm_thread(self) -> Any:
        """Return the JVM thread that serves this Python thread, creating it if there is none."""
        return self._session._jvm.java.lang.Thread.currentThread()

    def _second_look(self, lock: Any, first: _Look, expected: list[tuple[int, str]]) -> _Look:
        """Start the second of the two threads that take turns; called while the lock is held."""
        made: queue.SimpleQueue[_Look] = queue.SimpleQueue()

        def run() -> None:
            second = _Look(self._current_jvm_thread())
            made.put(second)
            try:
                self._verify(lock, first, expected)
            except Exception:  # noqa: BLE001 - as in _run
                if not self._given_up.is_set():
                    traceback.print_exc()
            finally:
                second.over.set()

        threading.Thread(target=run, name="flinkish-first-batch-2", daemon=True).start()
        return made.get(timeout=10.0)

    def _verify(self, lock: Any, other: _Look, expected: list[tuple[int, str]]) -> None:
        """Compare the plan of the first batch with the expected one before the batch can commit.

        Two threads take turns: one releases the lock only when the other waits for it. The lock is
        fair, so one of them holds it at some time between the planning of a batch's offsets and its
        commit, however slow the driver is.
        """
        started = time.monotonic()
        while True:
            lock.lock()
            try:
                if self._seen.is_set() or self._given_up.is_set():
                    return
                execution = spark_jvm.stream_execution(self._jsq).lastExecution()
                if execution is not None:
                    self._seen.set()
                    self._compare(list(executed_operators(self._session, execution)), expected)
                    return
                if spark_jvm.has_ended(self._jsq):
                    self._seen.set()
                    return
                waited = time.monotonic() - started
                time.sleep(_POLL if waited < _IDLE_AFTER else _IDLE_POLL)
                other.wait_until_queued(lock)
            finally:
                lock.unlock()

    def _compare(self, real: list[tuple[int, str]], expected: list[tuple[int, str]]) -> None:
        if real == expected:
            return
        self._refuse(
            Incompatible(
                f"query '{self.name}': Spark runs the stateful operators {_listed(real)}, but "
                f"the state belongs to {_listed(expected)}; the query was stopped before its first "
                "commit",
                hint="report it with the query's explain(); the savepoint is untouched",
            )
        )
        # The query's thread waits for the lock that is held here, or will wait before it commits.
        spark_jvm.forbid_batches(self._jsq)
        stop = threading.Thread(target=self._jsq.stop, name="flinkish-stop", daemon=True)
        stop.start()
        while not spark_jvm.is_told_to_end(self._jsq):
            time.sleep(_POLL)


def _listed(operators: Operators) -> str:
    return ", ".join(f"{ordinal} {kind}" for ordinal, kind in operators) or "none"
