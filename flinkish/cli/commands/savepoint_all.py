"""``flinkish savepoint --all``: savepoints of all running jobs, for crontabs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

from flinkish.cli.commands.request_result import summary_document, what_is_done
from flinkish.cli.documents.parts import JobName, error_record
from flinkish.cli.documents.requests import AllDryRunDocument, AllSavedDocument, NewestSaved
from flinkish.cli.output.printer import Output
from flinkish.cli.output.text import iso_time
from flinkish.cli.session import Session
from flinkish.client import all_jobs
from flinkish.client.all_jobs import AllJobs, AllSaved, JobOutcome, NewestSavepoint
from flinkish.client.pruning import not_pruned
from flinkish.client.requests import Removal
from flinkish.errors import Locked
from flinkish.storage import to_uri
from flinkish.units import age_text, counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from flinkish.savepoint.manage.retention import Policy


#: The requests that can be made to all jobs.
Verb = Literal["savepoint", "stop"]


class _Entry(JobName):
    request_id: str | None


def save_all(
    session: Session,
    *,
    target: str | None,
    pattern: str | None,
    expected: Collection[str],
    keep: Policy,
    dry_run: bool,
    **options: Any,
) -> int:
    """Take a savepoint of every running job, show the outcomes, and return the exit status."""
    out = session.out
    asked = all_jobs.jobs_to_save(session, target, pattern, expected)
    if dry_run:
        newest = all_jobs.newest_of(session, asked.troubles.failed)
        foreseen = AllSaved((), asked.troubles, Removal(), newest)
        if out.json:  # the document of a dry run has the troubles only as warnings
            for text in _troubles(foreseen):
                out.warning(text)
        begin(session, asked, pattern, "savepoint", dry_run=True)
        tell_troubles(out, foreseen)
        return foreseen.exit_code
    begin(session, asked, pattern, "savepoint", dry_run=False)
    saved = all_jobs.save_all(
        session,
        asked,
        keep=keep,
        on_outcome=lambda outcome: tell(out, outcome),
        **options,
    )
    tell_troubles(out, saved)
    _tell_removal(out, asked.target, saved.removal)
    if out.json:
        session.document(document(saved, keep))
    return saved.exit_code


def begin(
    session: Session, asked: AllJobs, pattern: str | None, verb: Verb, *, dry_run: bool
) -> bool:
    """Report a lack of jobs and, in a dry run, what would be done; return ``not dry_run``."""
    if not asked.jobs:
        states = "running" if verb == "savepoint" else "running or starting"
        none = f"no {states} job matches {pattern!r}" if pattern else f"no job is {states}"
        session.out.note(f"Nothing to do: {none}.")
        session.warn_of_absent_registry()
    if dry_run:
        _would(session.out, asked, verb)
    return not dry_run


def document(saved: AllSaved, keep: Policy) -> AllSavedDocument:
    """Return the result as JSON data. Pure."""

    def entry(outcome: JobOutcome) -> _Entry:
        job = outcome.job
        return {"job_id": job.job_id, "name": job.name, "request_id": outcome.request_id}

    outcomes, removal = saved.outcomes, saved.removal
    fields: AllSavedDocument = {
        "savepoints": [
            {
                **entry(each),
                **summary_document(each.savepoint),
                "left_out": list(each.left_out),
            }
            for each in outcomes
            if each.savepoint is not None
        ],
        "failed": [
            {**entry(each), "error": error_record(each.error), **_newest(each.newest)}
            for each in outcomes
            if each.error is not None
        ],
        "skipped": [
            {**entry(each), "reason": each.skipped, **_newest(each.newest)}
            for each in outcomes
            if each.skipped is not None
        ],
        "unacknowledged": [
            {
                "job_id": job.job_id,
                "name": job.name,
                "error": dict(job.failure or {}),
                **_newest(saved.newest.get(job.job_id)),
            }
            for job in saved.troubles.failed
        ],
        "missing": list(saved.troubles.missing),
    }
    if not keep.is_empty:
        fields["pruned"] = list(removal.removed)
        fields["prune_error"] = None if removal.error is None else error_record(removal.error)
    return fields


def _newest(newest: NewestSavepoint | None) -> NewestSaved:
    """Return the newest good savepoint of a job that has no new one, as JSON data. Pure."""
    if newest is None:
        return {"newest_savepoint": None}
    created, age = iso_time(newest.created), round(newest.age, 3)
    return {"newest_savepoint": {"path": newest.path, "created": created, "age": age}}


def _since(newest: NewestSavepoint | None) -> str:
    """Return a clause on the age of a job's newest good savepoint, or the lack of one. Pure."""
    if newest is None:
        return "it has no good savepoint"
    return f"its newest good savepoint is {age_text(newest.age)} old"


def tell_troubles(out: Output, saved: AllSaved) -> None:
    """Report the jobs that should be running but are not."""
    for text in _troubles(saved):
        complain(out, f"error: {text}")


def _troubles(saved: AllSaved) -> Iterator[str]:
    for job in saved.troubles.failed:
        why = (job.failure or {}).get("message") or "it has failed"
        yield (
            f"job {job.name} ({job.job_id}) is no longer running: {why}; "
            f"{_since(saved.newest.get(job.job_id))}; "
            f"acknowledge it with: flinkish ack {job.job_id}"
        )
    for name in saved.troubles.missing:
        yield f"no job named {name} is running"


def tell(out: Output, outcome: JobOutcome) -> None:
    """Show the outcome for one job as soon as it is known."""
    for warning in outcome.warnings:
        out.warning(f"job {outcome.who}: {warning}")
    newest = _since(outcome.newest)
    if outcome.savepoint is not None:
        newest = f"its savepoint is {to_uri(outcome.savepoint.path)}"
    if outcome.error is not None:
        complain(out, f"error: job {outcome.who}: {outcome.error.message}; {newest}")
    elif outcome.skipped is not None:
        complain(out, f"skipped: job {outcome.who}: {outcome.skipped}; {newest}")
    elif outcome.savepoint is not None and not (out.json or out.quiet):
        path = to_uri(outcome.savepoint.path)
        out.line(f"{outcome.who}: Savepoint completed. Path: {path}")
        sys.stdout.flush()


def _tell_removal(out: Output, target: str, removal: Removal) -> None:
    if removal.removed:
        out.note(f"Removed {counted(len(removal.removed), 'older savepoint')} of these jobs.")
    for text in removal.warnings:
        out.warning(text)
    if isinstance(removal.error, Locked):
        complain(out, f"skipped: removing old savepoints: {removal.error.message}")
    elif removal.error is not None:
        complain(out, f"error: {not_pruned(target, removal.error).message}")


def complain(out: Output, text: str) -> None:
    """Write one line on stderr, even with ``-q``, so that cron mails it.

    With ``--json`` nothing is written, because the document contains what the line says.
    """
    if not out.json:
        out.complain(text)


def _would(out: Output, asked: AllJobs, verb: Verb) -> None:
    if out.json:
        document: AllDryRunDocument = {
            "dry_run": True,
            "kind": verb,
            "target": asked.target,
            "jobs": [{"job_id": job.job_id, "name": job.name} for job in asked.running],
        }
        out.document(document)
    elif not out.quiet:
        for job in asked.running:
            out.line(f"Would {what_is_done(verb, job, asked.target)}.")
