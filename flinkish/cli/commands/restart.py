"""``flinkish restart JOB``: start an ended job again with its recorded program and settings."""

from __future__ import annotations

from collections.abc import Mapping

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.run import show_submitted
from flinkish.cli.options.arguments import dry_run_option, job_argument
from flinkish.cli.options.program import conf_option, secret_args_option
from flinkish.cli.options.restore import accept_lost_rows_option, sink_ahead_option
from flinkish.cli.output.printer import Output
from flinkish.client import restarts
from flinkish.errors import UsageError


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
@accept_lost_rows_option
@conf_option
@secret_args_option
@dry_run_option
def restart(
    call: Call,
    job: str,
    savepoint: str | None,
    sink_ahead: str | None,
    accept_lost_rows: bool,
    conf: Mapping[str, str],
    secret_arguments: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Restart a job that has ended, with its recorded program, arguments and settings.

    The job keeps its id and resumes in its own checkpoints. Secrets are not recorded: pass them
    again with --conf and --secret-args. This also acknowledges a failure of the job.
    """
    flag = "--sink-ahead" if sink_ahead is not None else "--accept-lost-rows"
    if (sink_ahead is not None or accept_lost_rows) and savepoint is None:
        raise UsageError(f"{flag} requires --from", hint="see: flinkish restart --help")
    secret = secret_arguments or None
    with call.session() as session:
        begun = restarts.restart(
            session,
            session.find_job(job, include_final=True),
            savepoint,
            conf=conf,
            secret_args=secret,
            sink_ahead=sink_ahead,
            accept_lost_rows=accept_lost_rows,
            dry_run=dry_run,
        )
    return _would(call.out, begun) if dry_run else show_submitted(call.out, begun.job)


def goes_on(restart: restarts.Restart) -> str:
    """Return where a job's queries resume, as the end of a sentence. Pure."""
    if restart.savepoint is not None:
        return f"from {restart.savepoint}, as a new job"
    if not restart.batches:
        return "from the beginning: it has no query yet"
    return ", ".join(
        f"query '{name}' " + ("from the beginning" if batch is None else f"after batch {batch}")
        for name, batch in restart.batches.items()
    )


def _would(out: Output, restart: restarts.Restart) -> int:
    job, how = restart.job, goes_on(restart)
    if out.json:
        out.document({"dry_run": True, "job_id": job.job_id, "name": job.name, "how": how})
    elif not out.quiet:
        out.line(f"Would restart job {job.name} ({job.job_id}): {how}.")
    return 0
