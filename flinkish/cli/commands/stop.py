"""``flinkish stop JOB``: savepoint and stop as one action; ``--all``: every job together."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands import request_result, savepoint_all
from flinkish.cli.documents.requests import ALL_JOBS, ONE_JOB
from flinkish.cli.options.arguments import (
    check_one_or_all,
    complete_job,
    detached_option,
    dry_run_option,
    format_option,
    pattern_option,
    savepoint_path_option,
    timeout_option,
)
from flinkish.cli.session import Session
from flinkish.client import all_jobs, lifecycle
from flinkish.errors import UsageError


@command(
    "stop",
    exit_codes=(3, 4, 10, 12, 13, 14, 15),
    documents=(*ONE_JOB, *ALL_JOBS),
)
@click.argument("job", metavar="JOB", required=False, shell_complete=complete_job)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Stop all jobs together, so that restart --all can start them again; takes no JOB.",
)
@pattern_option
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
    job: str | None,
    every: bool,
    name: str | None,
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
    end a job for good, because all rows are late for a job that is restored from the savepoint.
    Once draining has begun, a failure ends the job.

    With --all, all jobs are stopped at the same time, those that are starting too, with a
    savepoint each. If some of them could not be stopped (exit 3), run the command again; restart
    --all then starts the jobs of both runs.
    """
    check_one_or_all(job, every=every, name=name, verb="stop")
    if every and (drain or detached):
        raise UsageError(
            "--all stops jobs that are to be started again, and waits until they have ended: it "
            "cannot be combined with --drain or -detached",
            hint="drain or detach single jobs: flinkish stop JOB",
        )
    with call.session() as session:
        if job is None:
            return stop_all(
                session, target, name, format_=format_, timeout=timeout, dry_run=dry_run
            )
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


def stop_all(
    session: Session,
    target: str | None,
    pattern: str | None,
    *,
    format_: str,
    timeout: float | None,
    dry_run: bool,
) -> int:
    """Stop every job, show the outcomes, and return the exit status."""
    from flinkish.client import together
    from flinkish.savepoint.manage.retention import Policy

    asked = all_jobs.jobs_to_save(session, target, pattern, states=together.STOPPABLE)
    if not savepoint_all.begin(session, asked, pattern, "stop", dry_run=dry_run):
        return 0
    stopped = together.stop_all(
        session,
        asked,
        timeout=timeout,
        format_=format_,
        on_outcome=lambda outcome: savepoint_all.tell(session.out, outcome),
    )
    savepoint_all.tell_troubles(session.out, stopped)
    if session.out.json:
        session.document(savepoint_all.document(stopped, Policy()))
    elif any(each.savepoint is not None for each in stopped.outcomes):
        session.out.note("Start them again with: flinkish restart --all")
    return stopped.exit_code
