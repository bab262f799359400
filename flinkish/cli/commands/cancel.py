"""``flinkish cancel JOB`` and ``flinkish cancel -s [TARGET] JOB``."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, OptionalValue, command
from flinkish.cli.commands import request_result
from flinkish.cli.documents.requests import ONE_JOB
from flinkish.cli.options.arguments import (
    complete_job,
    detached_option,
    dry_run_option,
    format_option,
    timeout_option,
)
from flinkish.client import lifecycle
from flinkish.errors import UsageError

_DEFAULT_TARGET = ""


@command(
    "cancel",
    exit_codes=(4, 10, 12, 13, 14, 15),
    documents=ONE_JOB,
)
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

    A driver that does not answer within execution.cancel.grace, or does not end, is killed if it
    runs on this host or in cluster mode; with -s only after the savepoint is complete. With
    -detached, no driver is killed.
    """
    job, with_savepoint, target = resolve_words(job, savepoint)
    with call.session() as session:
        record = session.find_job(job)
        with session.reporter.live():
            if with_savepoint:
                outcome = lifecycle.cancel_with_savepoint(
                    session,
                    record,
                    target,
                    format_=format_,
                    timeout=timeout,
                    detached=detached,
                    dry_run=dry_run,
                )
            else:
                outcome = lifecycle.cancel(
                    session,
                    record,
                    acknowledge=True,
                    timeout=timeout,
                    detached=detached,
                    dry_run=dry_run,
                )
        return request_result.show(session.out, outcome, record)


def resolve_words(job: str | None, savepoint: str | None) -> tuple[str, bool, str | None]:
    """Return (job, whether a savepoint is taken, its target or None for the default). Pure.

    In ``cancel -s JOB``, click treats JOB as the optional target and finds no job. A target without
    a job is therefore the job (Flink: ``CliFrontend.cancel``). UsageError if both are missing.
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
