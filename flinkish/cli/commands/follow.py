"""Follow a launched job to its end and show its log (``run`` without ``-d``)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from flinkish.cli.output.printer import Output, copy_log
from flinkish.cli.session import Session
from flinkish.client import requests
from flinkish.client.context import Interrupted
from flinkish.client.waiting import STARTING, look, not_canceled, not_failed, with_queries
from flinkish.errors import WrongState
from flinkish.launch.job_logs import Follower
from flinkish.log_lines import FollowedOutput
from flinkish.registry.jobs import JobRecord, JobState, RequestKind

_POLL = 0.1


def follow_to_the_end(
    session: Session,
    job: JobRecord,
    show_submitted: Callable[[Output, JobRecord], int],
    *,
    cancel_on_exit: bool,
    verbose: bool = False,
) -> int:
    """Show the program's output on stderr until the job ends, and return 0 when it FINISHED.

    Spark's log is only in the job's log then, unless ``verbose``.
    A failed job raises its error. So does a canceled one, as an attached ``flink run`` does.
    """
    out = session.out
    assert job.log_path is not None
    log = Follower(job.log_path)
    own = None if verbose else FollowedOutput()
    if own is not None:
        out.note(f"Spark's log is not shown (use -v); see: flinkish logs {job.job_id}")
    submitted = out.json  # one document only: at the end
    try:
        while True:
            current = look(session, job)
            _copy(out, log.read(), own)
            if not submitted and current.state not in (*STARTING, JobState.FAILED):
                show_submitted(out, current)
                sys.stdout.flush()
                submitted = True
            if current.state.is_final:
                break
            time.sleep(_POLL)
    except KeyboardInterrupt as stop:
        raise _left(session, job, stop, cancel_on_exit=cancel_on_exit) from None
    finished = not_failed(session, current)
    _copy(out, log.rest(), own)
    _copy(out, "", own, end=True)
    with_queries(session, not_canceled(finished))
    if out.json:
        return show_submitted(out, finished)
    seconds = (finished.end_time or finished.start_time) - finished.start_time
    out.note("Program execution finished")
    out.note(f"Job with JobID {job.job_id} has finished.")
    out.note(f"Job Runtime: {seconds * 1000:.0f} ms")
    return 0


def _copy(out: Output, text: str, own: FollowedOutput | None, *, end: bool = False) -> None:
    if own is not None:
        text = "".join(own.finish() if end else own.feed(text))
    if text and not (out.json or out.quiet):
        copy_log(text, sys.stderr)


def _left(
    session: Session, job: JobRecord, stop: BaseException, *, cancel_on_exit: bool
) -> BaseException:
    """Return what to raise when the user stops following: the job continues, or is canceled."""
    code = stop.code if isinstance(stop, Interrupted) else 130
    if not cancel_on_exit:
        return Interrupted(
            code,
            f"stopped following; job {job.job_id} keeps running",
            f"flinkish logs -f {job.job_id}",
        )
    try:
        request = requests.submit(session, job, RequestKind.CANCEL, None)
    except WrongState:
        return Interrupted(code, f"job {job.job_id} has ended")
    return Interrupted(
        code,
        f"canceling job {job.job_id} (-sae)",
        f"flinkish request wait {request.request_id}",
    )
