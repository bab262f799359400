"""``flinkish savepoint JOB [TARGET]``, ``--all``, ``--from-checkpoint URL`` and ``-d PATH``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flinkish.cli.base import Call, command
from flinkish.cli.commands import request_result
from flinkish.cli.documents.requests import ALL_JOBS, ONE_JOB
from flinkish.cli.documents.savepoints import DisposeDocument
from flinkish.cli.options.arguments import (
    complete_job,
    detached_option,
    dry_run_option,
    format_option,
    timeout_option,
    words_of,
)
from flinkish.cli.options.retention import keep_options
from flinkish.cli.output.progress import driver_output
from flinkish.cli.session import Session
from flinkish.client import lifecycle
from flinkish.client.context import accept
from flinkish.client.pruning import not_pruned
from flinkish.client.requests import Outcome
from flinkish.errors import AmbiguousJob, JobNotFound, UsageError, quoted_path

if TYPE_CHECKING:
    from flinkish.savepoint.manage.retention import Policy


@dataclass(frozen=True, kw_only=True)
class _Conflict:
    """A refused combination: ``given``, with any word of ``beside``, and no word of ``without``.

    An empty field is no condition.
    """

    message: str
    hint: str = ""
    given: str = ""
    beside: str = ""
    without: str = ""


#: The refused combinations; the first that applies counts. With --all or --from-checkpoint, the
#: parameter JOB holds the target.
_CONFLICTS = (
    _Conflict(
        given="--expect",
        without="--all",
        message="--expect requires --all",
        hint="see: flinkish savepoint --help",
    ),
    _Conflict(
        given="--batch",
        beside="--all --dispose",
        message="--batch requires a dead JOB or --from-checkpoint",
    ),
    _Conflict(
        given="--dispose",
        beside="JOB -detached",
        message="-d/--dispose takes one path, no job and no -detached",
        hint="flinkish savepoint -d PATH",
    ),
    _Conflict(
        given="--dispose",
        beside="--all --from-checkpoint --name --keep --full -type --timeout",
        message="-d/--dispose deletes one savepoint, and takes no other options than --yes and "
        "--dry-run",
        hint="flinkish savepoint -d PATH",
    ),
    _Conflict(
        given="--all",
        beside="--from-checkpoint",
        message="--all and --from-checkpoint are mutually exclusive",
        hint="give one",
    ),
    _Conflict(
        given="--all",
        beside="TARGET",
        message="--all takes only a target and no JOB, but {job!r} and {target!r} were given",
        hint="flinkish savepoint --all [TARGET]",
    ),
    _Conflict(
        given="--from-checkpoint",
        beside="TARGET",
        message=(
            "--from-checkpoint URL takes only a target and no JOB, but {job!r} and {target!r} were "
            "given"
        ),
        hint="flinkish savepoint --from-checkpoint URL [TARGET]",
    ),
    _Conflict(
        given="--all",
        beside="-detached",
        message="--all waits for its result and cannot be -detached",
    ),
    _Conflict(
        given="--from-checkpoint",
        beside="-detached",
        message="--from-checkpoint URL waits for its result and cannot be -detached",
    ),
    _Conflict(
        given="--from-checkpoint",
        beside="--timeout",
        message="--from-checkpoint URL takes the savepoint itself, without a --timeout",
    ),
    _Conflict(
        given="--name",
        without="--all --from-checkpoint",
        message="--name requires --all or --from-checkpoint",
        hint="flinkish savepoint JOB [TARGET]",
    ),
    _Conflict(
        without="JOB --all --from-checkpoint --dispose",
        message="missing JobID: specify the job to take a savepoint of",
        hint="flinkish savepoint JOB [TARGET]; see the jobs with: flinkish list",
    ),
    _Conflict(
        given="-detached",
        beside="--keep",
        message=(
            "-detached does not wait for the new savepoint, but old savepoints are removed only "
            "after the new one is complete"
        ),
        hint="omit -detached or the --keep options",
    ),
)


def refusal(words: Collection[str]) -> tuple[str, str] | None:
    """Return the message and the hint against a combination of options and arguments. Pure."""
    for row in _CONFLICTS:
        beside, without = row.beside.split(), row.without.split()
        if (
            (not row.given or row.given in words)
            and (not beside or any(word in words for word in beside))
            and not any(word in words for word in without)
        ):
            return row.message, row.hint
    return None


def _is_given(parameter: str) -> bool:
    """Return whether the command line has a parameter, perhaps with its default as the value."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.COMMANDLINE


def _batch(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | str | None:
    """Convert the value of ``--batch``; UsageError if it is not a batch or ``newest-whole``."""
    if value is None or value == "newest-whole":
        return value
    if not (value.isascii() and value.isdigit() and len(value) < 18):
        raise UsageError(
            f"--batch {value} is not a batch", hint="use a batch number, or newest-whole"
        )
    return int(value)


@command(
    "savepoint",
    exit_codes=(3, 4, 5, 10, 11, 12, 13, 14, 15),
    documents=(*ONE_JOB, *ALL_JOBS, DisposeDocument),
)
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
    help="Share no files with earlier savepoints, so that the savepoint can be moved and copied "
    "alone.",
)
@format_option
@detached_option
@timeout_option
@keep_options(
    "On success, remove the job's savepoints in TARGET except the newest N and those "
    "kept by other --keep options."
)
@click.option(
    "--yes", is_flag=True, help="With -d or --from-checkpoint: do not ask for confirmation."
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
    **rules: Any,
) -> int:
    """Take a savepoint of a running job, which keeps running, or of a dead job.

    The savepoint becomes a new directory in TARGET, by default in
    execution.checkpointing.savepoint-dir. If you give the id of a FAILED, CANCELED or FINISHED
    job, its checkpoint is saved without a driver. To see the contents of a savepoint: flinkish
    savepoint show PATH
    """
    from flinkish.savepoint.manage.retention import Policy

    keep = Policy(**rules)
    words = {
        "JOB": job is not None,
        "TARGET": target is not None,
        "--dispose": dispose is not None,
        "--all": every,
        "--from-checkpoint": checkpoint is not None,
        "--batch": batch is not None,
        "--name": name is not None,
        "--expect": bool(expected),
        "--keep": not keep.is_empty,
        "-detached": detached,
        "--full": full,
        "-type": _is_given("format_"),
        "--timeout": timeout is not None,
    }
    conflict = refusal([word for word, is_given in words.items() if is_given])
    if conflict is not None:
        message, hint = conflict
        raise UsageError(message.format(job=job, target=target), hint=hint)
    with call.session() as session:
        if job is not None and (every or checkpoint is not None):
            _check_no_job(session, job)
        if dispose is not None:
            from flinkish.cli.commands import savepoint_dispose

            return savepoint_dispose.dispose(session, dispose, yes=yes, dry_run=dry_run)
        if every:
            from flinkish.cli.commands.savepoint_all import save_all

            return save_all(
                session,
                target=job,
                pattern=name,
                expected=expected,
                keep=keep,
                timeout=timeout,
                full=full,
                format_=format_,
                dry_run=dry_run,
            )
        if checkpoint is not None:
            return _save_checkpoint(
                session,
                checkpoint,
                target=job,
                name=name,
                keep=keep,
                batch=batch,
                full=full,
                format_=format_,
                yes=yes,
                dry_run=dry_run,
            )
        assert job is not None
        return _save_job(
            session,
            job,
            target=target,
            keep=keep,
            batch=batch,
            full=full,
            format_=format_,
            timeout=timeout,
            detached=detached,
            dry_run=dry_run,
        )


def _check_no_job(session: Session, target: str) -> None:
    """Refuse a target that is the name or id of a job, because the user probably means the job."""
    if "/" in target or ":" in target:
        return
    try:
        session.find_job(target, include_final=True)
    except AmbiguousJob:
        pass
    except (JobNotFound, UsageError):
        return
    raise UsageError(
        f"--all and --from-checkpoint take no JOB, but {target!r} is the name or id of one",
        hint=f"for the directory of that name: {quoted_path('./' + target)}",
    )


def _save_job(
    session: Session, reference: str, *, target: str | None, keep: Policy, **options: Any
) -> int:
    """Take a savepoint of a running or a dead job."""
    job = lifecycle.job_to_save(session, reference, target)
    with driver_output(session.out), session.reporter.live():
        outcome = lifecycle.save_job(
            session, job, target, keep=keep, on_taken=_shown_early(session), **options
        )
    if outcome.state is not None and outcome.state.is_final:
        return _show_taken(session, outcome, keep)
    if job.state.is_final:
        what = f"job {job.name} ({job.job_id}) from its checkpoint"
        return _would_save(session, outcome, what)
    return request_result.show(session.out, outcome, job)


def _save_checkpoint(session: Session, url: str, *, keep: Policy, yes: bool, **options: Any) -> int:
    """Take a savepoint of checkpoints unknown to flinkish."""
    from flinkish.client.offline import save_checkpoints

    agree = accept if yes else session.out.agree
    with driver_output(session.out), session.reporter.live():
        outcome = save_checkpoints(
            session, url, agree=agree, keep=keep, on_taken=_shown_early(session), **options
        )
    if outcome.state is None:
        return _would_save(session, outcome, f"the checkpoint {url}")
    return _show_taken(session, outcome, keep)


def _would_save(session: Session, outcome: Outcome, of: str) -> int:
    return request_result.show_dry_run(
        session.out, outcome, f"take a savepoint of {of} in {outcome.target}"
    )


def _shown_early(session: Session) -> Callable[[Outcome], object]:
    """Return a callback that shows people a new savepoint before old ones are removed."""

    def show(outcome: Outcome) -> None:
        session.reporter.stop()
        if not session.out.json:
            request_result.show_result(session.out, outcome)

    return show


def _show_taken(session: Session, outcome: Outcome, keep: Policy) -> int:
    """Show the document and the hint; raise PartialFailure if old savepoints were not removed."""
    out, removal = session.out, outcome.removal
    assert outcome.savepoint is not None
    if out.json:
        document = request_result.result_document(outcome)
        if not keep.is_empty:
            document["pruned"] = list(removal.removed)
        out.document(document)
    out.note(
        "You can resume your program from this savepoint with: "
        f"flinkish run -s {quoted_path(outcome.savepoint.path)} APP.py"
    )
    if removal.error is not None:
        raise not_pruned(str(outcome.target), removal.error)
    return 0
