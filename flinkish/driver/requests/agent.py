"""The driver's two service threads: one serves requests, one writes the heartbeat."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable

from flinkish.driver.log import log
from flinkish.driver.requests.actions import Actions
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.query_reports import persistently
from flinkish.errors import DriverLost, FlinkishError, RegistryError, WrongState
from flinkish.launch.restart_strategy import failed_state
from flinkish.registry.jobs import JobState, ProcessRef
from flinkish.registry.liveness import process_ref

#: The variable with the port of the JVM that has started this Python (``PythonRunner``).
GATEWAY = "PYSPARK_GATEWAY_PORT"
_POLL = 0.1  # seconds between cheap checks for changes in the registry
_PAUSE = 1.0  # seconds between attempts to use the registry
_FULL_POLL = 1.0  # seconds after which the registry is read even if it seems unchanged


class Agent:
    """Serves one job until :meth:`close`.

    ``heartbeat_interval`` and ``shutdown_grace`` are in seconds; the latter is how long a program
    with queries may continue after its job was stopped or cancelled. Then the program is
    interrupted. With ``let_go``, that is called instead, as flinkish did not start the process.
    """

    def __init__(
        self,
        runtime: Runtime,
        actions: Actions,
        *,
        heartbeat_interval: float,
        shutdown_grace: float,
        let_go: Callable[[], None] | None = None,
    ) -> None:
        self._let_go = let_go
        self._runtime = runtime
        self._actions = actions
        self._interval = heartbeat_interval
        self._grace = shutdown_grace
        self._closed = threading.Event()
        #: The process id of the JVM, if that has started this process; else None.
        self._parent = os.getppid() if let_go is None or GATEWAY in os.environ else None
        recorded = persistently(lambda: runtime.registry.job(runtime.job_id)).driver
        self._driver: ProcessRef | None = process_ref() if recorded is not None else None
        self._threads = [
            threading.Thread(target=self._serve, name="flinkish-agent", daemon=True),
            threading.Thread(target=self._beat, name="flinkish-heartbeat", daemon=True),
        ]

    def start(self) -> None:
        """Start both threads."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop serving, and wait for the request in flight."""
        self._closed.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _serve(self) -> None:
        registry = self._runtime.registry
        seen: object = None
        last = 0.0
        while not self._closed.wait(_POLL):
            try:
                if self._runtime.ending is not None:
                    self._watch_the_end()
                    return
                marker = registry.changes_marker()
                now = time.monotonic()
                if marker == seen and now - last < _FULL_POLL:
                    continue
                seen, last = marker, now
                request = registry.claim(self._runtime.job_id)
                while request is not None:
                    self._actions.perform(request, self._closed)
                    if self._runtime.ending is not None:
                        break
                    request = registry.claim(self._runtime.job_id)
            except RegistryError as error:
                # The registry may be unavailable for a while (PostgreSQL restarts); the job
                # continues.
                log(f"registry: {error.message}")
                self._closed.wait(_FULL_POLL)
            except Exception:  # noqa: BLE001 - logged; without this thread no request is served
                traceback.print_exc()
                self._closed.wait(_FULL_POLL)

    def _beat(self) -> None:
        while not self._closed.wait(self._interval):
            if self._is_orphaned():
                leave_without_jvm(self._runtime)
            try:
                state = self._runtime.report()
                if (state.is_final or self._is_replaced()) and not self._closed.is_set():
                    self._disowned(state)
            except RegistryError as error:
                log(f"registry: {error.message}")
            except Exception:  # noqa: BLE001 - logged; a heartbeat must not end the job
                if self._is_orphaned():
                    leave_without_jvm(self._runtime)
                if self._closed.is_set() or self._runtime.session.is_stopped:
                    continue
                # Spark did not answer: log it, the next heartbeat asks again.
                traceback.print_exc()

    def _is_orphaned(self) -> bool:
        return self._parent is not None and os.getppid() != self._parent

    def _is_replaced(self) -> bool:
        """Return whether the registry has a newer driver for the job, or waits for one."""
        job = self._runtime.registry.job(self._runtime.job_id)
        if job.state is JobState.RESTARTING:
            return True
        return self._driver is not None and job.driver != self._driver

    def _disowned(self, state: JobState) -> None:
        """End the driver, because the registry has a final state or a newer driver for its job.

        A reader that could not see this driver has declared the job lost, and the report could not
        take that back (:meth:`.Registry.take_back`). Another job may already run from its
        savepoint, so this driver must not continue.
        """
        why = "the registry has, or waits for, another driver for this job"
        if state.is_final:
            why = f"the registry says that this job is {state.value}"
        log(f"{why}: this driver must not continue")
        self._runtime.end_queries(why)
        if self._let_go is not None:
            self._let_go()
            return
        os._exit(1)

    def _watch_the_end(self) -> None:
        """Make sure that the program really ends after its job was stopped or cancelled."""
        # A program without queries waits for none, so only an interrupt can end it.
        waits = bool(self._runtime.queries()) or self._runtime.is_held
        grace = self._grace if waits else 0.0
        if self._closed.wait(grace):
            return
        if self._let_go is not None:
            self._let_go()
            return
        still = f", {grace:g} s after that" if grace else ""
        log(f"the job has ended, but its program still runs{still}: interrupting it")
        os.kill(os.getpid(), signal.SIGINT)
        if self._closed.wait(5.0):
            return
        finish_now(self._runtime, self._closed)


def leave_without_jvm(runtime: Runtime, leave: Callable[[int], None] = os._exit) -> None:
    """End a driver whose JVM was killed or crashed: record it, if the registry can be reached.

    Without the JVM an orderly exit hangs: Py4J's threads would wait for it.
    """
    registry, job_id, ending = runtime.registry, runtime.job_id, runtime.ending
    error = DriverLost("the Spark JVM of the driver is gone (killed or crashed)")
    try:
        log(f"job failed: {error.message}" if ending is None else error.message)
        failure = error.to_record() if ending is None else None
        state = ending or failed_state(runtime.launch)
        job = registry.job(job_id)
        if job.state is JobState.RESTARTING or job.driver not in (None, process_ref()):
            return  # its supervisor has seen the end too, and starts the next driver
        if state.is_final:  # else the supervisor decides on the requests too
            registry.abandon(job_id, error.to_record())
        registry.transition(job_id, state, error.message, failure=failure, seen=job)
    except RegistryError as unreachable:  # the supervisor, or a reader, will record it
        log(f"registry: {unreachable.message}")
    except WrongState as changed:  # somebody else has recorded it, or will
        log(changed.message)
    finally:
        leave(1 if ending is None else 0)


def finish_now(
    runtime: Runtime, closed: threading.Event, leave: Callable[[int], None] = os._exit
) -> None:
    """Record the job's end and exit without waiting for the program, unless it ends meanwhile.

    ``closed`` is set once the program has ended; the driver then records the end itself.
    """
    state = runtime.ending or JobState.FAILED
    ended = WrongState(f"the job is {state.value}")
    why = "its program did not end by itself and was terminated"
    while True:
        try:
            runtime.registry.abandon(runtime.job_id, ended.to_record())
            runtime.registry.transition(runtime.job_id, state, why)
        except RegistryError as error:  # unrecorded, the job would count as failed and restart
            log(f"registry: {error.message}")
            if closed.wait(_PAUSE):
                return
            continue
        except FlinkishError as error:  # somebody else has recorded its end
            log(error.message)
        break
    leave(0)
