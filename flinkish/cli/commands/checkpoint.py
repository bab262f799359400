"""``flinkish checkpoint JOB``: the next committed batch of each query, or the newest one."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.jobs import CheckpointDocument
from flinkish.cli.options.arguments import job_argument, timeout_option
from flinkish.cli.output.printer import Output
from flinkish.client.committed import Committed, newest_batches, next_batches
from flinkish.units import table


@command("checkpoint", exit_codes=(4, 5, 10, 11, 12, 13, 14, 15), documents=(CheckpointDocument,))
@job_argument
@timeout_option
@click.option("--no-wait", is_flag=True, help="Show the newest committed batches without waiting.")
def checkpoint(call: Call, job: str, timeout: float | None, no_wait: bool) -> int:
    """Wait for the next committed batch of each query of a job, and show it.

    Flink's command triggers a checkpoint. Spark checkpoints every batch, so nothing is
    triggered here: when the next batch is committed, the checkpoint contains everything that
    the job had done before the wait. Without new input there is no next batch, and the wait
    times out. Queries that have ended are not waited for.

    If the job is FINISHED, its newest batches are shown. If it is FAILED, the exit code is that
    of its failure; if it is CANCELED, the exit code is 1. With --no-wait, the newest batches of
    these jobs are shown too.
    """
    with call.session() as session:
        record = session.find_job(job, include_final=True)
        if no_wait:
            return _show(session.out, newest_batches(session, record))
        return _show(session.out, next_batches(session, record, session.timeout(timeout)))


def _show(out: Output, committed: Committed) -> int:
    job, queries = committed.job, committed.queries
    if out.json:
        document: CheckpointDocument = {
            "job_id": job.job_id,
            "name": job.name,
            "state": job.state,
            "queries": [
                {
                    "name": query.name,
                    "query_id": query.query_id,
                    "batch_id": query.batch_id,
                    "checkpoint_dir": query.checkpoint_dir,
                }
                for query in queries
            ],
        }
        out.document(document)
    elif out.quiet:
        for query in queries:
            out.line("-" if query.batch_id is None else str(query.batch_id))
    else:
        rows = [
            (q.name, "-" if q.batch_id is None else str(q.batch_id), q.checkpoint_dir)
            for q in queries
        ]
        for line in table(("QUERY", "BATCH", "CHECKPOINT"), rows, right="1"):
            out.line(line)
    return 0
