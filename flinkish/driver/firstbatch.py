"""The first batch of a restored query: not before all state has an owner, not with another plan.

Spark holds a query's progress lock (a fair one) to plan a batch's offsets and to commit a batch.
Who holds it from outside keeps the query from both, unharmed (3.5.9 and 4.3.0). A restored query
is so held until the program has started the other queries whose state is in the savepoint: when one
is missing, nothing has been processed yet. Then, before the first batch can commit, the ordinals of
Spark's real plan are compared with those that the state was given to.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from flinkish.driver import jvm as spark_jvm
from flinkish.driver.plannodes import executed_operators
from flinkish.errors import FlinkishError, Incompatible

_POLL = 0.002  # seconds; a batch takes longer from its plan to its commit
_IDLE_POLL = 0.02  # seconds, once no batch came for a while
_IDLE_AFTER = 5.0

#: Ordinal and kind of stateful operators.
Operators = Sequence[tuple[int, str]]


class FirstBatch:
    """Watches one restored query, in a thread of its own.

    Parameters
    ----------
    expected: the operators that the state was given to; None: nothing to compare.
    refuse: called with the error when Spark's plan is another; it fails the job.
    """

    def __init__(
        self,
        name: str,
        session: Any,
        expected: Operators | None,
        refuse: Callable[[FlinkishError], None],
    ) -> None:
        self._name = name
        self._session = session
        self._jsq: Any = None
        self._expected = expected
        self._refuse = refuse
        self._ready = threading.Event()
        self._started = threading.Event()
        self._locked = threading.Event()
        self._released = threading.Event()
        self._given_up = threading.Event()
        # Py4J gives each Python thread a thread of the JVM: the lock belongs to that one.
        self._thread = threading.Thread(target=self._run, name="flinkish-first-batch", daemon=True)

    def get_ready(self) -> None:
        """Before the query is started: the thread of the JVM that will take the lock must not have
        to be made when every millisecond counts."""
        self._thread.start()
        self._ready.wait(10.0)

    def start(self, jsq: Any, *, held: bool) -> None:
        """The query runs; when ``held``, it plans no batch until :meth:`release` is called."""
        self._jsq = jsq
        if not held:
            self._released.set()
        self._started.set()
        self._locked.wait(10.0)

    @property
    def held(self) -> bool:
        """Whether the query is being kept from its first batch."""
        return not self._released.is_set()

    def release(self) -> None:
        """Let the query go on."""
        self._released.set()

    def give_up(self) -> None:
        """End the watch, without a word on what the query does."""
        self._given_up.set()
        self._released.set()
        self._started.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(10.0)

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._session._jvm.java.lang.System.nanoTime()  # makes this thread's JVM thread
            self._ready.set()
            self._started.wait()
            if self._jsq is None:  # Spark has refused to start it
                return
            lock = spark_jvm.progress_lock(self._jsq)
            lock.lock()
            self._locked.set()
            try:
                self._released.wait()
            finally:
                lock.unlock()
            if self._expected is not None:
                self._verify(lock, list(self._expected))
        except Exception:  # noqa: BLE001 - logged; Spark is being stopped under the watch
            if not self._given_up.is_set():
                traceback.print_exc()
        finally:
            self._ready.set()
            self._locked.set()

    def _verify(self, lock: Any, expected: list[tuple[int, str]]) -> None:
        """Look at the plan of the first batch as soon as there is one."""
        started = time.monotonic()
        while not self._given_up.is_set() and not spark_jvm.has_ended(self._jsq):
            # Held while looking: a batch that has been planned cannot commit meanwhile. The lock
            # is fair, so this request is served before that of a commit yet to come.
            lock.lock()
            try:
                execution = spark_jvm.stream_execution(self._jsq).lastExecution()
                if execution is not None:
                    self._compare(list(executed_operators(self._session, execution)), expected)
                    return
            finally:
                lock.unlock()
            waited = time.monotonic() - started
            time.sleep(_POLL if waited < _IDLE_AFTER else _IDLE_POLL)

    def _compare(self, real: list[tuple[int, str]], expected: list[tuple[int, str]]) -> None:
        if real == expected:
            return
        self._refuse(
            Incompatible(
                f"query '{self._name}': Spark runs the stateful operators {_listed(real)}, the "
                f"state was given to {_listed(expected)}; the query was stopped before its first "
                "commit",
                hint="report it with the query's explain(); the savepoint is untouched",
            )
        )
        # Its thread waits for the lock that is held here: it sees the interrupt when it gets it,
        # before it can commit.
        stop = threading.Thread(target=self._jsq.stop, name="flinkish-stop", daemon=True)
        stop.start()
        while not spark_jvm.is_told_to_end(self._jsq):
            time.sleep(_POLL)


def _listed(operators: Operators) -> str:
    return ", ".join(f"{ordinal} {kind}" for ordinal, kind in operators) or "none"
