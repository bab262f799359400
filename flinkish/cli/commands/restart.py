"""``flinkish restart``: start an ended job again; with ``--all``, what ``stop --all`` stopped."""

from __future__ import annotations

import sys
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.run import show_submitted
from flinkish.cli.commands.savepoint_all import complain
from flinkish.cli.documents.jobs import RestartAllDocument, RestartDryRunDocument, RunDocument
from flinkish.cli.documents.parts import JobName, error_record
from flinkish.cli.options.arguments import (
    F,
    check_one_or_all,
    complete_job,
    dry_run_option,
    packed,
    pattern_option,
    take,
)
from flinkish.cli.options.program import secret_args_option, spark_options
from flinkish.cli.options.restore import consent_options
from flinkish.cli.output.printer import Output
from flinkish.cli.session import Session
from flinkish.client import restarts
from flinkish.client.program import absolute
from flinkish.client.restart_plan import Restart
from flinkish.client.together import AllStarted, StartedAgain, restart_all
from flinkish.config import working_directory
from flinkish.errors import UsageError
from flinkish.launch.restoring import given
from flinkish.messages.launch import Program
from flinkish.messages.restore_options import RestoreOptions


def _changes_of(options: dict[str, Any]) -> Program:
    """Return the changes to Spark, master, Pythons, settings and secrets, with absolute paths."""
    options["secret_arguments"] = options.pop("secret_arguments") or ()
    return absolute(take(Program, options), working_directory(instead="/"))


def _changes(function: F) -> F:
    """Add the options for another Spark and for secrets, as the argument ``changes``."""
    return spark_options(secret_args_option(packed(function, "changes", _changes_of)))


@command(
    "restart",
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
    documents=(RunDocument, RestartAllDocument, RestartDryRunDocument),
)
@click.argument("job", metavar="JOB", required=False, shell_complete=complete_job)
@click.option(
    "--from",
    "savepoint",
    metavar="SAVEPOINT",
    type=click.Path(),
    help="Start a new job from this savepoint. Default: resume the same job from its newest "
    "committed batch.",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Restart, from their savepoints, all jobs that the newest stop --all stopped and that "
    "are not running again yet.",
)
@pattern_option
@consent_options
@_changes
@dry_run_option
def restart(
    call: Call,
    job: str | None,
    savepoint: str | None,
    every: bool,
    name: str | None,
    restore: RestoreOptions,
    changes: Program,
    dry_run: bool,
) -> int:
    """Restart a job that has ended, with its recorded program, arguments and settings.

    The job keeps its id and resumes in its own checkpoints. Secrets are not recorded: pass them
    again with --conf and --secret-args. A restart also acknowledges a failure of the job. With
    --from, or with another Spark, master or Python, a new job is started instead: from the
    savepoint of --from, or from the one that the job was stopped with.

    With --all, the jobs that the newest stop --all stopped are started again, each as a new job
    from its savepoint. Run the command again to continue with the jobs that did not start.
    """
    check_one_or_all(job, every=every, name=name, verb="restart")
    if every and (savepoint is not None or changes.secret_arguments):
        raise UsageError(
            "--all restarts each job from its own savepoint: it cannot be combined with --from or "
            "--secret-args",
            hint="restart a single job: flinkish restart JOB [--from PATH] [--secret-args FILE]",
        )
    if savepoint is None and not every:
        for _, flag in given(restore):
            raise UsageError(f"{flag} requires --from", hint="see: flinkish restart --help")
    with call.session() as session:
        if job is None:
            out = session.out
            started = restart_all(
                session,
                name,
                changes=changes,
                options=restore,
                dry_run=dry_run,
                on_outcome=lambda outcome: _tell(out, outcome),
            )
            return _show_all(session, started, name, dry_run=dry_run)
        begun = restarts.restart(
            session,
            session.find_job(job, include_final=True),
            savepoint,
            changes=changes,
            options=restore,
            dry_run=dry_run,
        )
    return _would(call.out, begun) if dry_run else show_submitted(call.out, begun.job)


def goes_on(restart: Restart) -> str:
    """Return where a job's queries resume, as the end of a sentence. Pure."""
    if restart.savepoint is not None:
        return f"from {restart.savepoint}, as a new job"
    if not restart.batches:
        return "from the beginning: it has no query yet"
    return ", ".join(
        f"query '{name}' " + ("from the beginning" if batch is None else f"after batch {batch}")
        for name, batch in restart.batches.items()
    )


def _would(out: Output, restart: Restart) -> int:
    job, how = restart.job, goes_on(restart)
    if out.json:
        planned: RestartDryRunDocument = {
            "dry_run": True,
            "job_id": job.job_id,
            "name": job.name,
            "how": how,
        }
        out.document(planned)
    elif not out.quiet:
        out.line(f"Would restart job {job.name} ({job.job_id}): {how}.")
    return 0


def _show_all(
    session: Session, all_started: AllStarted, pattern: str | None, *, dry_run: bool
) -> int:
    """Write the JSON document, or say that nothing was to be done; return the exit status."""
    out = session.out
    if out.json:
        session.document(document(all_started, dry_run=dry_run))
    elif not all_started.outcomes:
        none = "stop --all has stopped no job"
        if pattern and all_started.together:
            none = f"no job that stop --all stopped matches {pattern!r}"
        out.note(f"Nothing to do: {none}.")
        session.warn_of_absent_registry()
    return all_started.exit_code


class _Entry(JobName):
    savepoint: str | None


def document(all_started: AllStarted, *, dry_run: bool) -> RestartAllDocument:
    """Return the result of ``restart --all`` as JSON data. Pure."""

    def entry(outcome: StartedAgain) -> _Entry:
        job = outcome.job
        return {"job_id": job.job_id, "name": job.name, "savepoint": outcome.savepoint}

    fine = [each for each in all_started.outcomes if each.error is None]
    return {
        "dry_run": dry_run,
        "restarted": [
            {
                **entry(each),
                "new_job_id": None if each.started is None else each.started.job_id,
                "state": None if each.started is None else each.started.state,
            }
            for each in fine
            if each.skipped is None
        ],
        "failed": [
            {**entry(each), "error": error_record(each.error)}
            for each in all_started.outcomes
            if each.error is not None
        ],
        "skipped": [
            {**entry(each), "reason": each.skipped} for each in fine if each.skipped is not None
        ],
    }


def _tell(out: Output, outcome: StartedAgain) -> None:
    job = outcome.job
    who = f"{job.name} ({job.job_id})"
    if outcome.error is not None:
        complain(out, f"error: job {who}: {outcome.error.message}")
    elif outcome.skipped is not None:
        out.note(f"skipped: job {who}: {outcome.skipped}")
    elif outcome.started is None:
        if not (out.json or out.quiet):
            out.line(f"Would restart job {who}: from {outcome.savepoint}, as a new job.")
    elif not out.json:
        new = outcome.started.job_id
        out.line(new if out.quiet else f"{who}: Job has been submitted with JobID {new}")
    sys.stdout.flush()
