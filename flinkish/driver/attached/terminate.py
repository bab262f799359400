"""SIGTERM to a driver that another launcher has started: the job is stopped with a savepoint."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Any, ClassVar

from flinkish.config import Config
from flinkish.driver.log import log
from flinkish.driver.requests.agent import GATEWAY
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.errors import FlinkishError, Locked
from flinkish.registry.jobs import RequestKind, RequestState, arguments_for
from flinkish.registry.waiting import wait_request

_SAVEPOINTS = "execution.checkpointing.savepoint-dir"
#: Seconds that SIGTERM waits for its savepoint; the launcher's own grace ends earlier as a rule.
_LIMIT = 600.0


def savepoint_on_terminate(
    config: Config, runtime: Runtime, session: Any
) -> SavepointOnTerminate | None:
    """Handle SIGTERM as ``execution.savepoint-on-terminate`` says; return None if it says no.

    Returns None as well if no directory is set, or this is not the main thread.
    """
    if not config.boolean("execution.savepoint-on-terminate"):
        return None
    directory = config.get(_SAVEPOINTS)
    if directory is None:
        log(f"SIGTERM takes no savepoint: {_SAVEPOINTS} is not set")
        return None
    try:
        return SavepointOnTerminate(runtime, session, directory)
    except ValueError:  # not the main thread
        log("SIGTERM takes no savepoint: flinkish.attach() was not called by the main thread")
        return None


class SavepointOnTerminate:
    """Stops a job with a savepoint when its driver gets SIGTERM, until :meth:`remove`."""

    def __init__(self, runtime: Runtime, session: Any, directory: str) -> None:
        self._runtime = runtime
        self._directory = directory
        self._is_asked = False
        self._signal = Terminated(self._stop_or_end)
        self._hook = JvmTerminated(session, self._stop) if GATEWAY in os.environ else None

    def remove(self) -> None:
        """Restore what SIGTERM did before, as far as this thread can."""
        if self._hook is not None:
            self._hook.remove()
        if threading.current_thread() is threading.main_thread():
            self._signal.remove()

    def job_outlived(self) -> None:
        """End a program that was asked to end, and runs on after its job."""
        if self._is_asked:
            self._signal.go_on()

    def _stop_or_end(self) -> None:
        """Stop the job with a savepoint; without one, end the process as SIGTERM does."""
        if not self._stop():
            self._signal.go_on()

    def _stop(self) -> bool:
        """Stop the job with a savepoint, and return whether it is stopped with one."""
        self._is_asked = True
        registry, job_id = self._runtime.registry, self._runtime.job_id
        log(f"SIGTERM: stopping the job with a savepoint in {self._directory}")
        try:
            arguments = arguments_for(RequestKind.STOP, self._directory)
            request = registry.submit(job_id, RequestKind.STOP, arguments, "SIGTERM").request_id
        except Locked as stopped:  # by another signal, or by flinkish stop
            request = str(stopped.data.get("request_id"))
        except FlinkishError as error:
            log(f"no savepoint is taken: {error.message}")
            return False
        try:
            answer = wait_request(registry, request, _LIMIT)
        except FlinkishError as error:
            log(f"no savepoint was taken: {error.message}")
            return False
        if answer.state is RequestState.FAILED:
            log(f"no savepoint was taken: {(answer.error or {}).get('message')}")
            return False
        return True


class JvmTerminated:
    """What SIGTERM to a driver's JVM does, until :meth:`remove`: ``act`` is called first.

    ``spark-submit`` becomes the JVM, which starts Python. So a container's SIGTERM reaches the JVM
    alone, and Spark's own hook would stop the context under the running batch. The JVM waits for
    ``act`` as long as Hadoop lets a hook take (``hadoop.service.shutdown.timeout``, 30 s).
    """

    def __init__(self, session: Any, act: Callable[[], object]) -> None:
        java_gateway: Any = import_module("pyspark.java_gateway")
        java_gateway.ensure_callback_server_started(session.sparkContext._gateway)
        self._hooks = session._jvm.org.apache.spark.util.ShutdownHookManager
        self._reference = self._hooks.addShutdownHook(_BEFORE_SPARK, _Hook(act))

    def remove(self) -> None:
        """Remove the hook; the JVM may be gone."""
        from py4j.protocol import Py4JError

        with suppress(Py4JError, OSError):
            self._hooks.removeShutdownHook(self._reference)


#: The hook's priority; higher priorities run earlier. Spark's own hooks have 100 (a local executor
#: stops its tasks) and 50 (the context): ``Executor``, ``ShutdownHookManager``.
_BEFORE_SPARK = 1000


class _Hook:
    """A Scala function without arguments and result, for Py4J."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        # How Scala calls a Function0 that returns Unit.
        setattr(self, "apply$mcV$sp", self.apply)

    def apply(self) -> None:
        self._act()

    class Java:
        implements: ClassVar[list[str]] = ["scala.Function0"]


class Terminated:
    """What SIGTERM does, until :meth:`remove`: ``act`` is called in a thread of its own, once.

    A second signal, or :meth:`go_on`, does what SIGTERM did before. Raises ValueError if it is not
    made in the main thread.
    """

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._noted = threading.Event()
        self._process = os.getpid()
        self._before = signal.signal(signal.SIGTERM, self._on_signal)
        # The handler interrupts whatever the main thread does, which may hold any lock.
        threading.Thread(target=self._wait, name="flinkish-terminate", daemon=True).start()

    def remove(self) -> None:
        """Restore what SIGTERM did before; called in the main thread."""
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, self._before)

    def go_on(self) -> None:
        """Do what SIGTERM did before, which may end the process; called in any thread."""
        self._noted.set()
        os.kill(os.getpid(), signal.SIGTERM)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._noted.is_set() and os.getpid() == self._process:  # no child made by fork
            self._noted.set()
            return
        signal.signal(signal.SIGTERM, self._before)
        os.kill(os.getpid(), number)

    def _wait(self) -> None:
        self._noted.wait()
        self._act()
