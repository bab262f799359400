"""Access to the JVM objects of a query and its session, for every supported Spark version.

Facts used (verified on 3.5.9 and 4.3.0): ``StreamExecution.state()`` is an ``AtomicReference``; the
objects ``TERMINATED`` and ``ACTIVE`` live in ``org.apache.spark.sql.execution.streaming`` (3.5) or
in its sub-package ``runtime`` (4.x).
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

_STREAMING = "org.apache.spark.sql.execution.streaming"
#: The fields of ``StreamExecution`` that hold its offset log and its commit log.
_LOGS = ("offsetLog", "commitLog")


@functools.cache
def scala_object(jvm: Any, simple_name: str) -> Any:
    """Return the Scala object ``simple_name`` of Spark's streaming packages.

    Looks in the package of 4.x first, then in that of 3.5. Raises RuntimeError when neither has it.
    """
    classes = getattr(jvm, "java.lang.Class")
    loader = getattr(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    tried = []
    for package in (f"{_STREAMING}.runtime", _STREAMING):
        name = f"{package}.{simple_name}$"
        try:
            return classes.forName(name, True, loader).getField("MODULE$").get(None)
        except Exception as error:
            # py4j cannot be imported at module level in tests of the pure parts. So the error is
            # recognized by its text: only "no such class" continues with the next name.
            if "ClassNotFoundException" not in str(error):
                raise
            tried.append(name)
    raise RuntimeError(f"this Spark has none of {', '.join(tried)}")


def stream_execution(jsq: Any) -> Any:
    """Return the ``StreamExecution`` of a query (unwraps ``StreamingQueryWrapper``)."""
    if jsq.getClass().getSimpleName() == "StreamingQueryWrapper":
        return jsq.streamingQuery()
    return jsq


def end_after_batch(jvm: Any, jsq: Any) -> None:
    """Let the running batch finish and commit, and start no further batch.

    On Spark 4.x this is safe only at certain moments: see :mod:`flinkish.driver.runtime.quiesce`.
    """
    stream_execution(jsq).state().set(scala_object(jvm, "TERMINATED"))


def take_back_end(jvm: Any, jsq: Any) -> bool:
    """Undo :func:`end_after_batch` and return whether the state was still TERMINATED.

    The caller must check afterwards whether the query ended anyway.
    """
    state = stream_execution(jsq).state()
    return bool(state.compareAndSet(scala_object(jvm, "TERMINATED"), scala_object(jvm, "ACTIVE")))


def is_told_to_end(jsq: Any) -> bool:
    """Return whether the query's state is TERMINATED; its thread may still be running."""
    return str(stream_execution(jsq).state().get().toString()).startswith("TERMINATED")


def has_ended(jsq: Any) -> bool:
    """Return whether the query's thread has ended.

    Neither ``isActive`` nor the result of ``awaitTermination(timeout)`` shows this: both look at
    the state that the quiesce itself has set (``StreamExecution``, 3.5 to 4.3).
    """
    return not stream_execution(jsq).queryExecutionThread().isAlive()


def forgetting_ends(sessions: Iterable[Any]) -> Callable[[], None]:
    """Return a function that makes ``awaitAnyTermination`` wait again after queries have ended.

    Spark's ``StreamingQueryManager`` remembers until it is reset that a query has ended, and every
    later wait returns at once (3.5 to 4.3). Ends before this call stay remembered.
    """
    managers = [session._jsparkSession.streams() for session in sessions]
    without = [manager for manager in managers if not _has_ended_query(manager)]

    def forget() -> None:
        for manager in without:
            manager.resetTerminated()

    return forget


def _has_ended_query(manager: Any) -> bool:
    from pyspark.errors import StreamingQueryException

    try:
        return bool(manager.awaitAnyTermination(1))
    except StreamingQueryException:  # a query has failed
        return True


def waits_for_lock(jsq: Any) -> bool:
    """Return whether the query's thread is queued for the progress lock."""
    return bool(progress_lock(jsq).hasQueuedThread(stream_execution(jsq).queryExecutionThread()))


def forbid_batches(jsq: Any) -> None:
    """Make it impossible for the query to plan or commit another batch; the next attempt fails.

    Call it for a query that must end, while its thread cannot get the progress lock. An interrupt
    alone may not end the query: Hadoop's ``Shell.joinThread`` swallows an interrupt while a log
    file is written, and Spark 3.5 then runs the whole batch although the state is TERMINATED.
    Without its logs, ``MicroBatchExecution`` can plan and commit no batch (run on 3.5.9, 4.0.5,
    4.1.4, 4.2.1 and 4.3.0).
    """
    execution = stream_execution(jsq)
    for field in _fields(execution):
        if field.getName() in _LOGS:
            field.setAccessible(True)
            field.set(execution, None)


def let_start_return(jsq: Any) -> None:
    """Let ``start`` return, while the query's own thread still posts the event of its start.

    ``start`` waits for a latch that the query's thread opens after that event (3.5 to 4.3). Raises
    RuntimeError if this Spark has no such latch.
    """
    execution = stream_execution(jsq)
    for field in _fields(execution):
        if field.getName().rpartition("$")[2] == "startLatch":
            field.setAccessible(True)
            field.get(execution).countDown()
            return
    raise RuntimeError("this Spark's StreamExecution has no startLatch")


def _fields(instance: Any) -> Iterator[Any]:
    """Yield the fields that a JVM object's class and its superclasses declare."""
    declaring = instance.getClass()
    while declaring is not None:
        yield from declaring.getDeclaredFields()
        declaring = declaring.getSuperclass()


def field_of(instance: Any, name: str) -> Any:
    """Return the value of a private field of a JVM object."""
    field = instance.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(instance)


def in_trigger(jsq: Any) -> bool:
    """Return whether a batch is being planned or run."""
    return bool(jsq.status().isTriggerActive())


def has_input(jsq: Any) -> bool:
    """Return whether the query's newest look for input has found some."""
    return bool(jsq.status().isDataAvailable())


#: Messages of ``StreamingQueryStatus`` between two looks for input, and during a look
#: (``MicroBatchExecution``, the same from 3.5 to 4.3).
_BETWEEN_LOOKS = ("Waiting for next trigger", "Waiting for data to arrive")
_LOOKS = "Getting offsets from "
#: What the message of a failed query begins with (``StreamExecution``, 3.5 to 4.3).
_FAILED = "Terminated with exception"


def waits_for_input(jsq: Any) -> bool:
    """Return whether the query's newest look for input has found none, and no batch is computed.

    A batch without data, which removes old state, counts as one that is computed.
    """
    return _waits(read_status(jsq), lambda: jsq.lastProgress() is not None)


def _waits(status: Mapping[str, Any], has_progress: Callable[[], bool]) -> bool:
    if status["isDataAvailable"]:
        return False
    message = str(status["message"])
    if message.startswith(_LOOKS):  # the status is still that of the previous look
        return has_progress()
    return message in _BETWEEN_LOOKS


def read_status(jsq: Any) -> dict[str, Any]:
    """Return the ``StreamingQueryStatus`` of a query as plain data."""
    status: dict[str, Any] = json.loads(jsq.status().json())
    return status


class Run:
    """One run of a query, observed repeatedly with few calls to the JVM.

    Each call to the JVM is a round trip, made while batches run. It takes another round trip when
    Python drops an object that a call has returned.
    """

    def __init__(self, jsq: Any) -> None:
        self.jsq = jsq
        self._thread = stream_execution(jsq).queryExecutionThread()

    def look(self) -> Look:
        """Return the present state of the run."""
        has_ended = not self._thread.isAlive()
        status = read_status(self.jsq)
        # The exception and this message are set before the run's thread ends.
        has_failed = has_ended or str(status["message"]).startswith(_FAILED)
        progress = last_progress(self.jsq)
        return Look(
            has_ended,
            error_of(self.jsq) if has_failed else None,
            progress,
            _waits(status, lambda: progress is not None),
        )


@dataclass(frozen=True)
class Look:
    """The state of a run: whether its thread has ended, its error, its newest report of progress,
    and whether it waits for input (:func:`waits_for_input`)."""

    has_ended: bool
    error: str | None
    progress: Mapping[str, Any] | None
    waits_for_input: bool


class Stage(Enum):
    """The position of a query's stream thread within its trigger."""

    ASLEEP = "asleep"  # waits for the next trigger
    BEFORE = "before"  # looks for new data, writes the offsets
    PLANNING = "planning"
    EXECUTING = "executing"
    AFTER = "after"  # has committed


def stage_of(jsq: Any) -> Stage:
    """Return the query's stage, from the durations that Spark 4.x records during a trigger."""
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
    """Return whether :func:`stage_of` works and is needed, as on Spark 4.x."""
    try:
        stream_execution(jsq).getLatestExecutionContext()
    except Exception as error:
        if "does not exist" in str(error):  # Py4J's message for an unknown method
            return False
        raise
    return True


#: The text before the root cause of a query's error.
CAUSED_BY = "\nCaused by: "
#: Maximum number of causes of an exception that are followed.
_CAUSES = 20


def progress_lock(jsq: Any) -> Any:
    """Return the lock that Spark holds to plan a batch's offsets and to commit a batch."""
    return stream_execution(jsq).awaitProgressLock()


def error_of(jsq: Any) -> str | None:
    """Return the message of the exception that ended the query, with its root cause, or None.

    A sink that writes files or a table hides the cause: its own exception says only that a task
    failed while writing.
    """
    exception = jsq.exception()
    if exception.isEmpty():
        return None
    error = exception.get()
    message, root = str(error.getMessage()), error
    for _ in range(_CAUSES):
        if root.getCause() is None:
            break
        root = root.getCause()
    cause = root.getMessage()
    if cause is None or str(cause) in message:
        return message
    return f"{message}{CAUSED_BY}{root.getClass().getSimpleName()}: {cause}"


def checkpoint_root(jsq: Any) -> str:
    """Return the query's checkpoint directory as Spark resolved it (a URI)."""
    return str(stream_execution(jsq).resolvedCheckpointRoot())


def last_progress(jsq: Any) -> dict[str, Any] | None:
    """Return the newest progress report as plain data (the same JSON on every version)."""
    progress = jsq.lastProgress()
    if progress is None:
        return None
    result: dict[str, Any] = json.loads(progress.json())
    return result


#: Held while the settings of a session are those of one query that starts.
_STARTING = threading.RLock()


@contextmanager
def configured_for_start(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Set ``settings`` as :func:`configured`; threads that start other queries wait meanwhile."""
    with _STARTING, configured(session, settings):
        yield


@contextmanager
def configured(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Inside the block, set ``settings`` in ``session``; restore the previous values after it."""
    before = {key: session.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)
