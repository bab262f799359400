"""What ``info`` and ``check`` show of the driver that they run: nothing, unless it failed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flinkish.cli.output import Output, copy_log
from flinkish.errors import FlinkishError


@contextmanager
def driver_output(out: Output) -> Iterator[Callable[[str], object]]:
    """Around the driver's run: yields what its log is to be given to when it was no success.

    The whole log is shown with ``--debug``; without it, and not for programs, its last lines.
    """
    try:
        yield _show if out.debug else _nowhere
    except FlinkishError as error:
        if not (out.json or out.debug):
            for line in error.data.get("tail") or ():
                out.complain(f"  {line}")
        raise


def _show(text: str) -> None:
    copy_log(text, sys.stderr)


def _nowhere(_text: str) -> None:
    """Where the log goes that nobody asked for."""
