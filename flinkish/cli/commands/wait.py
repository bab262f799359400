"""``flinkish wait JOB``: wait until a job has come so far."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.status import query_document
from flinkish.cli.options.arguments import (
    interruptible,
    job_argument,
    timeout_option,
    words_of,
)
from flinkish.cli.output.text import table
from flinkish.client.wait_goals import parse_goal
from flinkish.client.waiting import wait_for


@command("wait", exit_codes=(10, 13, 14))
@job_argument
@click.option(
    "--for",
    "goal",
    default="running",
    metavar="running|batch=N|batch=+N|idle|ended",
    shell_complete=words_of("running", "batch=", "batch=+", "idle", "ended"),
    help="What to wait for (default: running).",
)
@click.option("--query", metavar="NAME", help="With batch=N and idle: only this query counts.")
@timeout_option
def wait(call: Call, job: str, goal: str, query: str | None, timeout: float | None) -> int:
    """Wait until a job has come so far.

    running: it runs, its queries are started. batch=N: every query has committed batch N or a later
    one; batch=+N: N batches more than when the wait began. idle: every query has committed what its
    sources had: for 2 s, and for longer than the interval of its trigger, the driver has reported
    that its newest look for input found none and that it committed no batch. ended: it has ended;
    exit 0 only if it FINISHED, as run does.

    A job that ends before gives the exit code of its failure, or 13 if it finished or was canceled.
    """
    wanted = parse_goal(goal, query)
    with call.session() as session:
        out = session.out
        found = session.find_job(job, include_final=True)
        message = f"stopped waiting; job {found.job_id} goes on"
        with interruptible(message, f"flinkish status {found.job_id}"):
            reached = wait_for(session, found, wanted, session.timeout(timeout))
        queries = session.registry.queries(reached.job_id)
        if out.json:
            out.document(
                {
                    "job_id": reached.job_id,
                    "state": reached.state.value,
                    "queries": [query_document(each) for each in queries],
                }
            )
        elif out.quiet:
            out.line(reached.state.value)
        else:
            out.line(f"Job {reached.name} ({reached.job_id}) is {reached.state.value}.")
            rows = [(q.name, "-" if q.batch_id is None else str(q.batch_id)) for q in queries]
            for line in table(("QUERY", "BATCH"), rows, right="1") if rows else ():
                out.line(line)
    return 0
