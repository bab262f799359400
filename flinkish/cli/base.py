"""What all commands share: the options of every command, Flink's option spelling, exit codes."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from flinkish.cli.output.printer import Output
from flinkish.cli.session import Session
from flinkish.errors import error_classes

HELP_NAMES = ["-h", "--help"]

#: What each exit code means in the help; of a code with several errors the most general one.
_OTHER_CODES = {0: "ok", 130: "interrupted", 143: "terminated"}


class OptionalValue(click.Option):
    """An option whose value may be left out: ``-s`` and ``-s TARGET`` (Flink's ``cancel -s``)."""


class Command(click.Command):
    """A command whose help ends with its exit codes and that takes Flink's long options.

    Flink's options have one dash whatever their length (``-detached``), so a misspelt one would
    be read as a short option with a value: Flink 1.18 takes ``savepoint -detached`` for
    ``-d etached`` and tries to dispose of that. Here a value may be attached to ``-D`` and to
    numbers (``-p4``) only.
    """

    def __init__(self, *args: Any, exit_codes: Sequence[int] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.exit_codes = tuple(exit_codes)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Check the spelling of options, then parse."""
        if not ctx.resilient_parsing:
            for kind, word in scan(self, args):
                if kind == "option" and not _well_spelt(self, word):
                    near = did_you_mean(word, _options(self))
                    raise click.UsageError(f"No such option {word!r}.{near}", ctx=ctx)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The exit codes, last."""
        super().format_epilog(ctx, formatter)
        meanings = exit_code_meanings()
        text = ", ".join(f"{code} {meanings[code]}" for code in self.exit_codes)
        lines = textwrap.wrap(f"Exit codes: {text}", width=formatter.width, break_on_hyphens=False)
        formatter.write_paragraph()
        formatter.write("\n".join(lines) + "\n")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` with the known word nearest to ``word``; empty when none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def exit_code_meanings() -> dict[int, str]:
    """Each exit code and the id of the most general error that has it."""
    meanings = dict(_OTHER_CODES)
    for cls in error_classes():
        meanings.setdefault(cls.code, cls.id)
    return dict(sorted(meanings.items()))


@dataclass(frozen=True)
class Call:
    """One call of a command: its output, and the ``-D`` options."""

    out: Output
    dynamic: tuple[str, ...]

    def session(self, flags: Mapping[str, str | None] | None = None) -> Session:
        """A session; ``flags`` are configuration keys set by the command's own options."""
        return Session(self.out, dynamic=self.dynamic, flags=flags)


def command(
    name: str, *, exit_codes: Sequence[int], **attributes: Any
) -> Callable[[Callable[..., int]], Command]:
    """Declare a command: a function that takes a :class:`Call` and its options by name.

    Parameters
    ----------
    exit_codes: those it can give beside 0, 1, 2, 16, 130 and 143, which all can.
    attributes: of :class:`click.Command`.
    """
    codes = sorted({0, 1, 2, 16, 130, 143, *exit_codes})

    def decorate(function: Callable[..., int]) -> Command:
        @functools.wraps(function)
        def called(
            json_output: bool, quiet: bool, debug: bool, dynamic: tuple[str, ...], **options: Any
        ) -> int:
            out = Output(json=json_output, quiet=quiet, debug=debug)
            return function(Call(out, dynamic), **options)

        settings = {"help_option_names": HELP_NAMES, **attributes.pop("context_settings", {})}
        declared = click.command(
            name, cls=Command, exit_codes=codes, context_settings=settings, **attributes
        )(called)
        declared.params += _common_options()  # after the command's own
        return declared

    return decorate


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["-D", "dynamic"],
            multiple=True,
            metavar="KEY=VALUE",
            help="Set a configuration key (repeatable).",
        ),
        click.Option(["--json", "json_output"], is_flag=True, help="One JSON document on stdout."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Only the one thing a script wants."),
        click.Option(["--debug"], is_flag=True, help="Show tracebacks of errors."),
    ]


def scan(command: click.Command, args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The words of a command line as ``("option", word)`` and ``("argument", word)``.

    Values of options are left out. Stops where the command's own words end (the program of
    ``run``, or ``--``). Only reads; click parses.
    """
    options = _options(command)
    interspersed = command.context_settings.get("allow_interspersed_args", True)
    words = list(args)
    while words:
        word = words.pop(0)
        if word == "--":
            return
        if not word.startswith("-") or word == "-":
            yield "argument", word
            if not interspersed:
                return
            continue
        yield "option", word
        name, equals, _ = word.partition("=")
        option = options.get(name)
        if option is None and not word.startswith("--"):
            option = options.get(word[:2]) if len(word) == 2 else None
        if option is None or equals or option.is_flag or option.count:
            continue
        if isinstance(option, OptionalValue) and (not words or words[0].startswith("-")):
            continue
        del words[:1]


def _options(command: click.Command) -> dict[str, click.Option]:
    found: dict[str, click.Option] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            for spelling in (*parameter.opts, *parameter.secondary_opts):
                found[spelling] = parameter
    return found


def _well_spelt(command: click.Command, word: str) -> bool:
    options = _options(command)
    name = word.partition("=")[0]
    if word.startswith("--") or len(word) <= 2 or name in options or word in HELP_NAMES:
        return True  # an unknown long one is click's to report
    first = options.get(word[:2])
    if first is None:
        return False
    if not first.is_flag:
        return word[:2] == "-D" or isinstance(
            first.type, (click.types.IntParamType, click.IntRange)
        )
    letters = [options.get("-" + letter) for letter in word[1:]]
    return all(option is not None and option.is_flag for option in letters)
