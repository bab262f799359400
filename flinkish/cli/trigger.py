"""What ``savepoint``, ``stop`` and ``cancel`` share: the target, the request, its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flinkish.cli.arguments import absolute_target, interruptible, requester
from flinkish.cli.output import Output
from flinkish.cli.progress import progress
from flinkish.cli.session import Session
from flinkish.errors import NoSavepointDirectory, WrongState, from_record
from flinkish.jobs.model import Job, Request, RequestKind, RequestState
from flinkish.jobs.wait import wait_job, wait_request

_SAVEPOINT_DIR = "execution.checkpointing.savepoint-dir"
#: Seconds the driver gets to end after the grace that it gives its program.
_END_SLACK = 20.0


def savepoint_target(session: Session, given: str | None, job: Job | None = None) -> str:
    """Where the savepoint goes: ``given``, else the configured directory, made absolute.

    Raises :class:`NoSavepointDirectory` when neither is there.
    """
    location = given or session.config.get(_SAVEPOINT_DIR)
    if location is None:
        untouched = f"; job {job.name} ({job.job_id}) is untouched" if job is not None else ""
        raise NoSavepointDirectory(
            f"no target directory for the savepoint: {_SAVEPOINT_DIR} is not set{untouched}",
            key=_SAVEPOINT_DIR,
        )
    return absolute_target(location)


def submit(
    session: Session,
    job: Job,
    kind: RequestKind,
    target: str | None,
    timeout: float,
    *,
    full: bool = False,
    format_: str = "native",
) -> Request:
    """Put the request into the job's mailbox.

    ``timeout`` (seconds): how long a savepoint may wait for a query's first committed batch.
    ``full``: it is to share no files with an earlier one. ``format_``: ``native`` or ``canonical``.
    """
    arguments = {"target": target, "format": format_, "timeout": timeout, "full": full}
    return session.registry.submit(job.job_id, kind, arguments, requester())


def wait_for(
    session: Session,
    request: Request,
    timeout: float,
    on_change: Callable[[Request], object] | None = None,
) -> Request:
    """Wait for a request's result, with progress on a terminal.

    Raises its error when it failed, :class:`WaitTimeout` after ``timeout`` seconds.
    """
    follow = f"flinkish request wait {request.request_id}"
    message = f"stopped waiting; the {request.kind.value} of job {request.job_id} goes on"
    with interruptible(message, follow), progress(session.out) as show:

        def changed(state: Request) -> None:
            show(state)
            if on_change is not None:
                on_change(state)

        done = wait_request(session.registry, request.request_id, timeout, on_progress=changed)
    return checked(done)


def checked(request: Request) -> Request:
    """The request; raises its error when it failed."""
    if request.state is RequestState.FAILED:
        error = from_record(request.error or {})
        error.data.setdefault("request_id", request.request_id)
        error.data.setdefault("job_id", request.job_id)
        raise error
    return request


def wait_for_end(session: Session, request: Request, timeout: float) -> Job:
    """Wait until the job of a completed stop or cancel is final.

    At least as long as the program may go on after its job has ended
    (``execution.shutdown.grace``), whatever is left of ``timeout`` seconds.
    """
    grace = session.config.duration("execution.shutdown.grace") + _END_SLACK
    message = f"stopped waiting; job {request.job_id} is ending"
    with interruptible(message, f"flinkish status {request.job_id}"):
        return wait_job(
            session.registry, request.job_id, lambda job: job.state.is_final, max(timeout, grace)
        )


def detached(session: Session, request: Request) -> int:
    """Show a request nobody waits for; Flink's words (``CliFrontend``)."""
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


def show_result(session: Session, request: Request, job: Job | None) -> int:
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


def result_document(request: Request, job: Job | None) -> dict[str, Any]:
    """A request's result as the JSON of ``savepoint``, ``stop`` and ``cancel``.

    ``job`` is None for checkpoints that no job has: then the registry has no request either.
    """
    result: Mapping[str, Any] = request.result or {}
    return {
        "request_id": None if job is None else request.request_id,
        "job_id": request.job_id,
        "state": request.state.value,
        "job_state": None if job is None else job.state.value,
        "savepoint": result.get("savepoint"),
        "rung": result.get("rung"),
        "left_out": left_out(request),
    }


def left_out(request: Request) -> list[Mapping[str, Any]]:
    """The queries that are not in the savepoint, ``{"query", "reason"}`` each."""
    return [dict(each) for each in (request.result or {}).get("left_out") or ()]


def warn_of_left_out(out: Output, request: Request) -> None:
    """Say which queries are not in the savepoint, and why."""
    for each in left_out(request):
        out.warning(f"query '{each['query']}' is not in the savepoint: {each['reason']}")


def dry_run(session: Session, job: Job, kind: RequestKind, target: str | None) -> int:
    """Say what a request would be; refuse it where the real one would be refused."""
    if job.state.is_final:
        raise WrongState(
            f"cannot {kind.value} job {job.name} ({job.job_id}): it has already reached "
            f"the terminal state {job.state.value}",
            hint=f"save what it has left with: flinkish savepoint {job.job_id} TARGET"
            if target
            else "see what is running with: flinkish list",
        )
    out = session.out
    if out.json:
        fields = {"job_id": job.job_id, "kind": kind.value, "target": target}
        out.document({"dry_run": True, **fields})
    elif not out.quiet:
        to = f", savepoint in {target}" if target else ""
        out.line(f"Would {kind.value} job {job.name} ({job.job_id}){to}.")
    return 0


def completed(savepoint: Mapping[str, Any]) -> str:
    """Flink's line; the path as a URI, as Flink and Hadoop print it."""
    path = str(savepoint["path"])
    return f"Savepoint completed. Path: {path if ':' in path.split('/')[0] else 'file:' + path}"
