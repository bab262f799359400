"""What commands show of a driver that they run to its end: its last lines, when it failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flinkish.cli.output.printer import Output
from flinkish.errors import FlinkishError


@contextmanager
def driver_output(out: Output) -> Iterator[None]:
    """Around the driver's run: when it was no success, show the last lines of its log.

    With ``--debug`` the whole log has been shown
    (:class:`flinkish.cli.output.progress.OutputReporter`); programs that read JSON have the lines
    in the error.
    """
    try:
        yield
    except FlinkishError as error:
        if not (out.json or out.debug):
            for line in error.data.get("tail") or ():
                out.complain(f"  {line}")
        raise
