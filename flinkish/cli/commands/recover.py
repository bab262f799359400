"""``flinkish recover``: after a reboot, restart every job that ran and has a restart strategy."""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.cli.base import Call, command
from flinkish.cli.commands.restart import goes_on
from flinkish.cli.documents.jobs import RecoverDocument
from flinkish.cli.documents.parts import error_record
from flinkish.cli.options.arguments import dry_run_option
from flinkish.cli.output.printer import Output
from flinkish.client.recovery import Recovery
from flinkish.client.recovery import recover as recover_jobs
from flinkish.errors import FlinkishError


@command("recover", exit_codes=(3,), documents=(RecoverDocument,))
@dry_run_option
def recover(call: Call, dry_run: bool) -> int:
    """Restart the jobs of this host whose processes are gone and that have a restart strategy.

    Run this command at boot. It returns once each of these jobs is starting or could not be
    restarted; see flinkish list. Jobs whose failure was acknowledged are left alone.
    """
    with call.session() as session:
        out = session.out
        recoveries = recover_jobs(
            session, dry_run=dry_run, on_recovery=lambda one: _tell(out, one, dry_run=dry_run)
        )
        if out.json:
            session.document(document(recoveries, dry_run=dry_run))
        elif not recoveries:
            out.note("Nothing to do: this host has no lost job with a restart strategy.")
            session.warn_of_absent_registry()
    return exit_code(recoveries)


def document(recoveries: Sequence[Recovery], *, dry_run: bool) -> RecoverDocument:
    """Return the result as JSON data. Pure."""
    return {
        "dry_run": dry_run,
        "restarted": [
            {"job_id": one.job.job_id, "name": one.job.name, "batches": dict(one.restart.batches)}
            for one in recoveries
            if one.restart is not None
        ],
        "failed": [
            {"job_id": one.job.job_id, "name": one.job.name, "error": error_record(one.error)}
            for one in recoveries
            if one.error is not None
        ],
    }


def exit_code(recoveries: Sequence[Recovery]) -> int:
    """Return 0 if every lost job is restarted, 3 if some are not, 1 if none is. Pure."""
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
