"""A savepoint rewritten by a driver of its own, with its progress on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flinkish.cli.driver_output import driver_output
from flinkish.cli.output import Output, is_terminal
from flinkish.cli.text import size_text
from flinkish.jobs import migrator
from flinkish.jobs.model import Launch
from flinkish.jobs.program import Installation


def rewrite(
    out: Output, wanted: migrator.Migration, launch: Launch, installation: Installation
) -> dict[str, Any]:
    """What the driver answers; see :func:`flinkish.jobs.migrator.migrate_savepoint`."""
    out.note(f"rewriting the state of {wanted.path} ...")
    with driver_output(out) as show_log, _progress(out) as show_progress:
        return migrator.migrate_savepoint(
            wanted,
            launch,
            installation,
            environ=os.environ,
            show_log=show_log,
            on_progress=show_progress,
        )


@contextmanager
def _progress(out: Output) -> Iterator[Callable[[int, int], object]]:
    """Yields what rows and bytes are told to: a line on a terminal, nothing anywhere else."""
    if out.json or out.quiet or not is_terminal(sys.stderr):
        yield lambda _rows, _size: None
        return
    from rich.console import Console  # only on a terminal: it costs more than the whole command

    with Console(stderr=True).status("starting Spark ...") as status:
        yield lambda rows, size: status.update(f"{rows:,} rows, {size_text(size)} written")
