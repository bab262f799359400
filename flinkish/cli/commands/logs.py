"""``flinkish logs JOB``: the driver's log."""

from __future__ import annotations

import sys
import time

import click

from flinkish.cli.base import Call, command
from flinkish.cli.options.arguments import job_argument
from flinkish.cli.output.printer import copy_log
from flinkish.cli.session import Session
from flinkish.errors import StorageError
from flinkish.registry.jobs import JobRecord

_POLL = 0.2


@command("logs", exit_codes=(10,))
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Go on as it grows, until the job ends.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only the last N lines.",
)
def logs(call: Call, job: str, follow: bool, lines: int | None) -> int:
    """Show the log of a job's driver, ended jobs too.

    On a terminal what is not printable is escaped; into a pipe or a file the log goes as it is.
    """
    with call.session() as session:
        found = session.find_job(job, include_final=True)
        text, offset = _read(found, lines)
        if session.out.json:
            session.out.document(
                {
                    "job_id": found.job_id,
                    "path": found.log_path,
                    "lines": text.splitlines(),
                }
            )
            return 0
        copy_log(text, sys.stdout)
        if follow:
            _follow(session, found, offset)
    return 0


def _read(job: JobRecord, lines: int | None) -> tuple[str, int]:
    from flinkish.launch.job_logs import Follower, last_lines

    path = job.log_path or ""
    try:
        if lines is not None:
            return last_lines(path, lines)
        with open(path, "rb"):
            log = Follower(path)
        return log.rest(), log.offset
    except OSError as error:
        host = job.supervisor.host if job.supervisor else None
        raise StorageError(
            f"the log of job {job.name} ({job.job_id}) cannot be read: {path}: {error.strerror}",
            hint=f"it is on the host that runs the job{f', {host}' if host else ''}",
        ) from error


def _follow(session: Session, job: JobRecord, offset: int) -> None:
    from flinkish.launch.job_logs import Follower
    from flinkish.registry.liveness import reconcile

    log = Follower(job.log_path or "", offset)
    while True:
        current = reconcile(session.registry, [session.registry.job(job.job_id)])[0]
        copy_log(log.rest(), sys.stdout)
        if current.state.is_final:
            return
        time.sleep(_POLL)
