"""``flinkish savepoint JOB [TARGET]`` and ``flinkish savepoint -d PATH``."""

from __future__ import annotations

import click

from flinkish.cli import trigger
from flinkish.cli.arguments import (
    complete_job,
    detached_option,
    dry_run_option,
    format_option,
    timeout_option,
)
from flinkish.cli.base import Call, command
from flinkish.cli.dispose import dispose_savepoint
from flinkish.errors import UsageError
from flinkish.jobs.model import RequestKind


@command("savepoint", exit_codes=(4, 5, 10, 11, 12, 13, 14, 15))
@click.argument("job", metavar="JOB", required=False, shell_complete=complete_job)
@click.argument("target", metavar="[TARGET]", required=False, type=click.Path())
@click.option(
    "-d",
    "--dispose",
    "dispose",
    metavar="PATH",
    type=click.Path(),
    help="Delete the savepoint at PATH instead of taking one.",
)
@format_option
@detached_option
@timeout_option
@click.option("--yes", is_flag=True, help="With -d: do not ask.")
@dry_run_option
def savepoint(
    call: Call,
    job: str | None,
    target: str | None,
    dispose: str | None,
    format_: str,
    detached: bool,
    timeout: float | None,
    yes: bool,
    dry_run: bool,
) -> int:
    """Take a savepoint of a running job, which goes on.

    TARGET is the directory in which the savepoint gets a directory of its own; without it,
    execution.checkpointing.savepoint-dir. See what is inside one with: flinkish savepoint show PATH
    """
    if dispose is not None:
        if job is not None or detached:
            raise UsageError(
                "-d/--dispose takes one path and neither a job nor -detached",
                hint="flinkish savepoint -d PATH",
            )
        with call.session() as session:
            return dispose_savepoint(session, dispose, yes=yes, dry_run=dry_run)
    if job is None:
        raise UsageError(
            "missing JobID: specify the job to take a savepoint of",
            hint="flinkish savepoint JOB [TARGET]; see the jobs with: flinkish list",
        )
    with call.session() as session:
        found = session.find_job(job)
        where = trigger.savepoint_target(session, target, found)
        if dry_run:
            return trigger.dry_run(session, found, RequestKind.SAVEPOINT, where)
        seconds = session.config.duration("client.timeout") if timeout is None else timeout
        session.out.note(f"Triggering savepoint for job {found.job_id}.")
        request = trigger.submit(session, found, RequestKind.SAVEPOINT, where, seconds)
        if detached:
            return trigger.detached(session, request)
        session.out.note("Waiting for response...")
        request = trigger.wait_for(session, request, seconds)
        status = trigger.show_result(session, request, session.registry.job(found.job_id))
        path = ((request.result or {}).get("savepoint") or {}).get("path")
        session.out.note(
            f"You can resume your program from this savepoint with: flinkish run -s {path} APP.py"
        )
        return status
