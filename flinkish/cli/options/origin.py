"""The words ``[JOB|SAVEPOINT] APP.py [ARGS]...`` of ``check`` and ``rehearse``."""

from __future__ import annotations

from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem

from flinkish.cli.base import Command, Session, first_argument
from flinkish.cli.options.arguments import F, complete_file, complete_job
from flinkish.cli.options.program import named_by
from flinkish.client import check_origin
from flinkish.launch.restoring import settings
from flinkish.messages.launch import Program
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord


@dataclass(frozen=True)
class OriginOptions:
    """The parsed options of a command with these words."""

    savepoint: str | None
    restore: RestoreOptions
    parallelism: int | None
    program: Program

    def settings(self) -> dict[str, str | None]:
        """Return the options that are settings too, by their keys."""
        return settings(self.savepoint, self.restore, self.parallelism)


@dataclass(frozen=True)
class Origin:
    """A parsed command line: what to restore (a savepoint, or ``job``) with which program."""

    program: Program
    savepoint: str | None
    job: JobRecord | None


class OriginFirst(Command):
    """A command whose first word is an origin, before the options or after them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the origin to after the options that follow it: ``JOB -p 4 APP.py``."""
        at = first_argument(self, args)
        if at is None or args[at + 1 : at + 2] == [] or not args[at + 1].startswith("-"):
            return super().parse_args(ctx, args)
        flags = {word.partition("=")[0] for word in args[:at]} & {"-s", "--fromSavepoint"}
        if flags or check_origin.is_program(args[at]):
            return super().parse_args(ctx, args)  # these are the program's own
        behind = args[at + 1 :]
        program = first_argument(self, behind)
        end = len(behind) if program is None else program
        return super().parse_args(ctx, [*args[:at], *behind[:end], args[at], *behind[end:]])


def _complete(ctx: click.Context, parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """Return the jobs, and let the shell complete file names."""
    return [*complete_job(ctx, parameter, word), *complete_file(ctx, parameter, word)]


def origin_and_program(function: F) -> F:
    """Add the argument ``words``; the command has the class :class:`OriginFirst`."""
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
    word, rest = check_origin.split_words(
        program.arguments,
        session.config,
        named=options.savepoint is not None,
        has_program=bool(program.application or program.module),
    )
    origin = None if word is None else check_origin.find_origin(session, word)
    savepoint = origin if isinstance(origin, str) else options.savepoint
    job = origin if isinstance(origin, JobRecord) else None
    return Origin(named_by(rest, program), savepoint, job)
