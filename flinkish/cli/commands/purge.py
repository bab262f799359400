"""``flinkish purge``: remove jobs that ended long ago, and say why anything else is kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.jobs import PurgedJob, PurgedLeftover, PurgeDocument
from flinkish.cli.documents.parts import error_record
from flinkish.cli.options.arguments import dry_run_option, parse_age
from flinkish.cli.output.printer import Output
from flinkish.cli.output.text import iso_time, known_time, local_time
from flinkish.cli.session import Session
from flinkish.client.purge import PurgeOutcome, PurgeResult, purge_jobs
from flinkish.client.purge_files import Leftover
from flinkish.errors import FlinkishError
from flinkish.units import counted, size_text, table

#: The kind of a directory that a killed rehearsal left.
_LEFT = "rehearsal"


@command("purge", exit_codes=(3, 5), documents=(PurgeDocument,))
@click.option(
    "--ended-before",
    "age",
    required=True,
    callback=parse_age,
    metavar="AGE",
    help="Remove jobs that ended longer ago than this, such as 30d. Needs a unit.",
)
@click.option(
    "--failed",
    is_flag=True,
    help="Include unacknowledged failed jobs (see flinkish ack).",
)
@dry_run_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def purge(call: Call, age: float, failed: bool, dry_run: bool, yes: bool) -> int:
    """Remove jobs that ended long ago: records, requests, logs, checkpoints. Keeps savepoints.

    Only checkpoints that flinkish placed are removed, never one that the program placed itself.
    A job is kept if another kept job, an unfinished upgrade or run --resume needs it, if a
    savepoint is inside its checkpoints, or while a savepoint of the job is being written. The
    job's record is kept as long as a savepoint, or another kept job, is at an earlier batch. The
    output gives the reason for everything that is kept. Directories that killed rehearsals left
    next to the checkpoints are removed at the same age.
    """
    with call.session() as session:
        agree = None if yes else partial(_ask, session.out)
        result = purge_jobs(session, age, failed=failed, dry_run=dry_run, agree=agree)
        _show(session, result)
        session.warn_of_absent_registry()
    if result.failure is not None:
        raise result.failure
    return 0


def _ask(out: Output, plan: PurgeResult) -> None:
    going, leftovers = plan.going, plan.going_leftovers
    size = sum(each.plan.bytes for each in going) + sum(each.bytes for each in leftovers)
    names = [f"{each.job.name} ({each.job.job_id})" for each in going]
    names += [f"{_LEFT} {each.location}" for each in leftovers]
    what = [counted(len(going), "job")] if going else []
    what += [counted(len(leftovers), f"leftover {_LEFT}")] if leftovers else []
    out.agree_to_remove(f"{' and '.join(what)} ({size_text(size)})", names)


def _show(session: Session, result: PurgeResult) -> None:
    out = session.out
    if out.json:
        document: PurgeDocument = {
            "ended_before": iso_time(result.ended_before),
            "dry_run": result.dry_run,
            "jobs": [_document(each) for each in result.jobs],
            "leftovers": [_leftover_document(each) for each in result.leftovers],
        }
        session.document(document)
        return
    if out.quiet:
        for each in result.going:
            if each.removed or result.dry_run:
                out.line(each.job.job_id)
        return
    rows = [row for each in result.jobs for row in _rows(each, dry_run=result.dry_run)]
    rows += [_leftover_row(each, dry_run=result.dry_run) for each in result.leftovers]
    if not rows:
        out.note("Nothing to remove: no job has ended that long ago.")
        return
    for line in table(("", "ENDED", "JOB", "ID", "SIZE", "WHAT", "WHY"), rows, right="4"):
        out.line(line)


def _document(outcome: PurgeOutcome) -> PurgedJob:
    job, plan = outcome.job, outcome.plan
    return {
        "job_id": job.job_id,
        "name": job.name,
        "state": job.state,
        "end_time": known_time(job.end_time),
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
        "error": None if outcome.error is None else error_record(outcome.error),
    }


def _leftover_document(leftover: Leftover) -> PurgedLeftover:
    error = leftover.error
    return {
        "what": _LEFT,
        "path": leftover.location,
        "written": known_time(leftover.written or None),
        "bytes": leftover.bytes,
        "keep": leftover.stays is not None,
        "reason": leftover.stays,
        "removed": leftover.removed,
        "error": None if error is None else error_record(error),
    }


def _leftover_row(leftover: Leftover, *, dry_run: bool) -> tuple[str, ...]:
    size = size_text(leftover.bytes) if leftover.bytes else "-"
    when = local_time(leftover.written or None)
    word = _word(leftover.stays, leftover.removed, dry_run=dry_run)
    why = _why(leftover.stays, leftover.error)
    return (word, when, "-", "-", size, f"{_LEFT} {leftover.location}", why)


def _rows(outcome: PurgeOutcome, *, dry_run: bool) -> Iterator[tuple[str, ...]]:
    job, plan = outcome.job, outcome.plan
    who = (local_time(job.end_time), job.name, job.job_id[:6])
    for reason in plan.reasons:
        yield ("keep", *who, "-", "all", f"kept: {reason}")
    for item in plan.items:
        what = item.what.value if item.location is None else f"{item.what.value} {item.location}"
        size = size_text(item.bytes) if item.bytes else "-"
        word = _word(item.stays, outcome.removed, dry_run=dry_run)
        yield (word, *who, size, what, _why(item.stays, outcome.error))


def _word(stays: str | None, removed: bool, *, dry_run: bool) -> str:
    if stays is not None:
        return "keep"
    return "removed" if removed else "remove" if dry_run else "failed"


def _why(stays: str | None, error: FlinkishError | None) -> str:
    if stays is not None:
        return f"kept: {stays}"
    return "nothing needs it" if error is None else error.message
