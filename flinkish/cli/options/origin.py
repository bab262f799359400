"""The words ``[JOB|SAVEPOINT] APP.py [ARGS]...`` of ``check`` and ``rehearse``."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from flinkish.cli.base import Command, first_argument
from flinkish.cli.options.arguments import F, complete_file, complete_job
from flinkish.client import check_origin


class OriginFirst(Command):
    """A command whose first word is an origin, before the options or after them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the origin behind the options that follow it: ``JOB -p 4 APP.py``."""
        at = first_argument(self, args)
        if at is None or args[at + 1 : at + 2] == [] or not args[at + 1].startswith("-"):
            return super().parse_args(ctx, args)
        given = {word.partition("=")[0] for word in args[:at]} & {"-s", "--fromSavepoint"}
        if given or check_origin.is_program(args[at]):
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
