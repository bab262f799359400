"""``flinkish run``: start a job and show how it starts; without ``-d``, follow its output."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.jobs import RunDocument, RunDryRunDocument
from flinkish.cli.options.arguments import dry_run_option, words_of
from flinkish.cli.options.program import (
    named_by,
    parallelism_option,
    program_options,
    program_words,
)
from flinkish.cli.options.restore import restore_options
from flinkish.cli.output.plan_table import show_plan
from flinkish.cli.output.printer import Output, copy_log
from flinkish.cli.session import Session
from flinkish.client import requests, submission
from flinkish.client.context import Interrupted
from flinkish.client.submission import RunRequest, Submitted
from flinkish.client.waiting import (
    QUERIES,
    STARTING,
    look,
    not_canceled,
    not_failed,
    start_of,
    wait_until_started,
    with_queries,
)
from flinkish.config.secrets import mask_words
from flinkish.errors import FlinkishError, Locked, RegistryError, UsageError, WrongState
from flinkish.launch.job_logs import Follower
from flinkish.launch.restart_strategy import KEY as STRATEGY
from flinkish.log_lines import FollowedOutput
from flinkish.messages.codec import decode_fields
from flinkish.messages.launch import Program
from flinkish.messages.plan import RestorePlan
from flinkish.registry.jobs import JobRecord, JobState, RequestKind


def _claim_mode(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Accept Flink's claim modes in any letter case; refuse ``legacy`` with the reason."""
    if value is None:
        return None
    word = value.lower()
    if word == "legacy":
        raise UsageError(
            "claim mode legacy is not supported: nobody would own the savepoint's files",
            hint="use no_claim (the savepoint stays yours) or claim (the job may delete it)",
        )
    if word not in ("no_claim", "claim"):
        raise UsageError(f"unknown claim mode {value!r}", hint="-cm takes no_claim or claim")
    return word


@command(
    "run",
    exit_codes=(4, 5, 11, 12, 13, 14, 15),
    documents=(RunDocument, RunDryRunDocument),
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@program_words
@click.option("-d", "--detached", is_flag=True, help="Return once the job is RUNNING or has ended.")
@restore_options
@click.option(
    "-cm",
    "--claimMode",
    "-rm",
    "--restoreMode",
    "claim_mode",
    metavar="no_claim|claim",
    shell_complete=words_of("no_claim", "claim"),
    callback=_claim_mode,
    help="Who owns the savepoint after the restore. Default: no_claim.",
)
@click.option(
    "--plan",
    "plan",
    metavar="FILE",
    type=click.Path(),
    help="Carry out the restore plan saved by check -o; the program may be omitted.",
)
@parallelism_option
@click.option(
    "--name",
    metavar="NAME",
    help="Job name, unique among jobs that have not ended. Default: the program's name, which "
    "need not be unique.",
)
@click.option(
    "--if-not-running",
    is_flag=True,
    help="If a job of this name (default: the program's) has not ended, show it and exit 0.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="With --name: resume from the newest committed batch of the newest job of that name that "
    "has one, as run -s does from a savepoint; if none has, start as usual. For crontabs.",
)
@click.option(
    "--queries",
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of queries that the program starts: the job is RUNNING, and ready for a "
    "savepoint, once all of them run. Default: once the program waits for any query.",
)
@click.option(
    "--restart-strategy",
    metavar="STRATEGY",
    shell_complete=words_of("none", "fixed-delay", "exponential-delay", "failure-rate"),
    help="Restart the driver from the newest committed batch when it fails: none (default), "
    "fixed-delay, exponential-delay or failure-rate, configured by Flink's "
    "restart-strategy.* keys.",
)
@program_options
@click.option(
    "-sae",
    "--shutdownOnAttachedExit",
    "cancel_on_exit",
    is_flag=True,
    help="If attached, Ctrl-C cancels the job.",
)
@click.option(
    "--no-wait", is_flag=True, help="Return immediately; the program may still fail to start."
)
@click.option("-v", "--verbose", is_flag=True, help="If attached, show Spark's log too.")
@dry_run_option
def run(
    call: Call,
    program: Program,
    plan: str | None,
    restart_strategy: str | None,
    queries: int | None,
    detached: bool,
    no_wait: bool,
    cancel_on_exit: bool,
    verbose: bool,
    dry_run: bool,
    **options: Any,
) -> int:
    """Start a job from an unchanged PySpark program.

    APP.py may also be the specification of a declarative pipeline (.yml, .yaml).

    Everything after APP.py is passed to the program, which has no standard input. When attached
    (the default), the program's output is shown (for Spark's log, see flinkish logs), and the
    exit code is 0 if the job FINISHED, 1 if it was CANCELED, and that of its failure (mostly 1)
    if it FAILED.
    """
    named = named_by(program.arguments, program)
    request = submission.planned(RunRequest(program=named, **options), plan)
    flags = {
        **request.settings(),
        STRATEGY: restart_strategy,
        QUERIES: None if queries is None else str(queries),
    }
    with call.session(flags) as session:
        submitted = submission.run(session, request, dry_run=dry_run)
        job = submitted.job
        if job is None:
            return _show_dry_run(session.out, submitted, request.restore.uid_map)
        if not submitted.is_new:
            return _show_running(session.out, job)
        if no_wait:
            return show_submitted(session.out, job)
        if detached:
            return _show_started(session, job)
        return follow_to_the_end(
            session, job, show_submitted, cancel_on_exit=cancel_on_exit, verbose=verbose
        )


def _show_started(session: Session, job: JobRecord) -> int:
    """Wait until a job runs; show how the job was restored, and its driver's notes."""
    is_shown = not (session.out.json or session.out.quiet)
    try:
        running = wait_until_started(session, job)
    except FlinkishError as error:
        if is_shown and "plan" in error.data:
            show_plan(decode_fields(RestorePlan, error.data["plan"]), sys.stderr)
        raise
    start = start_of(session, running)
    if is_shown and start.restore_plan is not None:
        show_plan(start.restore_plan, sys.stderr)
    for note in start.further_notes:
        session.out.note(note)
    return show_submitted(session.out, running, start.notes, start.restore_plan)


def show_submitted(
    out: Output, job: JobRecord, notes: Sequence[str] = (), plan: RestorePlan | None = None
) -> int:
    """Show a job that ``run`` or ``restart`` has started; for people, Flink's line.

    ``notes`` are the driver's notes about the start, ``plan`` is how the job was restored.
    """
    if out.json:
        document: RunDocument = {"job_id": job.job_id, "name": job.name, "state": job.state}
        if notes:
            document["notes"] = list(notes)
        if plan is not None:
            document["plan"] = plan
        out.document(document)
    elif out.quiet:
        out.line(job.job_id)
    else:
        out.line(f"Job has been submitted with JobID {job.job_id}")
    return 0


def _show_running(out: Output, job: JobRecord) -> int:
    """Show the job that has the name already and has not ended, for ``--if-not-running``."""
    state = job.state.value
    if out.json:
        document: RunDocument = {
            "job_id": job.job_id,
            "name": job.name,
            "state": job.state,
            "already_running": True,
        }
        out.document(document)
    elif out.quiet:
        out.line(job.job_id)
    else:
        out.line(f"Job {job.name} is already {state}, with JobID {job.job_id}")
    return 0


def _show_dry_run(out: Output, submitted: Submitted, uid_map: Sequence[tuple[str, str]]) -> int:
    words = list(mask_words(submitted.command))
    if out.json:
        document: RunDryRunDocument = {
            "dry_run": True,
            "name": submitted.name,
            "command": words,
            "uid_map": dict(uid_map),
        }
        if submitted.carried is not None:
            document["carried"] = submitted.carried
        out.document(document)
        return 0
    out.line(shlex.join(words))
    if not out.quiet:
        if submitted.carried is not None:
            out.line(
                f"# {submitted.carried} is written for the submission, with other characters for "
                "the X's: it contains flinkish, the program and its arguments"
            )
        for old, new in uid_map:
            # A shell accepts the whole output, because this line of the output is a comment.
            out.line(f"# the state of {old!r} goes to uid {new!r}")
    return 0


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

    With ``verbose`` Spark's log is shown too; otherwise it is only in the job's log file.

    Raises the error of a job that failed, FlinkishError if the job was canceled (as an attached
    ``flink run`` fails too), and Interrupted if a signal ends the wait.
    """
    out = session.out
    assert job.log_path is not None
    log = Follower(job.log_path)
    own = None if verbose else FollowedOutput()
    if own is not None:
        out.note(f"Spark's log is not shown (use -v); see: flinkish logs {job.job_id}")
    submitted = out.json  # JSON is one document, at the end
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
    except Locked:
        what, follow = "is already being ended", f"status {job.job_id}"
    except RegistryError as error:
        what = f"keeps running: it could not be canceled (-sae): {error.message}"
        follow = f"status {job.job_id}"
    else:
        what, follow = "is being canceled (-sae)", f"request wait {request.request_id}"
    return Interrupted(code, f"job {job.job_id} {what}", f"flinkish {follow}")
