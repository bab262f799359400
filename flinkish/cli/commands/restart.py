"""``flinkish restart JOB``: start an ended job again with its recorded program and settings."""

from __future__ import annotations

from collections.abc import Mapping

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.run import show_submitted
from flinkish.cli.options.arguments import dry_run_option, interruptible, job_argument
from flinkish.cli.options.program import conf_option, secret_args_option
from flinkish.cli.options.restore import sink_ahead_option
from flinkish.cli.session import Session
from flinkish.client import restarts
from flinkish.client.waiting import wait_until_started
from flinkish.errors import UsageError
from flinkish.registry.jobs import JobRecord


@command("restart", exit_codes=(4, 5, 10, 11, 12, 13, 14, 15))
@job_argument
@click.option(
    "--from",
    "savepoint",
    metavar="SAVEPOINT",
    type=click.Path(),
    help="Start a new job from this savepoint. Default: resume the same job from its newest "
    "committed batch.",
)
@sink_ahead_option
@conf_option
@secret_args_option
@dry_run_option
def restart(
    call: Call,
    job: str,
    savepoint: str | None,
    sink_ahead: str | None,
    conf: Mapping[str, str],
    secret_arguments: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Restart a job that has ended, with its recorded program, arguments and settings.

    The job keeps its id and resumes in its own checkpoints. Secrets are not recorded: pass them
    again with --conf and --secret-args. This also acknowledges a failure of the job.
    """
    if sink_ahead is not None and savepoint is None:
        raise UsageError("--sink-ahead requires --from", hint="see: flinkish restart --help")
    secret = secret_arguments or None
    with call.session() as session:
        found = session.find_job(job, include_final=True)
        if savepoint is not None:
            if dry_run:
                return _would(session, found, f"from {savepoint}, as a new job")
            started = restarts.restart_from(
                *(session, found, savepoint), conf=conf, secret_args=secret, sink_ahead=sink_ahead
            )
        else:
            plan = restarts.plan_restart(session, found, conf=conf, secret_args=secret)
            if dry_run:
                return _would(session, found, goes_on(plan))
            started = restarts.carry_out(session, plan)
        message = f"stopped waiting; job {started.job_id} is still starting"
        with interruptible(message, f"flinkish status {started.job_id}"):
            running = wait_until_started(session, started)
        return show_submitted(session.out, running)


def goes_on(plan: restarts.Restart) -> str:
    """Return where a job's queries resume, as the end of a sentence. Pure."""
    if not plan.batches:
        return "from the beginning: it has no query yet"
    return ", ".join(
        f"query '{name}' " + ("from the beginning" if batch is None else f"after batch {batch}")
        for name, batch in plan.batches.items()
    )


def _would(session: Session, job: JobRecord, how: str) -> int:
    out = session.out
    if out.json:
        out.document({"dry_run": True, "job_id": job.job_id, "name": job.name, "how": how})
    elif not out.quiet:
        out.line(f"Would restart job {job.name} ({job.job_id}): {how}.")
    return 0
