"""The end of a program that flinkish did not start, noticed from inside the program's process.

The status of a program that calls ``sys.exit`` is known. The status of a program that raises
``SystemExit`` itself is not known, because Python calls no hook for it. Nor does Python report
whether the program has handled a ``SystemExit`` of ``sys.exit``. A program that starts queries
after that call counts as having handled the exception.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Any, NoReturn

from flinkish.driver.script import ProgramOutcome


class ProgramEnd:
    """Calls ``conclude`` with the program's outcome when it ends, until :meth:`remove`.

    ``conclude`` returns an exit status that replaces the program's, or None. Errors in an
    ``interactive`` interpreter are not the program's end. ``starts`` returns how many
    starts of queries the program has begun.
    """

    def __init__(
        self,
        conclude: Callable[[ProgramOutcome], int | None],
        *,
        interactive: bool = False,
        starts: Callable[[], int] = lambda: 0,
    ) -> None:
        self._conclude = conclude
        self._starts = starts
        #: The number of starts when the program called ``sys.exit``.
        self._starts_before: int | None = None
        self._outcome = ProgramOutcome(0)
        self._is_over = False
        self._process = os.getpid()
        self._excepthook = sys.excepthook
        self._exit = sys.exit
        if not interactive:
            sys.excepthook = self._raised
            sys.exit = self._exits
        # The end must be noticed before Python's executors refuse work, as a savepoint may be in
        # flight. Their module registers itself in the same way when it is imported, and what is
        # registered last is called first.
        import_module("concurrent.futures.thread")
        register = getattr(threading, "_register_atexit", atexit.register)
        register(self._ended)

    def remove(self) -> None:
        """Ignore the program's end from now on."""
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
        self._outcome, self._starts_before = ProgramOutcome(1, error), None
        return self._excepthook(kind, error, trace)

    def _exits(self, code: Any = None) -> NoReturn:
        if threading.current_thread() is threading.main_thread():
            is_number = isinstance(code, int)
            status = code if is_number else int(code is not None)
            self._outcome = ProgramOutcome(status, SystemExit(code) if status else None)
            if os.getpid() == self._process:  # in a child, a lock may be held for ever
                self._starts_before = self._starts()
        self._exit(code)
        raise AssertionError  # sys.exit does not return

    def _ended(self) -> None:
        if self._is_over or os.getpid() != self._process:  # a child made by fork
            return
        self._is_over = True
        is_handled = self._starts_before is not None and self._starts() != self._starts_before
        status = self._conclude(ProgramOutcome(0) if is_handled else self._outcome)
        if status is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
