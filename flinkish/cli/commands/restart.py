"""``flinkish restart JOB`` and ``flinkish recover``: start ended jobs again as recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.run import show_submitted
from flinkish.cli.options.arguments import dry_run_option, job_argument
from flinkish.cli.options.program import conf_option, secret_args_option
from flinkish.cli.options.restore import accept_lost_rows_option, sink_ahead_option
from flinkish.cli.output.printer import Output
from flinkish.client import restarts
from flinkish.client.restarts import Recovery
from flinkish.client.restarts import recover as recover_jobs
from flinkish.errors import FlinkishError, UsageError


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


@command("recover", exit_codes=(3,))
@dry_run_option
def recover(call: Call, dry_run: bool) -> int:
    """Restart the jobs of this host whose processes are gone and that have a restart strategy.

    Meant to run at boot. Returns once all of them are starting; see flinkish list. Jobs whose
    failure was acknowledged are left alone.
    """
    with call.session() as session:
        out = session.out
        recoveries = recover_jobs(
            session, dry_run=dry_run, on_recovery=lambda one: _tell(out, one, dry_run=dry_run)
        )
        if out.json:
            session.document({"dry_run": dry_run, **document(recoveries)})
        elif not recoveries:
            out.note("Nothing to do: this host has no lost jobs.")
            session.warn_of_absent_registry()
    return exit_code(recoveries)


def document(recoveries: Sequence[Recovery]) -> dict[str, Any]:
    """Return the result as JSON data. Pure."""
    return {
        "restarted": [
            {"job_id": one.job.job_id, "name": one.job.name, "batches": dict(one.restart.batches)}
            for one in recoveries
            if one.restart is not None
        ],
        "failed": [
            {"job_id": one.job.job_id, "name": one.job.name, "error": one.error.to_record()}
            for one in recoveries
            if one.error is not None
        ],
    }


def exit_code(recoveries: Sequence[Recovery]) -> int:
    """Return 0 when every job is started again, 3 when some are not, 1 when none is. Pure."""
    failed = sum(1 for one in recoveries if one.error is not None)
    if not failed:
        return 0
    return FlinkishError.code if failed == len(recoveries) else 3


def _tell(out: Output, one: Recovery, *, dry_run: bool) -> None:
    who = f"{one.job.name} ({one.job.job_id})"
    if one.error is not None:
        out.warning(f"job {who} was not restarted: {one.error.message}")
    elif one.restart is not None and out.quiet:
        out.line(one.job.job_id)
    elif one.restart is not None and not out.json:
        verb = "Would restart" if dry_run else "Restarting"
        out.line(f"{verb} job {who}: {goes_on(one.restart)}.")
