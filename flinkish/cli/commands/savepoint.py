"""``flinkish savepoint JOB [TARGET]``, ``--all``, ``--from-checkpoint URL`` and ``-d PATH``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands import request_result
from flinkish.cli.commands import savepoint_dispose as disposal
from flinkish.cli.options.arguments import (
    complete_job,
    detached_option,
    dry_run_option,
    format_option,
    timeout_option,
    words_of,
)
from flinkish.cli.options.retention import keep_options
from flinkish.cli.output.driver_log import driver_output
from flinkish.cli.session import Session
from flinkish.client import requests
from flinkish.client.context import accept
from flinkish.client.retention import not_pruned, remove_old
from flinkish.errors import UsageError, quoted_path
from flinkish.registry.jobs import JobRecord, Request, RequestKind

if TYPE_CHECKING:
    from flinkish.savepoint.manage.retention import Policy


def _batch(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | str | None:
    """Convert the value of ``--batch``."""
    if value is None or value == "newest-whole":
        return value
    if not (value.isascii() and value.isdigit() and len(value) < 18):
        raise UsageError(
            f"--batch {value} is not a batch", hint="use a batch number, or newest-whole"
        )
    return int(value)


@command("savepoint", exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15))
@click.argument("job", metavar="JOB", required=False, shell_complete=complete_job)
@click.argument("target", metavar="[TARGET]", required=False, type=click.Path())
@click.option(
    "-d",
    "--dispose",
    "dispose",
    metavar="PATH",
    type=click.Path(),
    help="Delete the savepoint at PATH instead of taking one.",
)
@click.option("--all", "every", is_flag=True, help="Save every running job; takes no JOB.")
@click.option(
    "--from-checkpoint",
    "checkpoint",
    metavar="URL",
    type=click.Path(),
    help="Save a Spark checkpoint unknown to flinkish, or a directory of several; takes no JOB.",
)
@click.option(
    "--batch",
    metavar="newest-whole|N",
    callback=_batch,
    shell_complete=words_of("newest-whole"),
    help="With --from-checkpoint or a dead job: the committed batch to save, by number, or "
    "the newest whose files are intact. Default: the newest, which must be intact.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="With --all: only jobs with this name (* and ? are wildcards). With "
    "--from-checkpoint: the job's name in the savepoint.",
)
@click.option(
    "--expect",
    "expected",
    metavar="NAME",
    multiple=True,
    help="With --all: exit 3 unless a job of this name is running (repeatable).",
)
@click.option(
    "--full",
    is_flag=True,
    help="Share no files with earlier savepoints, so that it can be moved and copied alone.",
)
@format_option
@detached_option
@timeout_option
@keep_options(
    "On success, remove the job's savepoints in TARGET except the newest N and those "
    "kept by other --keep options."
)
@click.option(
    "--yes", is_flag=True, help="With -d and --from-checkpoint: do not ask for confirmation."
)
@dry_run_option
def savepoint(
    call: Call,
    job: str | None,
    target: str | None,
    dispose: str | None,
    every: bool,
    checkpoint: str | None,
    batch: int | str | None,
    name: str | None,
    expected: tuple[str, ...],
    full: bool,
    format_: str,
    detached: bool,
    timeout: float | None,
    yes: bool,
    dry_run: bool,
    **keep: Any,
) -> int:
    """Take a savepoint of a running job, which keeps running, or of a dead job.

    The savepoint becomes a new directory in TARGET, by default in
    execution.checkpointing.savepoint-dir. Give a FAILED, CANCELED or FINISHED job by its id:
    its checkpoint is saved without a driver. To see the contents of a savepoint: flinkish
    savepoint show PATH
    """
    from flinkish.savepoint.manage.retention import Policy

    policy = Policy(**keep)
    if expected and not every:
        raise UsageError("--expect requires --all", hint="see: flinkish savepoint --help")
    if batch is not None and (every or dispose is not None):
        raise UsageError("--batch requires a dead JOB or --from-checkpoint", hint="")
    _check_words(job, target, dispose, every, checkpoint, name, detached, policy)
    with call.session() as session:
        if dispose is not None:
            return disposal.dispose(session, dispose, yes=yes, dry_run=dry_run)
        if every:
            from flinkish.cli.commands.savepoint_all import save_all

            where = requests.savepoint_target(session, job)
            seconds = session.timeout(timeout)
            return save_all(
                *(session, where, name, seconds, policy),
                expected=expected,
                full=full,
                format_=format_,
                dry_run=dry_run,
            )
        if checkpoint is not None:
            where = requests.savepoint_target(session, job)
            return _from_checkpoint(
                session,
                *(checkpoint, where, name, policy),
                full=full,
                format_=format_,
                yes=yes,
                dry_run=dry_run,
                batch=batch,
            )
        assert job is not None
        found = requests.job_to_save(session, job, target)
        where = requests.savepoint_target(session, target, found)
        if found.state.is_final:
            return _of_dead_job(
                session,
                *(found, where, policy),
                full=full,
                format_=format_,
                detached=detached,
                dry_run=dry_run,
                batch=batch,
            )
        if batch is not None:
            raise UsageError(
                f"job {found.name} is running: its savepoint is taken at its newest batch",
                hint="omit --batch",
            )
        if dry_run:
            return request_result.dry_run(session, found, RequestKind.SAVEPOINT, where)
        seconds = session.timeout(timeout)
        session.out.note(f"Triggering savepoint for job {found.job_id}.")
        request = requests.submit(
            *(session, found, RequestKind.SAVEPOINT, where), full=full, format_=format_
        )
        if detached:
            return request_result.detached(session, request)
        session.out.note("Waiting for response...")
        request = request_result.wait_for(session, request, seconds)
        return _finish(session, request, session.registry.job(found.job_id), where, policy)


def _check_words(
    job: str | None,
    target: str | None,
    dispose: str | None,
    every: bool,
    checkpoint: str | None,
    name: str | None,
    detached: bool,
    policy: Policy,
) -> None:
    """Refuse options and arguments that exclude each other.

    With --all and --from-checkpoint the first word, ``job``, is the target.
    """
    if dispose is not None:
        if job is not None or detached:
            raise UsageError(
                "-d/--dispose takes one path, no job and no -detached",
                hint="flinkish savepoint -d PATH",
            )
        if every or checkpoint or name or not policy.is_empty:
            raise UsageError(
                "-d/--dispose deletes one savepoint, and takes no other options",
                hint="flinkish savepoint -d PATH",
            )
        return
    if every and checkpoint:
        raise UsageError("--all and --from-checkpoint are mutually exclusive", hint="give one")
    if every or checkpoint:
        how = "--all" if every else "--from-checkpoint URL"
        if target is not None:
            raise UsageError(
                f"{how} takes only a target and no JOB, but {job!r} and {target!r} were given",
                hint=f"flinkish savepoint {how} [TARGET]",
            )
        if detached:
            raise UsageError(f"{how} waits for its result and cannot be -detached", hint="")
        return
    if name is not None:
        raise UsageError(
            "--name requires --all or --from-checkpoint", hint="flinkish savepoint JOB [TARGET]"
        )
    if job is None:
        raise UsageError(
            "missing JobID: specify the job to take a savepoint of",
            hint="flinkish savepoint JOB [TARGET]; see the jobs with: flinkish list",
        )
    if detached and not policy.is_empty:
        raise UsageError(
            "-detached does not wait for the new savepoint, but old savepoints are "
            "removed only after it",
            hint="omit -detached or the --keep options",
        )


def _of_dead_job(
    session: Session,
    job: JobRecord,
    target: str,
    policy: Policy,
    *,
    full: bool,
    format_: str,
    detached: bool,
    dry_run: bool,
    batch: int | str | None,
) -> int:
    from flinkish.client.offline import save_dead_job

    if detached:
        raise UsageError(
            f"job {job.name} ({job.job_id}) is {job.state.value}: the command itself "
            "saves its checkpoint, so it cannot be -detached",
            hint="omit -detached",
        )
    with driver_output(session.out), session.reporter.live():
        request = save_dead_job(
            session, job, target, full=full, format_=format_, dry_run=dry_run, batch=batch
        )
    if dry_run:
        return _would(session, request, f"job {job.name} ({job.job_id}) from its checkpoint")
    return _finish(session, request, job, target, policy)


def _from_checkpoint(
    session: Session,
    url: str,
    target: str,
    name: str | None,
    policy: Policy,
    *,
    full: bool,
    format_: str,
    yes: bool,
    dry_run: bool,
    batch: int | str | None,
) -> int:
    from flinkish.client.offline import save_checkpoints

    agree = accept if yes else session.out.agree
    with driver_output(session.out), session.reporter.live():
        request = save_checkpoints(
            *(session, url, target, name),
            full=full,
            format_=format_,
            agree=agree,
            dry_run=dry_run,
            batch=batch,
        )
    if dry_run:
        return _would(session, request, f"the checkpoint {url}")
    return _finish(session, request, None, target, policy)


def _would(session: Session, request: Request, of: str) -> int:
    out, target = session.out, request.arguments.target
    if out.json:
        fields = {"job_id": request.job_id, "kind": request.kind.value, "target": target}
        out.document({"dry_run": True, **fields})
    elif not out.quiet:
        out.line(f"Would take a savepoint of {of} in {target}.")
    return 0


def _finish(
    session: Session, request: Request, job: JobRecord | None, target: str, policy: Policy
) -> int:
    """Show the savepoint, and remove the job's other savepoints that the policy does not keep.

    ``job`` is None when there are only checkpoints. Raises PartialFailure when the savepoint was
    taken but others could not be removed.
    """
    out = session.out
    if not out.json:  # shown first: removing the others may take long
        request_result.show_result(session, request, job)
    path = (requests.shown_result(request).get("savepoint") or {}).get("path")
    removal = remove_old(session, target, policy, [request.job_id], [path] if path else [])
    if out.json:
        document = request_result.result_document(request, job)
        if not policy.is_empty:
            document["pruned"] = list(removal.removed)
            document["prune_warnings"] = list(removal.warnings)
        out.document(document)
    elif removal.removed:
        out.note(f"Removed {len(removal.removed)} older savepoints of the job.")
    for text in removal.warnings:
        out.warning(text)
    out.note(
        "You can resume your program from this savepoint with: "
        f"flinkish run -s {quoted_path(str(path))} APP.py"
    )
    if removal.error is not None:
        raise not_pruned(target, removal.error)
    return 0
