"""``flinkish checkpoint JOB``: the newest committed batch of each query."""

from __future__ import annotations

from flinkish.cli.base import Call, command
from flinkish.cli.options.arguments import job_argument
from flinkish.cli.output.text import table
from flinkish.errors import WrongState


@command("checkpoint", exit_codes=(10, 13))
@job_argument
def checkpoint(call: Call, job: str) -> int:
    """Show the newest committed batch of each query of a job.

    Spark checkpoints every batch by itself: nothing is triggered.
    """
    with call.session() as session:
        found = session.find_job(job, include_final=True)
        queries = session.registry.queries(found.job_id)
        out = session.out
        if not queries:
            raise WrongState(
                f"job {found.name} ({found.job_id}) has no streaming query, "
                f"it is {found.state.value}",
                hint=f"see: flinkish status {found.job_id}",
            )
        if out.json:
            out.document(
                {
                    "job_id": found.job_id,
                    "name": found.name,
                    "state": found.state.value,
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
            )
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
