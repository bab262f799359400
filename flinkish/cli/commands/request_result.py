"""Common parts of ``savepoint``, ``stop`` and ``cancel``: wait for a request, show its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flinkish.cli.options.arguments import interruptible
from flinkish.cli.output.printer import Output
from flinkish.cli.session import Session
from flinkish.client import requests
from flinkish.registry.jobs import JobRecord, Request, RequestKind


def wait_for(session: Session, request: Request, timeout: float) -> Request:
    """Wait for a request's result, with progress on a terminal; raise the request's own error.

    Raises WaitTimeout after ``timeout`` seconds.
    """
    follow = f"flinkish request wait {request.request_id}"
    message = f"stopped waiting; the {request.kind.value} of job {request.job_id} continues"
    with interruptible(message, follow), session.reporter.live():
        return requests.wait_result(session, request, timeout)


def wait_for_end(
    session: Session,
    request: Request,
    timeout: float,
    wait: Callable[[Session, Request, float], JobRecord] = requests.wait_end,
) -> JobRecord:
    """Wait until the job of a completed stop or cancel is final; ``timeout`` in seconds."""
    message = f"stopped waiting; job {request.job_id} is ending"
    with interruptible(message, f"flinkish status {request.job_id}"):
        return wait(session, request, timeout)


def detached(session: Session, request: Request) -> int:
    """Show a request that is not waited for, in the words of Flink's ``CliFrontend``."""
    out = session.out
    if out.json:
        out.document({"request_id": request.request_id, "job_id": request.job_id})
    elif out.quiet:
        out.line(request.request_id)
    else:
        what = "manual savepoint" if request.kind is RequestKind.SAVEPOINT else request.kind.value
        out.line(f"Successfully triggered {what}, triggerId: {request.request_id}")
        out.note(f"Follow it with: flinkish request wait {request.request_id}")
    return 0


def show_result(session: Session, request: Request, job: JobRecord | None) -> int:
    """Show a completed request; ``job`` as in :func:`result_document`."""
    out = session.out
    warn_of_left_out(out, request)
    document = result_document(request, job)
    savepoint = document["savepoint"]
    if out.json:
        out.document(document)
    elif savepoint is not None:
        out.line(savepoint["path"] if out.quiet else completed(savepoint))
    elif not out.quiet:
        out.line(f"Cancelled job {request.job_id}.")
    return 0


def result_document(request: Request, job: JobRecord | None) -> dict[str, Any]:
    """Return a request's result as the JSON of ``savepoint``, ``stop`` and ``cancel``.

    ``job`` is None for checkpoints without a job: then the registry has no request either.
    """
    result = requests.shown_result(request)
    return {
        "request_id": None if job is None else request.request_id,
        "job_id": request.job_id,
        "state": request.state.value,
        "job_state": None if job is None else job.state.value,
        "savepoint": result.get("savepoint"),
        "stop_method": result.get("stop_method"),
        "left_out": requests.left_out(request),
        "complete": result.get("complete", True),
    }


def warn_of_left_out(out: Output, request: Request) -> None:
    """Warn of what is not in the savepoint, with the reasons."""
    for warning in requests.warnings_of(request):
        out.warning(warning)


def dry_run(session: Session, job: JobRecord, kind: RequestKind, target: str | None) -> int:
    """Show the request that would be made; refuse it if the real one would be refused."""
    requests.check_triggerable(job, kind, target)
    out = session.out
    if out.json:
        fields = {"job_id": job.job_id, "kind": kind.value, "target": target}
        out.document({"dry_run": True, **fields})
    elif not out.quiet:
        to = f", savepoint in {target}" if target else ""
        out.line(f"Would {kind.value} job {job.name} ({job.job_id}){to}.")
    return 0


def completed(savepoint: Mapping[str, Any]) -> str:
    """Return Flink's line for a completed savepoint; the path is a URI, as in Flink and Hadoop."""
    path = str(savepoint["path"])
    return f"Savepoint completed. Path: {path if ':' in path.split('/')[0] else 'file:' + path}"
