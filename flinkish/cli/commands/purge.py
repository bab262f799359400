"""``flinkish purge``: remove jobs that ended long ago, with the reason for all that stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.options.arguments import dry_run_option, parse_seconds
from flinkish.cli.output.printer import Output
from flinkish.cli.output.text import counted, iso_time, local_time, size_text, table
from flinkish.client.purge import PurgeOutcome, PurgeResult, purge_jobs
from flinkish.registry.purge_plan import Item


@command("purge", exit_codes=(3, 5))
@click.option(
    "--ended-before",
    "age",
    required=True,
    callback=parse_seconds,
    metavar="AGE",
    help="Jobs that ended longer ago than this, such as 30d.",
)
@click.option(
    "--failed",
    is_flag=True,
    help="Also those that failed without anybody acknowledging it (flinkish ack).",
)
@dry_run_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def purge(call: Call, age: float, failed: bool, dry_run: bool, yes: bool) -> int:
    """Remove jobs that ended long ago: records, requests, logs, checkpoints. Savepoints stay.

    Of checkpoints only those go that flinkish placed, never one that the program placed itself. A
    job stays when another job that stays needs its checkpoints, when a savepoint lies in them, or
    while a savepoint of it is written. Its record stays while there is a savepoint of an earlier
    batch. Says for each why it stays.
    """
    with call.session() as session:
        done = planned = purge_jobs(session, age, failed=failed, dry_run=True)
        if not dry_run and planned.going:
            if not yes:
                _ask(session.out, planned)
            agreed = {each.job.job_id for each in planned.going}
            done = purge_jobs(session, age, failed=failed, agreed=agreed)
        _show(session.out, done)
    if done.failure is not None:
        raise done.failure
    return 0


def _ask(out: Output, planned: PurgeResult) -> None:
    going = planned.going
    size = size_text(sum(each.plan.bytes for each in going))
    names = [f"{each.job.name} ({each.job.job_id})" for each in going]
    out.agree_to_remove(f"{counted(len(going), 'job')} ({size})", names)


def _show(out: Output, done: PurgeResult) -> None:
    if out.json:
        out.document(
            {
                "ended_before": iso_time(done.ended_before),
                "dry_run": done.dry_run,
                "jobs": [_document(each) for each in done.jobs],
            }
        )
        return
    if out.quiet:
        for each in done.going:
            if each.removed or done.dry_run:
                out.line(each.job.job_id)
        return
    rows = [row for each in done.jobs for row in _rows(each, dry_run=done.dry_run)]
    if not rows:
        out.note("Nothing to remove: no job has ended.")
        return
    for line in table(("", "ENDED", "JOB", "ID", "SIZE", "WHAT", "WHY"), rows, right="4"):
        out.line(line)


def _document(outcome: PurgeOutcome) -> dict[str, Any]:
    job, plan = outcome.job, outcome.plan
    return {
        "job_id": job.job_id,
        "name": job.name,
        "state": job.state.value,
        "end_time": iso_time(job.end_time),
        "keep": plan.keep,
        "reasons": list(plan.reasons),
        "removed": outcome.removed,
        "bytes": plan.bytes,
        "parts": [
            {
                "what": item.what.value,
                "path": item.location,
                "bytes": item.bytes,
                "keep": item.stays is not None,
                "reason": item.stays,
            }
            for item in plan.items
        ],
        "error": None if outcome.error is None else outcome.error.to_record(),
    }


def _rows(outcome: PurgeOutcome, *, dry_run: bool) -> Iterator[tuple[str, ...]]:
    job, plan = outcome.job, outcome.plan
    who = (local_time(job.end_time), job.name, job.job_id[:6])
    for reason in plan.reasons:
        yield ("keep", *who, "-", "all", f"kept: {reason}")
    for item in plan.items:
        what = item.what.value if item.location is None else f"{item.what.value} {item.location}"
        size = size_text(item.bytes) if item.bytes else "-"
        yield (_word(outcome, item, dry_run=dry_run), *who, size, what, _why(outcome, item))


def _word(outcome: PurgeOutcome, item: Item, *, dry_run: bool) -> str:
    if item.stays is not None:
        return "keep"
    return "removed" if outcome.removed else "remove" if dry_run else "failed"


def _why(outcome: PurgeOutcome, item: Item) -> str:
    if item.stays is not None:
        return f"kept: {item.stays}"
    return "nothing needs it" if outcome.error is None else outcome.error.message
