"""``flinkish run``: its options for :mod:`flinkish.client.submission`, and how a start is shown."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.cli.base import Call
from flinkish.cli.commands.follow import follow_to_the_end
from flinkish.cli.options.arguments import interruptible
from flinkish.cli.options.program import ProgramOptions, program_of
from flinkish.cli.options.restore import RestoreArguments, restore_of
from flinkish.cli.output.plan_table import show_plan
from flinkish.cli.output.printer import Output
from flinkish.cli.session import Session
from flinkish.client import submission
from flinkish.client.waiting import wait_until_started
from flinkish.errors import FlinkishError
from flinkish.masking import mask_words
from flinkish.registry.jobs import JobRecord


@dataclass(frozen=True)
class RunOptions(ProgramOptions, RestoreArguments):
    """The options of ``run`` as parsed; names as in ``flinkish run --help``."""

    detached: bool
    claim_mode: str | None
    plan: str | None
    name: str | None
    cancel_on_exit: bool
    no_wait: bool
    dry_run: bool


def submit(call: Call, options: RunOptions) -> int:
    """Check, register and launch the job, then wait for as much of it as was asked for."""
    restore = restore_of(options, claim_mode=options.claim_mode)
    parallelism, program = options.parallelism, program_of(options)
    plan = submission.load_plan(options.plan, restore, parallelism)
    if plan is not None:
        restore, parallelism = submission.planned_restore(plan, restore)
        program = submission.planned_program(plan, program)
    flags = {
        **restore.settings(),
        "parallelism.default": None if parallelism is None else str(parallelism),
    }
    with call.session(flags) as session:
        ready = submission.prepare(session, program, restore, plan=plan, name=options.name)
        if options.dry_run:
            return _show_dry_run(session.out, ready.name, ready.command(), options.uid_map)
        job = submission.launch(session, ready)
        if options.no_wait:
            return show_submitted(session.out, job)
        if options.detached:
            message = f"stopped waiting; job {job.job_id} goes on starting"
            try:
                with interruptible(message, f"flinkish status {job.job_id}"):
                    started = wait_until_started(session, job)
            except FlinkishError as error:
                if "plan" in error.data and not (session.out.json or session.out.quiet):
                    show_plan(error.data["plan"], sys.stderr)
                raise
            return _show_started(session, started)
        return follow_to_the_end(
            session, job, show_submitted, cancel_on_exit=options.cancel_on_exit
        )


def _show_started(session: Session, job: JobRecord) -> int:
    """The result of ``run -d``: how the job was restored, what its driver said of its start."""
    start = submission.start_of(session, job)
    told: set[str] = set()
    if start.plan is not None and not (session.out.json or session.out.quiet):
        show_plan(start.plan, sys.stderr)
        told = {note for query in start.plan["queries"] for note in query["notes"]}
    for note in start.notes:
        if note not in told:
            session.out.note(note)
    return show_submitted(session.out, job, start.notes, start.plan)


def show_submitted(
    out: Output, job: JobRecord, notes: Sequence[str] = (), plan: Mapping[str, Any] | None = None
) -> int:
    """The result of ``run``; Flink's line.

    ``notes`` are what the driver said of its start, ``plan`` is how it was restored.
    """
    if out.json:
        document = {"job_id": job.job_id, "name": job.name, "state": job.state.value}
        more = {"notes": list(notes)} if notes else {}
        out.document({**document, **more, **({"plan": plan} if plan is not None else {})})
    elif out.quiet:
        out.line(job.job_id)
    else:
        out.line(f"Job has been submitted with JobID {job.job_id}")
    return 0


def _show_dry_run(
    out: Output, name: str, words: Sequence[str], uid_map: Sequence[tuple[str, str]]
) -> int:
    shown = list(mask_words(words))
    if out.json:
        out.document({"dry_run": True, "name": name, "command": shown, "uid_map": dict(uid_map)})
        return 0
    out.line(shlex.join(shown))
    if not out.quiet:
        for old, new in uid_map:
            # Not on spark-submit's command line; a comment, so that a shell can still read it all.
            out.line(f"# the state of {old!r} goes to uid {new!r}")
    return 0
