"""What a check or a restore starts from, and whether a version of Spark can resume it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flinkish.client.context import Context
from flinkish.config import Config
from flinkish.errors import (
    AmbiguousJob,
    JobNotFound,
    SavepointNotFound,
    UsageError,
    quoted_path,
)
from flinkish.messages.launch import RestoreSpec
from flinkish.registry.jobs import JobRecord
from flinkish.storage.local import status_of

if TYPE_CHECKING:
    from flinkish.messages.calls import JobOrigin
    from flinkish.restore.origin.restore_origin import RestoreOrigin

_CONFIGURED = "execution.state-recovery.path"
_METADATA = "_metadata"
_WHICH = "flinkish check JOB APP.py, or flinkish check -s PATH APP.py"


def split_words(
    words: Sequence[str], config: Config, *, named: bool, has_program: bool
) -> tuple[str | None, tuple[str, ...]]:
    """Split the words of ``check`` into the origin and the program with its arguments.

    Without ``-s`` the first word is the origin. A configured savepoint is the origin where the
    first word is the program.

    ``words``: the words after the options. ``config``: may have a savepoint to restore. ``named``:
    whether ``-s`` names the savepoint. ``has_program``: whether an option names the program, so
    that it is not among the words.

    Returns the origin, None where it is not among the words; and the other words.

    Raises UsageError if there is no origin.
    """
    rest = tuple(words)
    if not has_program and rest and not rest[0].strip():
        raise UsageError("the first argument is empty", hint=_WHICH)
    configured = config.get(_CONFIGURED) is not None
    if named or (configured and (has_program or len(rest) < 2 or is_program(rest[0]))):
        return None, rest
    if len(rest) < (1 if has_program else 2) or (not has_program and is_program(rest[0])):
        raise UsageError(
            "no savepoint or job, and no program was specified",
            hint=_WHICH,
        )
    return rest[0], rest[1:]


def is_program(word: str) -> bool:
    """Return whether a word is the file of a program, as far as its name tells."""
    return os.path.isfile(word) and os.path.basename(word) != _METADATA


def find_origin(context: Context, word: str) -> JobRecord | str:
    """Return the job that a word refers to, or the word itself if it is the place of a savepoint.

    ``word``: a URL or a path that exists is a savepoint; else it is a job's id, a prefix of one, or
    a name, also that of a job that has ended.

    Raises UsageError if it is a job and a path; AmbiguousJob or JobNotFound if it means several
    jobs, or nothing; SavepointNotFound if it can only be a path, and there is nothing.
    """
    if "://" in word or word.startswith("file:"):
        return word
    there = status_of(os.path.expanduser(word), follow=True) is not None
    is_path = "/" in word or word.startswith("~")
    if there and is_path:
        return word
    try:
        job = context.find_job(word, include_final=True)
    except AmbiguousJob:
        if not there:
            raise
        which = "several jobs"
    except (JobNotFound, UsageError) as error:
        if there:
            return word
        if is_path:
            raise SavepointNotFound(f"no savepoint at {word}", path=word) from None
        if not isinstance(error, JobNotFound):
            raise
        nothing = f"{error.message}, nor a savepoint at that path"
        raise JobNotFound(nothing, hint=error.hint) from None
    else:
        if not there:
            return job
        which = f"job {job.name} ({job.job_id})"
    raise UsageError(
        f"{word!r} is ambiguous: it means {which}, and is also a path here",
        hint=f"for the savepoint, use -s {quoted_path(word)}; for the job, its id, or more "
        "digits of it",
    )


def check_restorable(
    context: Context, spec: RestoreSpec, spark: str | None, *, job: JobOrigin | None = None
) -> None:
    """Check before the launch that a version of Spark can restore a savepoint.

    ``context``: its reporter receives the warnings and notes of the version matrix. ``spec``: the
    savepoint, or a plain checkpoint, and how its files are checked. ``spark``: version of the Spark
    that will run, None if unknown. ``job``: the job whose checkpoints are restored instead.

    Raises SavepointNotFound, Corrupt or UnsupportedFormat if the savepoint is missing, incomplete,
    damaged or not readable; Incompatible if, according to the version matrix, this Spark cannot
    resume the savepoint.
    """
    from flinkish.restore.origin.restore_origin import open_origin

    check_open_origin(context, open_origin(spec, job, verify=spec.verify), spark)


def check_open_origin(context: Context, origin: RestoreOrigin, spark: str | None) -> None:
    """Check before the launch that a version of Spark can restore what is open already.

    Parameters and errors are those of :func:`check_restorable`.
    """
    from flinkish.messages.plan import RestoreOutcome
    from flinkish.restore.check.version_check import check_spark_version

    versions = check_spark_version(origin, spark)
    if versions.error is not None:
        raise versions.error
    if versions.check.outcome is RestoreOutcome.WARNING:
        context.reporter.warning(versions.check.text)
    elif versions.check.outcome is not RestoreOutcome.OK:
        context.reporter.note(versions.check.text)
