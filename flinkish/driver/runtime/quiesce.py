"""Ending queries at a batch boundary, or by harder means if that takes too long.

The stop methods, softest first (the one that was used is part of a request's result):

* ``quiesce``: the running batch commits, and no other starts, with any sink.
* ``stop``: ``StreamingQuery.stop()`` in the middle of a batch. A restore replays the batch. Spark
  may leave incomplete state of the *uncommitted* version, which a savepoint never includes.

Setting a query's state to TERMINATED lets its batch finish, but on Spark 4.x only at some moments.
``MicroBatchExecution.runBatch`` checks the state once more between planning and execution, and
interrupts its own thread if the state is TERMINATED (seen on 4.3.0: 6 of 25 queries that were ended
at a random moment lost the batch they were planning; 3.5.9 has no such check: 0 of 20). So on 4.x
the state is set only while Spark's progress lock is held, which prevents a batch from being planned
and from being committed, and only when the query sleeps or is past that check.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from flinkish.driver.log import log
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.driver.spark.jvm import Stage
from flinkish.errors import FlinkishError, GivenUp

_POLL = 0.05  # seconds
_LOOK = 1.0  # seconds between calls of ``interrupted``
_STAGE_POLL = 0.003  # seconds; a stage can be that short
#: Seconds, with a margin, between the end of a batch's planning and Spark's check of the state.
_PAST_CHECK = 0.05
#: A trigger counts as asleep if it was idle twice, this many seconds apart: between Spark's check
#: of the state and its "trigger active" flag there is a moment when a batch has begun unseen.
_IDLE_CONFIRMATION = 0.1
#: Seconds that queries get to end when they are interrupted.
_STOP_LIMIT = 10.0


def quiesce(
    jvm: Any,
    queries: Sequence[Any],
    timeout: float,
    interrupted: Callable[[], None] | None = None,
) -> None:
    """End every query (JVM ``StreamingQuery`` objects) at its next batch boundary.

    ``timeout`` is in seconds, for running batches. ``interrupted`` is called about once a second
    and raises a FlinkishError to end the wait.

    Raises GivenUp if a batch still ran after ``timeout`` seconds, or the error of ``interrupted``.
    The end is then taken back for queries that still ran; the caller restarts those that ended.
    """
    deadline = time.monotonic() + timeout
    for query in queries:
        _declare_end(jvm, query, deadline)
    idle_since: dict[int, float] = {}
    waiting = list(queries)
    next_look = time.monotonic() + _LOOK
    while waiting:
        waiting = [q for q in waiting if not spark_jvm.has_ended(q)]
        now = time.monotonic()
        for query in waiting:
            if spark_jvm.in_trigger(query):
                idle_since.pop(id(query), None)
            elif now - idle_since.setdefault(id(query), now) >= _IDLE_CONFIRMATION:
                # This wakes a trigger that sleeps until its next interval; it cannot hit a batch.
                query.stop()
        try:
            if waiting and now > deadline:
                raise GivenUp(
                    f"a running batch did not end within {timeout:.0f} s",
                    hint="raise execution.quiesce.timeout, or cancel the job without a savepoint",
                )
            if waiting and interrupted is not None and now >= next_look:
                next_look = now + _LOOK
                interrupted()
        except FlinkishError:
            for query in waiting:
                spark_jvm.take_back_end(jvm, query)
            raise
        if waiting:
            time.sleep(_POLL)


def _declare_end(jvm: Any, query: Any, deadline: float) -> None:
    """Set a query's state to TERMINATED when that costs no batch; give up at ``deadline``."""
    if not spark_jvm.has_stages(query):
        spark_jvm.end_after_batch(jvm, query)
        return
    lock = spark_jvm.progress_lock(query)
    while not spark_jvm.has_ended(query):
        if lock.tryLock():
            try:
                if _declare_locked(jvm, query, deadline):
                    return
            finally:
                lock.unlock()
        if time.monotonic() > deadline:
            return  # quiesce() notices that the query has not ended
        time.sleep(_STAGE_POLL)


def _declare_locked(jvm: Any, query: Any, deadline: float) -> bool:
    """Try once to set the state, with the progress lock held; return whether it was set."""
    stage = spark_jvm.stage_of(query)
    while stage is Stage.PLANNING and time.monotonic() < deadline:
        time.sleep(_STAGE_POLL)
        stage = spark_jvm.stage_of(query)
    if stage is Stage.EXECUTING:
        # The batch cannot commit while the lock is held, so it still executes after this pause. In
        # the pause it gets past the check that follows planning.
        time.sleep(_PAST_CHECK)
        spark_jvm.end_after_batch(jvm, query)
        return True
    if stage is Stage.ASLEEP:
        spark_jvm.end_after_batch(jvm, query)
        time.sleep(_PAST_CHECK)
        if spark_jvm.stage_of(query) is Stage.ASLEEP:
            return True
        # A trigger has begun meanwhile. It waits for the lock, so it has not seen the state yet.
        spark_jvm.take_back_end(jvm, query)
    return False


def stop_hard(queries: Sequence[Any]) -> None:
    """Interrupt everything that runs: the hardest stop method inside the driver.

    Spark waits without limit for a batch that it cannot interrupt (a Python function). So every
    query has a thread of its own, and one that still runs after :data:`_STOP_LIMIT` is left.
    """
    running = [query for query in queries if not spark_jvm.has_ended(query)]
    threads = [
        threading.Thread(target=_stop, args=(query,), name="flinkish-stop", daemon=True)
        for query in running
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _STOP_LIMIT
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))
    if any(thread.is_alive() for thread in threads):
        log(f"a batch was interrupted, and still runs {_STOP_LIMIT:g} s after that: leaving it")


def _stop(query: Any) -> None:
    try:
        query.stop()
    except Exception:  # noqa: BLE001 - whatever Spark says, the other queries are stopped
        traceback.print_exc()
