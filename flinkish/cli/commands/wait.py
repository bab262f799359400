"""``flinkish wait JOB``: wait until a job reaches a goal."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.jobs import WaitDocument
from flinkish.cli.options.arguments import (
    job_argument,
    timeout_option,
    words_of,
)
from flinkish.client.wait_goals import parse_goal
from flinkish.client.waiting import wait_for
from flinkish.units import table


@command("wait", exit_codes=(4, 5, 10, 11, 12, 13, 14, 15), documents=(WaitDocument,))
@job_argument
@click.option(
    "--for",
    "goal",
    default="running",
    metavar="running|batch=N|batch=+N|idle|ended",
    shell_complete=words_of("running", "batch=", "batch=+", "idle", "ended"),
    help="Goal to wait for (default: running).",
)
@click.option("--query", metavar="NAME", help="With batch=N and idle: consider only this query.")
@timeout_option
def wait(call: Call, job: str, goal: str, query: str | None, timeout: float | None) -> int:
    """Wait until a job reaches a goal.

    running: the job runs and its queries are started. batch=N: every query has committed batch
    N or a later one; batch=+N: N more batches than at the start of the wait. idle: every query
    has processed all available input, which means that for over 2 s, and for longer than its
    trigger interval, it has found no new input and committed no batch. ended: the job has ended;
    the exit code is that of run, and 0 only if the job FINISHED.

    If the job ends before it reaches the goal, the exit code is that of its failure, or 13 if it
    finished or was canceled.
    """
    wanted = parse_goal(goal, query)
    with call.session() as session:
        out = session.out
        record = session.find_job(job, include_final=True)
        reached = wait_for(session, record, wanted, session.timeout(timeout))
        queries = session.registry.queries(reached.job_id)
        if out.json:
            document: WaitDocument = {
                "job_id": reached.job_id,
                "state": reached.state,
                "queries": queries,
            }
            out.document(document)
        elif out.quiet:
            out.line(reached.state.value)
        else:
            out.line(f"Job {reached.name} ({reached.job_id}) is {reached.state.value}.")
            rows = [(q.name, "-" if q.batch_id is None else str(q.batch_id)) for q in queries]
            for line in table(("QUERY", "BATCH"), rows, right="1") if rows else ():
                out.line(line)
    return 0
