"""``flinkish cancel JOB`` and ``flinkish cancel -s [TARGET] JOB``."""

from __future__ import annotations

import time

import click

from flinkish.cli.base import Call, OptionalValue, command
from flinkish.cli.commands import request_result
from flinkish.cli.options.arguments import (
    complete_job,
    detached_option,
    dry_run_option,
    format_option,
    interruptible,
    timeout_option,
)
from flinkish.cli.session import Session
from flinkish.client import requests
from flinkish.errors import UsageError
from flinkish.registry.jobs import JobState, Request, RequestKind

_DEFAULT_TARGET = ""


@command("cancel", exit_codes=(4, 10, 12, 13, 14, 15))
@click.argument("job", metavar="JOB", required=False, shell_complete=complete_job)
@click.option(
    "-s",
    "--withSavepoint",
    "savepoint",
    cls=OptionalValue,
    is_flag=False,
    flag_value=_DEFAULT_TARGET,
    metavar="[TARGET]",
    type=click.Path(),
    help="Take a savepoint first. TARGET defaults to execution.checkpointing.savepoint-dir.",
)
@format_option
@detached_option
@timeout_option
@dry_run_option
def cancel(
    call: Call,
    job: str | None,
    savepoint: str | None,
    format_: str,
    detached: bool,
    timeout: float | None,
    dry_run: bool,
) -> int:
    """Cancel a job, with a savepoint first if -s is given.

    If the driver runs on this host and does not answer within execution.cancel.grace, it is
    killed.
    """
    job, with_savepoint, target = resolve_words(job, savepoint)
    with call.session() as session:
        found = session.find_job(job)
        where = requests.savepoint_target(session, target, found) if with_savepoint else None
        if dry_run:
            return request_result.dry_run(session, found, RequestKind.CANCEL, where)
        seconds = session.timeout(timeout)
        deadline = time.monotonic() + seconds
        how = " with a savepoint" if with_savepoint else ""
        session.out.note(f"Cancelling job {found.job_id}{how}.")
        if where is not None:
            request = requests.submit(session, found, RequestKind.CANCEL, where, format_=format_)
        else:
            if found.state is JobState.FAILED and session.registry.acknowledge([found.job_id]):
                session.out.note(f"Job {found.job_id} has failed; its failure is now acknowledged.")
            request = requests.submit_cancel(session, found)
        if detached:
            return request_result.detached(session, request)
        if where is not None:
            session.out.note("Waiting for response...")
            request = request_result.wait_for(session, request, seconds)
        else:
            request = _wait_plain(session, request, seconds)
        left = deadline - time.monotonic()
        ended = request_result.wait_for_end(session, request, left, requests.wait_cancel_end)
        return request_result.show_result(
            session, session.registry.request(request.request_id), ended
        )


def resolve_words(job: str | None, savepoint: str | None) -> tuple[str, bool, str | None]:
    """Return (job, with a savepoint, its target or None for the default). Pure.

    In ``cancel -s JOB``, JOB is parsed as the optional target. Because no job is left then, that
    word is the job (Flink: ``CliFrontend.cancel``).
    """
    if job is None:
        if not savepoint:
            raise UsageError(
                "missing JobID: specify the job to cancel",
                hint="flinkish cancel [-s [TARGET]] JOB; see the jobs with: flinkish list",
            )
        return savepoint, True, None
    if savepoint is None:
        return job, False, None
    return job, True, savepoint or None


def _wait_plain(session: Session, request: Request, seconds: float) -> Request:
    message = f"stopped waiting; the cancel of job {request.job_id} continues"
    follow = f"flinkish request wait {request.request_id}"
    with interruptible(message, follow), session.reporter.live():
        return requests.wait_cancel(session, request, seconds)
