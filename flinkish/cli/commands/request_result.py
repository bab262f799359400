"""Common parts of ``savepoint``, ``stop`` and ``cancel``: show how one of them went."""

from __future__ import annotations

from flinkish.cli.documents.parts import SavepointResult
from flinkish.cli.documents.requests import DetachedDocument, OutcomeDocument, RequestDryRunDocument
from flinkish.cli.output.printer import Output
from flinkish.client.requests import Outcome
from flinkish.messages.requests import SavepointSummary
from flinkish.registry.jobs import JobRecord, RequestKind


def show(out: Output, outcome: Outcome, job: JobRecord) -> int:
    """Show a request's outcome: its result, that it was triggered, or what it would do."""
    if outcome.state is None:
        return show_dry_run(out, outcome, what_is_done(outcome.kind, job, outcome.target))
    return show_result(out, outcome) if outcome.state.is_final else _show_detached(out, outcome)


def what_is_done(verb: str, job: JobRecord, target: str | None) -> str:
    """Return what a request does with a job, as a clause that follows ``Would``. Pure."""
    who = f"job {job.name} ({job.job_id})"
    if verb == "savepoint":
        return f"take a savepoint of {who} in {target}"
    return f"{verb} {who}" + (f" with a savepoint in {target}" if target else "")


def show_dry_run(out: Output, outcome: Outcome, what: str) -> int:
    """Show that ``what`` would be done."""
    if out.json:
        document: RequestDryRunDocument = {
            "dry_run": True,
            "job_id": outcome.job_id,
            "kind": outcome.kind,
            "target": outcome.target,
        }
        out.document(document)
    elif not out.quiet:
        out.line(f"Would {what}.")
    return 0


def _show_detached(out: Output, outcome: Outcome) -> int:
    """Show a request that was not waited for, in the words of Flink's ``CliFrontend``."""
    if out.json:
        document: DetachedDocument = {
            "request_id": outcome.request_id,
            "job_id": outcome.job_id,
        }
        out.document(document)
    elif out.quiet:
        out.line(str(outcome.request_id))
    else:
        kind = outcome.kind
        what = "manual savepoint" if kind is RequestKind.SAVEPOINT else kind.value
        out.line(f"Successfully triggered {what}, triggerId: {outcome.request_id}")
        out.note(f"Follow it with: flinkish request wait {outcome.request_id}")
    return 0


def show_result(out: Output, outcome: Outcome) -> int:
    """Show a completed savepoint, stop or cancel."""
    savepoint = outcome.savepoint
    if out.json:
        out.document(result_document(outcome))
    elif savepoint is not None:
        out.line(savepoint.path if out.quiet else completed(savepoint))
    elif not out.quiet:
        out.line(f"Cancelled job {outcome.job_id}.")
    return 0


def result_document(outcome: Outcome) -> OutcomeDocument:
    """Return an outcome as the JSON of ``savepoint``, ``stop`` and ``cancel``. Pure."""
    result, savepoint = outcome.result, outcome.savepoint
    return {
        "request_id": outcome.request_id,
        "job_id": outcome.job_id,
        "state": outcome.state,
        "job_state": outcome.job_state,
        "savepoint": None if savepoint is None else summary_document(savepoint),
        "stop_method": None if result is None else result.stop_method,
        "left_out": list(outcome.left_out),
        "complete": result is None or result.complete,
    }


def summary_document(savepoint: SavepointSummary) -> SavepointResult:
    """Return the JSON data about a savepoint that has just been taken or migrated. Pure."""
    return {
        "path": savepoint.path,
        "format": savepoint.format,
        "bytes": savepoint.bytes,
        "files": savepoint.files,
        "shared_files": savepoint.shared_files,
        "moved_bytes": savepoint.moved_bytes,
        "duration": savepoint.duration,
        "queries": list(savepoint.queries),
    }


def completed(savepoint: SavepointSummary) -> str:
    """Return Flink's line for a completed savepoint; the path is a URI, as in Flink and Hadoop."""
    path = savepoint.path
    return f"Savepoint completed. Path: {path if ':' in path.split('/')[0] else 'file:' + path}"
