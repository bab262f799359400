"""``flinkish savepoint --all``: savepoints of all running jobs, for crontabs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flinkish.cli.options.arguments import interruptible
from flinkish.cli.output.printer import Output
from flinkish.cli.session import Session
from flinkish.client import all_jobs
from flinkish.client.all_jobs import JobOutcome
from flinkish.client.failures import Troubles, find_troubles
from flinkish.client.retention import Removal, not_pruned, remove_old
from flinkish.errors import DriverLost, FlinkishError, Locked
from flinkish.registry.jobs import JobRecord
from flinkish.storage import to_uri

if TYPE_CHECKING:
    from flinkish.savepoint.manage.retention import Policy


def save_all(
    session: Session,
    target: str,
    pattern: str | None,
    timeout: float,
    policy: Policy,
    *,
    expected: Sequence[str] = (),
    full: bool,
    format_: str,
    dry_run: bool,
) -> int:
    """Take a savepoint of every running job and return the exit status.

    ``pattern`` selects jobs by name; None means all. ``timeout`` is in seconds, for all of them
    together. ``policy`` applies to jobs that have a new savepoint. ``expected`` are names of jobs
    that must be running. With ``full`` the savepoints share no files with earlier ones.
    """
    out = session.out
    jobs = all_jobs.running_jobs(session, pattern)
    if not jobs:
        like = f" matches {pattern!r}" if pattern else ""
        out.note(f"Nothing to do: no running job{like}.")
        session.warn_of_absent_registry()
    troubles = find_troubles(session, jobs, pattern, expected)
    if dry_run:
        return _would(out, jobs, target)
    _tell_troubles(out, troubles)
    message = "stopped waiting; the triggered savepoints continue"
    with interruptible(message, "flinkish list"):
        outcomes = all_jobs.save_all(
            *(session, jobs, target, timeout),
            full=full,
            format_=format_,
            on_outcome=lambda outcome: _tell(out, outcome),
        )
    taken = {
        outcome.job.job_id: str(outcome.savepoint.get("path"))
        for outcome in outcomes
        if outcome.savepoint is not None
    }
    removal = remove_old(session, target, policy, taken.keys(), taken.values())
    if out.json:
        session.document(document(outcomes, removal, policy, troubles))
    _tell_removal(out, target, removal)
    return exit_code(outcomes, removal, troubles)


def exit_code(outcomes: Sequence[JobOutcome], removal: Removal, troubles: Troubles) -> int:
    """Return 0 when nothing failed, 1 when every attempt failed, 3 when some did. Pure.

    Failed jobs, and expected jobs that are not running, make it 3, also those just found to be
    dead. If another process holds the target, so that old savepoints cannot be removed now, that is
    not a failure: they are removed next time.
    """
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    alive = [outcome for outcome in failed if not isinstance(outcome.error, DriverLost)]
    if alive and not any(outcome.savepoint is not None for outcome in outcomes):
        return FlinkishError.code
    not_removed = removal.error is not None and not isinstance(removal.error, Locked)
    return 3 if failed or not_removed or troubles.failed or troubles.missing else 0


def document(
    outcomes: Sequence[JobOutcome],
    removal: Removal,
    policy: Policy,
    troubles: Troubles,
) -> dict[str, Any]:
    """Return the result as JSON data. Pure."""

    def entry(outcome: JobOutcome) -> dict[str, Any]:
        job = outcome.job
        return {"job_id": job.job_id, "name": job.name, "request_id": outcome.request_id}

    found: dict[str, Any] = {
        "savepoints": [
            {**entry(o), **o.savepoint, "left_out": list(o.left_out)}
            for o in outcomes
            if o.savepoint is not None
        ],
        "failed": [
            {**entry(o), "error": o.error.to_record()} for o in outcomes if o.error is not None
        ],
        "skipped": [{**entry(o), "reason": o.skipped} for o in outcomes if o.skipped is not None],
        "unacknowledged": [
            {"job_id": job.job_id, "name": job.name, "error": dict(job.failure or {})}
            for job in troubles.failed
        ],
        "missing": list(troubles.missing),
    }
    if not policy.is_empty:
        found["pruned"] = list(removal.removed)
        found["prune_error"] = None if removal.error is None else removal.error.to_record()
        found["prune_warnings"] = list(removal.warnings)
    return found


def _tell_troubles(out: Output, troubles: Troubles) -> None:
    for job in troubles.failed:
        why = (job.failure or {}).get("message") or "it has failed"
        _complain(
            out,
            f"error: job {job.name} ({job.job_id}) is no longer running: {why}; "
            f"acknowledge it with: flinkish ack {job.job_id}",
        )
    for name in troubles.missing:
        _complain(out, f"error: no job named {name} is running")


def _tell(out: Output, outcome: JobOutcome) -> None:
    for warning in outcome.warnings:
        out.warning(f"job {outcome.who}: {warning}")
    if outcome.error is not None:
        _complain(out, f"error: job {outcome.who}: {outcome.error.message}")
    elif outcome.skipped is not None:
        _complain(out, f"skipped: job {outcome.who}: {outcome.skipped}")
    elif outcome.savepoint is not None and not (out.json or out.quiet):
        path = to_uri(str(outcome.savepoint.get("path")))
        out.line(f"{outcome.who}: Savepoint completed. Path: {path}")
        sys.stdout.flush()


def _tell_removal(out: Output, target: str, removal: Removal) -> None:
    if removal.removed:
        out.note(f"Removed {len(removal.removed)} older savepoints of these jobs.")
    for text in removal.warnings:
        out.warning(text)
    if isinstance(removal.error, Locked):
        _complain(out, f"skipped: removing old savepoints: {removal.error.message}")
    elif removal.error is not None:
        _complain(out, f"error: {not_pruned(target, removal.error).message}")


def _complain(out: Output, text: str) -> None:
    """Write one line on stderr, even with ``-q``: a crontab mails it. JSON contains it anyway."""
    if not out.json:
        out.complain(text)


def _would(out: Output, jobs: Sequence[JobRecord], target: str) -> int:
    running = [job for job in jobs if not job.state.is_final]
    if out.json:
        ids = [{"job_id": job.job_id, "name": job.name} for job in running]
        out.document({"dry_run": True, "kind": "savepoint", "target": target, "jobs": ids})
    elif not out.quiet:
        for job in running:
            out.line(f"Would savepoint job {job.name} ({job.job_id}), savepoint in {target}.")
    return 0
