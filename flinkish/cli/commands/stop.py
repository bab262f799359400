"""``flinkish stop JOB``: savepoint and stop as one action."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands import request_result
from flinkish.cli.options.arguments import (
    detached_option,
    dry_run_option,
    format_option,
    job_argument,
    savepoint_path_option,
    timeout_option,
)
from flinkish.client import lifecycle


@command("stop", exit_codes=(4, 10, 12, 13, 14, 15))
@job_argument
@savepoint_path_option("-p")
@click.option(
    "-d",
    "--drain",
    is_flag=True,
    help="First emit everything that waits for the watermark: windows, sessions, outer joins, "
    "timers.",
)
@format_option
@detached_option
@timeout_option
@dry_run_option
def stop(
    call: Call,
    job: str,
    target: str | None,
    drain: bool,
    format_: str,
    detached: bool,
    timeout: float | None,
    dry_run: bool,
) -> int:
    """Stop a job with a savepoint: nothing is processed after it.

    If the savepoint fails, the job keeps running.

    With --drain, each query runs a last batch without new input and with its watermark at the
    maximum (9223372036854775 ms), which emits all state that waits for event time. Use it to
    end a job for good: rows that arrive later are late for its savepoint. Once draining has
    begun, a failure ends the job.
    """
    with call.session() as session:
        record = session.find_job(job)
        with session.reporter.live():
            outcome = lifecycle.stop(
                session,
                record,
                target,
                format_=format_,
                drain=drain,
                timeout=timeout,
                detached=detached,
                dry_run=dry_run,
            )
        return request_result.show(session.out, outcome, record)
