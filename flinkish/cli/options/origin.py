"""The words ``[JOB|SAVEPOINT] APP.py [ARGS]...`` of ``check`` and ``rehearse``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem

from flinkish.cli.base import Command, end_of_options, first_argument
from flinkish.cli.options.arguments import F, complete_file, complete_job
from flinkish.cli.options.program import named_by
from flinkish.cli.session import Session
from flinkish.config import Config
from flinkish.errors import UsageError
from flinkish.launch.restoring import RECOVERY_PATH, settings
from flinkish.messages.launch import Program
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord

_METADATA = "_metadata"


@dataclass(frozen=True)
class OriginOptions:
    """The parsed options that ``check``, ``rehearse`` and ``export`` share."""

    savepoint: str | None
    restore: RestoreOptions
    parallelism: int | None
    program: Program

    def settings(self) -> dict[str, str | None]:
        """Return the options that set configuration keys, by key."""
        return settings(self.savepoint, self.restore, self.parallelism)


@dataclass(frozen=True)
class Origin:
    """A parsed command line: the program, and the savepoint or the job that it restores.

    If there is neither, the program restores the configured savepoint.
    """

    program: Program
    savepoint: str | None
    job: JobRecord | None


class OriginFirst(Command):
    """A command whose first word is an origin, before the options or after them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the origin past the options that follow it: ``JOB -p 4 APP.py``."""
        at = first_argument(self, args)
        if at is None or args[at + 1 : at + 2] == [] or not args[at + 1].startswith("-"):
            return super().parse_args(ctx, args)
        flags = {word.partition("=")[0] for word in args[:at]} & {"-s", "--fromSavepoint"}
        if flags or is_program(args[at]):
            return super().parse_args(ctx, args)  # the options that follow are the program's
        behind = args[at + 1 :]
        end = end_of_options(self, behind)
        program, dashes = behind[end:], behind[end : end + 1] == ["--"]
        words = ["--", args[at], *program[1:]] if dashes else [args[at], *program]
        return super().parse_args(ctx, [*args[:at], *behind[:end], *words])


def _complete(ctx: click.Context, parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """Return the jobs, and let the shell complete file names."""
    return [*complete_job(ctx, parameter, word), *complete_file(ctx, parameter, word)]


def origin_and_program(function: F) -> F:
    """Add the argument ``words``; the command must have the class :class:`OriginFirst`."""
    return click.argument(
        "words",
        metavar="[JOB|SAVEPOINT] APP.py [ARGS]...",
        nargs=-1,
        type=click.UNPROCESSED,
        shell_complete=_complete,
    )(function)


def origin_of(session: Session, options: OriginOptions) -> Origin:
    """Find the savepoint or job, and the program, that a command's arguments name."""
    program = options.program
    word, rest = split_words(
        program.arguments,
        session.config,
        named=options.savepoint is not None,
        has_program=bool(program.application or program.module),
    )
    origin = None if word is None else session.find_origin(word)
    savepoint = origin if isinstance(origin, str) else options.savepoint
    job = origin if isinstance(origin, JobRecord) else None
    return Origin(named_by(rest, program), savepoint, job)


def split_words(
    words: Sequence[str], config: Config, *, named: bool, has_program: bool
) -> tuple[str | None, tuple[str, ...]]:
    """Split the words of a command into the origin and the program with its arguments.

    Without ``-s`` the first word is the origin. A configured savepoint is the origin instead if
    the first word is the program or the only word, or if an option names the program.

    ``words``: the words after the options. ``config``: may have a savepoint to restore. ``named``:
    whether ``-s`` names the savepoint. ``has_program``: whether an option names the program, which
    then is not among the words.

    Returns the origin (None if it is not among the words) and the other words.

    Raises UsageError if the first word is empty and no option names the program, or if the origin,
    or the program behind it, is missing.
    """
    rest = tuple(words)
    if not has_program and rest and not rest[0].strip():
        raise UsageError("the first argument is empty", hint=_usage())
    configured = config.get(RECOVERY_PATH) is not None
    if named or (configured and (has_program or len(rest) < 2 or is_program(rest[0]))):
        return None, rest
    if len(rest) < (1 if has_program else 2) or (not has_program and is_program(rest[0])):
        if not rest and not has_program:
            missing = "no savepoint or job, and no program was specified"
        elif has_program or is_program(rest[0]):
            missing = "no savepoint or job was specified"
        else:  # maybe a program that does not exist
            missing = f"only {rest[0]} was specified, not a savepoint or job and a program"
        raise UsageError(missing, hint=_usage())
    return rest[0], rest[1:]


def _usage() -> str:
    context = click.get_current_context(silent=True)
    command = f"flinkish {context.info_name if context else 'check'}"
    return f"{command} JOB APP.py, or {command} -s PATH APP.py"


def is_program(word: str) -> bool:
    """Return whether a word names an existing file other than ``_metadata``, and so a program."""
    return os.path.isfile(word) and os.path.basename(word) != _METADATA
