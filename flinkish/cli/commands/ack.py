"""``flinkish ack JOB...``: acknowledge failed jobs, so that they are not reported again."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.jobs import AckDocument
from flinkish.cli.options.arguments import complete_job
from flinkish.client.listing import acknowledge
from flinkish.errors import UsageError


@command("ack", exit_codes=(10, 13), documents=(AckDocument,))
@click.argument("jobs", metavar="[JOB]...", nargs=-1, shell_complete=complete_job)
@click.option("--all", "every", is_flag=True, help="Acknowledge all failed jobs.")
def ack(call: Call, jobs: tuple[str, ...], every: bool) -> int:
    """Acknowledge that jobs have failed.

    A job that ran and then failed is reported by list and by every savepoint --all (exit 3)
    until it is acknowledged.
    """
    if bool(jobs) == every:
        raise UsageError(
            "name at least one job, or use --all, but not both", hint="see: flinkish list --failed"
        )
    with call.session() as session:
        acknowledged = acknowledge(session, jobs)
        out = session.out
        if out.json:
            document: AckDocument = {
                "jobs": [{"job_id": job.job_id, "name": job.name} for job in acknowledged]
            }
            session.document(document)
            return 0
        for job in acknowledged:
            out.line(job.job_id if out.quiet else f"Acknowledged: {job.name} ({job.job_id}).")
        if not acknowledged and jobs:
            out.note("Nothing to do: already acknowledged.")
        elif not acknowledged:
            out.note("Nothing to do: there are no unacknowledged failed jobs.")
            session.warn_of_absent_registry()
    return 0
