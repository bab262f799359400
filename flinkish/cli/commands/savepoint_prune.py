"""``flinkish savepoint prune DIR``: remove old savepoints, and what dead writers have left."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.parts import error_record
from flinkish.cli.documents.savepoints import Garbage, PruneDocument, PrunedSavepoint
from flinkish.cli.options.arguments import dry_run_option
from flinkish.cli.options.retention import keep_options
from flinkish.cli.output.printer import Output
from flinkish.cli.output.text import iso_time, known_time, utc_time
from flinkish.cli.session import Session
from flinkish.client.pruning import PruneResult, prune_savepoints
from flinkish.units import counted, size_text, table

if TYPE_CHECKING:
    from flinkish.savepoint.manage.prune import GarbageOutcome, PruneOutcome


@command("savepoint prune", exit_codes=(3, 5, 11, 12), documents=(PruneDocument,))
@click.argument("directory", metavar="DIR", type=click.Path())
@keep_options("Keep the newest N.")
@click.option(
    "--garbage",
    is_flag=True,
    help="Remove unfinished savepoints older than an hour that nobody is writing. Needs no "
    "--keep-...",
)
@dry_run_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def prune(call: Call, directory: str, garbage: bool, dry_run: bool, yes: bool, **keep: Any) -> int:
    """Remove the savepoints of a directory that no --keep-... option keeps, job by job.

    Jobs are identified by their queries, not by their names; a restored job continues the job
    that it was restored from. Always kept: the newest intact savepoint of each job, the one that
    a running job was restored from until the job has committed a batch, those that an unfinished
    upgrade, restart or run --resume may need, the target of a link in DIR, and files that other
    savepoints use. Damaged savepoints do not count; those that an option would have kept stay,
    and so do those whose metadata cannot be read. The output gives the reason for everything that
    is kept. Times are in UTC.
    """
    from flinkish.savepoint.manage.retention import Policy

    policy = Policy(**keep)
    if not garbage or not policy.is_empty:
        policy.check()  # before the registry is opened
    with call.session() as session:
        session.warn_of_absent_registry()  # a registry would know what running jobs need
        result = prune_savepoints(
            session,
            directory,
            policy,
            garbage=garbage,
            dry_run=dry_run,
            agree=None if yes else partial(_ask, session.out),
            names=dry_run or session.out.json,
        )
        _show(session, result)
    if result.failure is not None:
        raise result.failure
    return 0


def _ask(out: Output, plan: PruneResult) -> None:
    location, going, trash = plan.directory, plan.going, plan.trash
    what = []
    if going:
        size = size_text(sum(each.bytes for each in going))
        what.append(f"{counted(len(going), 'savepoint')} ({size})")
    if trash:
        size = size_text(sum(each.found.bytes for each in trash))
        what.append(f"{counted(len(trash), 'unfinished savepoint')} ({size})")
    names = [each.savepoint.path for each in going] + [other.found.path for other in trash]
    out.agree_to_remove(f"{' and '.join(what)} in {location}", names)


def _show(session: Session, result: PruneResult) -> None:
    out, dry_run = session.out, result.dry_run
    location, savepoints, left = result.directory, result.savepoints, result.garbage
    if out.json:
        document: PruneDocument = {
            "directory": location,
            "dry_run": dry_run,
            "savepoints": [_document(each) for each in savepoints],
            "garbage": [_garbage_document(each) for each in left],
            "unreadable": [{"path": p, "error": error_record(e)} for p, e in result.unreadable],
            "warnings": list(result.warnings),
        }
        session.document(document)
        return
    if out.quiet:
        for path in [o.savepoint.path for o in savepoints if o.removed or (dry_run and not o.keep)]:
            out.line(path)
        for path in [g.found.path for g in left if g.removed or (dry_run and g.reason is None)]:
            out.line(path)
        _warn(out, result)
        return
    rows = [_cells(each, dry_run) for each in savepoints]
    rows += [_garbage_cells(each, dry_run) for each in left]
    if rows:
        for line in table(("", "CREATED (UTC)", "JOB", "SIZE", "PATH", "WHY"), rows, right="3"):
            out.line(line)
    else:
        out.note(f"Nothing to remove in {location}.")
    if dry_run:
        gone = [each.gone for each in savepoints] + [each.gone for each in left]
        for name in chain.from_iterable(gone):
            out.line(f"  {name}")
    _warn(out, result)


def _warn(out: Output, result: PruneResult) -> None:
    for text in result.warnings:
        out.warning(text)
    for path, error in result.unreadable:
        out.warning(f"{path} is kept: {error.message}")


def _document(outcome: PruneOutcome) -> PrunedSavepoint:
    header = outcome.savepoint.header
    return {
        "path": outcome.savepoint.path,
        "job_id": header.job.job_id,
        "job_name": header.job.name,
        "created": iso_time(header.created),
        "keep": outcome.keep,
        "reasons": list(outcome.reasons),
        "removed": outcome.removed,
        "bytes": outcome.bytes if not outcome.keep else outcome.savepoint.bytes,
        "shared_files": outcome.shared,
        "gone": list(outcome.gone),
        "error": None if outcome.error is None else error_record(outcome.error),
    }


def _garbage_document(outcome: GarbageOutcome) -> Garbage:
    directory = outcome.found
    return {
        "path": directory.path,
        "modified": known_time(directory.modified),
        "files": directory.files,
        "bytes": directory.bytes,
        "keep": outcome.reason is not None,
        "reason": outcome.reason,
        "gone": list(outcome.gone),
        "removed": outcome.removed,
        "error": None if outcome.error is None else error_record(outcome.error),
    }


def _cells(outcome: PruneOutcome, dry_run: bool) -> tuple[str, ...]:
    header = outcome.savepoint.header
    why = f"kept: {', '.join(outcome.reasons)}" if outcome.keep else "not kept by any rule"
    if outcome.error is not None:
        why = outcome.error.message
    elif outcome.shared:
        why += f"; kept: {counted(outcome.shared, 'file')} used by other savepoints"
    size = outcome.savepoint.bytes if outcome.keep else outcome.bytes
    return (
        _word(outcome.keep, outcome.removed, dry_run),
        utc_time(header.created),
        header.job.name,
        size_text(size),
        outcome.savepoint.path,
        why,
    )


def _garbage_cells(outcome: GarbageOutcome, dry_run: bool) -> tuple[str, ...]:
    directory = outcome.found
    why = f"kept: {outcome.reason}" if outcome.reason else "unfinished, and nobody is writing it"
    if outcome.error is not None:
        why = outcome.error.message
    return (
        _word(outcome.reason is not None, outcome.removed, dry_run),
        utc_time(directory.modified),
        "-",
        size_text(directory.bytes),
        directory.path,
        why,
    )


def _word(keep: bool, removed: bool, dry_run: bool) -> str:
    if keep:
        return "keep"
    return "removed" if removed else "remove" if dry_run else "failed"
