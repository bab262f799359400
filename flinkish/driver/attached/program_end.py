"""The end of a program that flinkish did not start: noticed from inside its processes.

Python tells nobody the status of a program that raises ``SystemExit`` itself; one that calls
``sys.exit`` is known.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import FrameType, TracebackType
from typing import Any, ClassVar, NoReturn

from flinkish.driver.script import ProgramOutcome


class ProgramEnd:
    """Calls ``conclude`` with the program's outcome when it ends, until :meth:`remove`.

    ``conclude`` returns the exit status of the process in place of the program's, or None.
    """

    def __init__(self, conclude: Callable[[ProgramOutcome], int | None]) -> None:
        self._conclude = conclude
        self._outcome = ProgramOutcome(0)
        self._is_over = False
        self._excepthook = sys.excepthook
        self._exit = sys.exit
        sys.excepthook = self._raised
        sys.exit = self._exits
        # Before executors refuse work, as a savepoint may be in flight. They register themselves in
        # the same way, when they are imported; the last that is registered is called first.
        import_module("concurrent.futures.thread")
        register = getattr(threading, "_register_atexit", atexit.register)
        register(self._ended)

    def remove(self) -> None:
        """Take no notice of the program's end any more."""
        self._is_over = True
        if sys.excepthook == self._raised:
            sys.excepthook = self._excepthook
        if sys.exit == self._exits:
            sys.exit = self._exit

    def _raised(
        self,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> Any:
        self._outcome = ProgramOutcome(1, error)
        return self._excepthook(kind, error, trace)

    def _exits(self, code: Any = None) -> NoReturn:
        if threading.current_thread() is threading.main_thread():
            is_number = isinstance(code, int)
            status = code if is_number else int(code is not None)
            self._outcome = ProgramOutcome(status, SystemExit(code) if status else None)
        self._exit(code)
        raise AssertionError  # sys.exit does not return

    def _ended(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        status = self._conclude(self._outcome)
        if status is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


class JvmTerminated:
    """What SIGTERM to a driver's JVM does, until :meth:`remove`: ``act`` is called first.

    ``spark-submit`` becomes the JVM, which starts Python: a container's SIGTERM reaches that alone,
    and Spark's own hook would stop the context under the running batch. The JVM waits for ``act``
    as long as Hadoop lets a hook take (``hadoop.service.shutdown.timeout``, 30 s).
    """

    def __init__(self, session: Any, act: Callable[[], object]) -> None:
        java_gateway: Any = import_module("pyspark.java_gateway")
        java_gateway.ensure_callback_server_started(session.sparkContext._gateway)
        self._hooks = session._jvm.org.apache.spark.util.ShutdownHookManager
        self._reference = self._hooks.addShutdownHook(_BEFORE_SPARK, _Hook(act))

    def remove(self) -> None:
        """Take the hook back; the JVM may be gone."""
        from py4j.protocol import Py4JError

        with suppress(Py4JError, OSError):
            self._hooks.removeShutdownHook(self._reference)


#: The hook that stops the context has 50; higher ones run earlier (``ShutdownHookManager``).
_BEFORE_SPARK = 100


class _Hook:
    """A function of Scala's without arguments and result, for Py4J."""

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

    A second signal, or :meth:`go_on`, does what SIGTERM did before. Only the main thread can
    install this (ValueError).
    """

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._noted = threading.Event()
        self._before = signal.signal(signal.SIGTERM, self._on_signal)
        # The handler interrupts whatever the main thread does, which may hold any lock.
        threading.Thread(target=self._wait, name="flinkish-terminate", daemon=True).start()

    def remove(self) -> None:
        """Give SIGTERM back, from the main thread."""
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, self._before)

    def go_on(self) -> None:
        """End the process as SIGTERM would have; from any thread."""
        self._noted.set()
        os.kill(os.getpid(), signal.SIGTERM)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._noted.is_set():
            self._noted.set()
            return
        signal.signal(signal.SIGTERM, self._before)
        os.kill(os.getpid(), number)

    def _wait(self) -> None:
        self._noted.wait()
        self._act()
