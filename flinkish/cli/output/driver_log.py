"""The output about a driver that a command runs to its end: its last lines, if it failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flinkish.cli.output.printer import Output
from flinkish.errors import FlinkishError


@contextmanager
def driver_output(out: Output) -> Iterator[None]:
    """Show the last lines of the driver's log when the driver that the block runs fails.

    With ``--debug`` the whole log has already been shown
    (:class:`flinkish.cli.output.progress.OutputReporter`). With ``--json`` the lines are in the
    error.
    """
    try:
        yield
    except FlinkishError as error:
        if not (out.json or out.debug):
            for line in error.data.get("tail") or ():
                out.complain(f"  {line}")
        raise
