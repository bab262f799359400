"""``flinkish list`` outside the fast path: help, ``--watch``, errors."""

from __future__ import annotations

import sys
import time

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.jobs_table import list_failed, list_jobs
from flinkish.cli.output.printer import is_terminal
from flinkish.errors import UsageError

_REDRAW = 1.0  # seconds


@command("list", exit_codes=())
@click.option("-r", "--running", is_flag=True, help="Only jobs that run or restart.")
@click.option("-s", "--scheduled", is_flag=True, help="Only jobs that are being started.")
@click.option("-a", "--all", "everything", is_flag=True, help="Ended jobs too.")
@click.option(
    "--failed", is_flag=True, help="Only jobs that ran and failed, and were not acknowledged."
)
@click.option("--name", metavar="NAME", help="Only jobs of this name.")
@click.option("--watch", is_flag=True, help="Redraw every second until Ctrl-C.")
def list_command(
    call: Call,
    running: bool,
    scheduled: bool,
    everything: bool,
    failed: bool,
    name: str | None,
    watch: bool,
) -> int:
    """List the jobs that run or are being started, newest last."""
    if watch and call.out.json:
        raise UsageError("--watch and --json exclude each other", hint="drop one of them")
    if failed and (running or scheduled or everything):
        raise UsageError("--failed excludes -r, -s and -a", hint="drop one of them")
    while True:
        with call.session() as session:
            if watch and is_terminal(sys.stdout):
                call.out.start_screen(time.strftime("%H:%M:%S") + "  (Ctrl-C to leave)")
            if failed:
                status = list_failed(session, name=name)
            else:
                status = list_jobs(
                    session, running=running, scheduled=scheduled, everything=everything, name=name
                )
        if not watch:
            return status
        sys.stdout.flush()
        time.sleep(_REDRAW)
