"""The few places where Spark's JVM objects are touched, for every supported Spark version.

Facts used (proven on 3.5.9 and 4.3.0): ``StreamExecution.state()`` is an ``AtomicReference``;
the objects ``TERMINATED`` and ``ACTIVE`` live in ``org.apache.spark.sql.execution.streaming``
(3.5) or in its sub-package ``runtime`` (4.x).
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

_STREAMING = "org.apache.spark.sql.execution.streaming"


def scala_object(jvm: Any, simple_name: str) -> Any:
    """The Scala object ``simple_name`` of Spark's streaming package, wherever this Spark has it."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    tried = []
    for package in (f"{_STREAMING}.runtime", _STREAMING):
        name = f"{package}.{simple_name}$"
        try:
            return jvm.java.lang.Class.forName(name, True, loader).getField("MODULE$").get(None)
        except Exception as error:
            # py4j cannot be imported at module level in tests of pure parts; its error type
            # is checked by name so that nothing but "no such class" goes on to the next name.
            if "ClassNotFoundException" not in str(error):
                raise
            tried.append(name)
    raise RuntimeError(f"this Spark has none of {', '.join(tried)}")


def stream_execution(jsq: Any) -> Any:
    """The ``StreamExecution`` behind a ``StreamingQuery`` (unwraps ``StreamingQueryWrapper``)."""
    if jsq.getClass().getSimpleName() == "StreamingQueryWrapper":
        return jsq.streamingQuery()
    return jsq


def end_after_batch(jvm: Any, jsq: Any) -> None:
    """Let the running batch finish and commit, then start no other.

    On Spark 4.x only at the right moment: see :mod:`flinkish.driver.runtime.quiesce`.
    """
    stream_execution(jsq).state().set(scala_object(jvm, "TERMINATED"))


def take_back_end(jvm: Any, jsq: Any) -> bool:
    """Undo :func:`end_after_batch`; the caller must see afterwards whether it was in time."""
    state = stream_execution(jsq).state()
    return bool(state.compareAndSet(scala_object(jvm, "TERMINATED"), scala_object(jvm, "ACTIVE")))


def is_told_to_end(jsq: Any) -> bool:
    """True once the query's state is TERMINATED; its thread may still be at work."""
    return str(stream_execution(jsq).state().get().toString()).startswith("TERMINATED")


def has_ended(jsq: Any) -> bool:
    """True when the stream's thread is through.

    Neither ``isActive`` nor the result of ``awaitTermination(timeout)`` can tell: both compare
    the state that the quiesce itself has set (``StreamExecution``, 3.5 to 4.3).
    """
    return not stream_execution(jsq).queryExecutionThread().isAlive()


def in_trigger(jsq: Any) -> bool:
    """True while a batch is being planned or run."""
    return bool(jsq.status().isTriggerActive())


class Stage(Enum):
    """Where a query's stream thread is within its trigger."""

    ASLEEP = "asleep"  # waits for the next trigger
    BEFORE = "before"  # looks for new data, writes the offsets
    PLANNING = "planning"
    EXECUTING = "executing"
    AFTER = "after"  # has committed


def stage_of(jsq: Any) -> Stage:
    """The query's stage, from the durations Spark records as a trigger goes on (4.x only)."""
    context = stream_execution(jsq).getLatestExecutionContext()
    status = context.currentStatus()
    if not status.isTriggerActive():
        return Stage.ASLEEP
    if status.message() != "Processing new data":
        return Stage.BEFORE
    if context.getDuration("commitOffsets").isDefined():
        return Stage.AFTER
    planned = context.getDuration("queryPlanning").isDefined()
    return Stage.EXECUTING if planned else Stage.PLANNING


def has_stages(jsq: Any) -> bool:
    """True where :func:`stage_of` works, and is needed: Spark 4.x."""
    try:
        stream_execution(jsq).getLatestExecutionContext()
    except Exception as error:
        if "does not exist" in str(error):  # Py4J's words for an unknown method
            return False
        raise
    return True


def progress_lock(jsq: Any) -> Any:
    """The lock Spark holds to plan a batch's offsets and to commit a batch."""
    return stream_execution(jsq).awaitProgressLock()


def error_of(jsq: Any) -> str | None:
    """The message of the exception that ended the query, or None."""
    exception = jsq.exception()
    return None if exception.isEmpty() else str(exception.get().getMessage())


def checkpoint_root(jsq: Any) -> str:
    """The query's checkpoint directory as Spark resolved it (a URI)."""
    return str(stream_execution(jsq).resolvedCheckpointRoot())


def last_progress(jsq: Any) -> dict[str, Any] | None:
    """The newest progress report as plain data (same JSON on every version)."""
    progress = jsq.lastProgress()
    if progress is None:
        return None
    result: dict[str, Any] = json.loads(progress.json())
    return result
