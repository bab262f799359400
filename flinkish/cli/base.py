"""The base of all commands: options, Flink's option spelling and exit codes."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from flinkish.cli.output.printer import Output
from flinkish.errors import UsageError, error_classes

if TYPE_CHECKING:
    from flinkish.cli.session import Session

HELP_NAMES = ["-h", "--help"]
#: The help is as wide as the terminal, up to this number of columns.
HELP_WIDTH = 110

#: Exit codes without an error class, and their meanings in the help.
_OTHER_CODES = {0: "ok", 130: "interrupted", 143: "terminated"}


class OptionalValue(click.Option):
    """An option whose value may be omitted: ``-s`` and ``-s TARGET`` (Flink's ``cancel -s``).

    An option with choices takes no other word: in ``--require-uids APP.py`` it has no value.
    """

    def takes(self, word: str) -> bool:
        """Return whether the word after the option is its value."""
        if isinstance(self.type, click.Choice):
            # An empty word is meant as a value, and refused.
            return word in self.type.choices or not word.strip()
        return not word.startswith("-")


class Command(click.Command):
    """A command that accepts Flink's long options and whose help ends with its exit codes.

    Flink's options have one dash whatever their length (``-detached``), so a misspelt option could
    be read as a short option with a value. Flink 1.18 reads ``savepoint -detached`` as
    ``-d etached``, and tries to dispose of a savepoint ``etached``. In flinkish only ``-D`` and
    numeric options (``-p4``) accept an attached value; ``-p=4`` means ``-p 4``, as in Flink.
    """

    def __init__(
        self,
        *args: Any,
        exit_codes: Sequence[int] = (),
        documents: Sequence[type] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.exit_codes = tuple(exit_codes)
        #: The types of the documents that the command prints with ``--json``.
        self.documents = tuple(documents)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Check that options are well spelt and no value is empty, then parse the words."""
        if not ctx.resilient_parsing:
            for kind, word in scan(self, args):
                if kind == "option":
                    _check_not_only_flinks(self, word)
                if kind == "option" and not _well_spelt(self, word):
                    near = did_you_mean(word, _options(self))
                    raise click.UsageError(f"No such option {word!r}.{near}", ctx=ctx)
        args = _with_split_values(self, _with_omitted_values(self, args))
        if not ctx.resilient_parsing:
            _check_not_empty(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        from flinkish.cli.help_sections import options_by_section

        for title, options in options_by_section(self.get_params(ctx)).items():
            records = [option.get_help_record(ctx) for option in options]
            with formatter.section(title):
                formatter.write_dl([record for record in records if record is not None])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the epilog, with examples before it and the exit codes at the end."""
        from flinkish.cli.help_sections import examples_of

        name = ctx.command_path.partition(" ")[2]
        with formatter.section("Examples"):
            for purpose, words in examples_of(name):
                formatter.write_text(f"# {purpose}")
                # Not wrapped, so that the command can be pasted.
                formatter.write(f"{'':>{formatter.current_indent}}{words}\n")
        super().format_epilog(ctx, formatter)
        meanings = exit_code_meanings()
        text = ", ".join(f"{code} {meanings[code]}" for code in self.exit_codes)
        lines = textwrap.wrap(f"Exit codes: {text}", width=formatter.width, break_on_hyphens=False)
        formatter.write_paragraph()
        formatter.write("\n".join(lines) + "\n")


def _check_not_only_flinks(command: click.Command, word: str) -> None:
    """Refuse an option that only Flink has, and say what to use instead."""
    name = word.partition("=")[0]
    if name in _options(command):
        return
    from flinkish.cli.flink_options import instead_of

    instead = instead_of(command.name, word)
    if instead is not None:
        raise UsageError(f"no such option {name!r}: {instead}")


def _with_omitted_values(command: click.Command, args: Sequence[str]) -> list[str]:
    """Return the command line with ``--option=DEFAULT`` where an option with choices has no value.

    Click would take the next word as the value.
    """
    options, words = _options(command), list(args)
    for kind, at in _places(command, args):
        option = options.get(args[at]) if kind == "option" else None
        if isinstance(option, OptionalValue) and isinstance(option.type, click.Choice):
            following = args[at + 1 : at + 2]
            if not following or not option.takes(following[0]):
                words[at] = f"{args[at]}={option.flag_value}"
    return words


def _with_split_values(command: click.Command, args: Sequence[str]) -> list[str]:
    """Return the command line with ``-p x`` for ``-p=x``, where click would read ``=x``."""
    options, words = _options(command), list(args)
    for kind, at in reversed([*_places(command, args)]):
        name, equals, value = words[at].partition("=")
        option = options.get(name) if kind == "option" and len(name) == 2 and equals else None
        if option is not None and not option.is_flag and name != "-D":
            words[at : at + 1] = [name, value]
    return words


def _check_not_empty(command: click.Command, ctx: click.Context, args: Sequence[str]) -> None:
    """Refuse empty values, before any of them is converted.

    ``"$UNSET"`` in a script is an empty word. As a path it would mean the working directory, as a
    name every job. Values of the type UNPROCESSED, such as a program's arguments, may be empty.
    """
    values_by_name, _, _ = command.make_parser(ctx).parse_args(list(args))
    for parameter in command.params:
        value = values_by_name.get(parameter.name)
        if parameter.type is click.UNPROCESSED:
            continue
        values = [value] if isinstance(value, str) else value
        words = values if isinstance(values, list | tuple) else ()
        if any(isinstance(word, str) and not word.strip() for word in words):
            raise click.BadParameter("the value is empty", ctx=ctx, param=parameter)


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` with the known word nearest to ``word``, or an empty string."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(words), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def exit_code_meanings() -> dict[int, str]:
    """Return the meaning of each exit code: the id of the most general error that has it."""
    meanings = dict(_OTHER_CODES)
    for cls in error_classes():
        meanings.setdefault(cls.code, cls.id)
    return dict(sorted(meanings.items()))


@dataclass(frozen=True)
class Call:
    """One call of a command: its output and its ``-D`` options."""

    out: Output
    dynamic: tuple[str, ...]

    def session(self, flags: Mapping[str, str | None] | None = None) -> Session:
        """Return a session; ``flags`` are configuration keys set by the command's own options."""
        # The registry's object model takes a third of the start-up time; the help does not need it.
        from flinkish.cli.session import Session

        return Session(self.out, dynamic=self.dynamic, flags=flags)


def command(
    name: str,
    *,
    exit_codes: Sequence[int],
    documents: Sequence[type],
    cls: type[Command] = Command,
    **attributes: Any,
) -> Callable[[Callable[..., int]], Command]:
    """Declare a command: a function that takes a :class:`Call` and its options by name.

    ``exit_codes``: the command's exit codes besides 0, 1, 2, 16, 130 and 143, which every command
    has. ``documents``: the types of the documents that the command prints with ``--json``
    (:mod:`flinkish.cli.documents`). ``attributes``: arguments of :class:`click.Command`.
    """
    codes = sorted({0, 1, 2, 16, 130, 143, *exit_codes})

    def decorate(function: Callable[..., int]) -> Command:
        @functools.wraps(function)
        def called(
            json_output: bool, quiet: bool, debug: bool, dynamic: tuple[str, ...], **options: Any
        ) -> int:
            out = Output(json=json_output, quiet=quiet, debug=debug)
            outputs = click.get_current_context().obj
            if outputs is not None:
                outputs.append(out)
            return function(Call(out, dynamic), **options)

        settings = {
            "help_option_names": HELP_NAMES,
            "max_content_width": HELP_WIDTH,
            **attributes.pop("context_settings", {}),
        }
        declared = click.command(
            name,
            cls=cls,
            exit_codes=codes,
            documents=documents,
            context_settings=settings,
            **attributes,
        )(called)
        declared.params += _common_options()  # after the command's own options
        for parameter in declared.params:
            if isinstance(parameter.type, click.Path):
                # The client reports what it cannot read; a target is read by the driver only.
                parameter.type.readable = False
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
        click.Option(
            ["--json", "json_output"], is_flag=True, help="Print one JSON document on stdout."
        ),
        click.Option(
            ["-q", "--quiet"], is_flag=True, help="Print only the main result, for scripts."
        ),
        click.Option(["--debug"], is_flag=True, help="Show tracebacks of errors."),
    ]


def scan(command: click.Command, args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the words of a command line as ``("option", word)`` and ``("argument", word)``.

    Values of options are left out. The words end at ``--``, or after the program of ``run``: the
    rest is not the command's own. This function only reads; click parses.
    """
    for kind, at in _places(command, args):
        yield kind, args[at]


def _places(command: click.Command, args: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the same as :func:`scan`, but with the index of each word instead of the word."""
    options = _options(command)
    interspersed = command.context_settings.get("allow_interspersed_args", True)
    following = 0
    while following < len(args):
        at, word = following, args[following]
        following += 1
        if word == "--":
            return
        if not word.startswith("-") or word == "-":
            yield "argument", at
            if not interspersed:
                return
            continue
        yield "option", at
        name, equals, _ = word.partition("=")
        option = options.get(name)
        if option is None and not word.startswith("--"):
            option = options.get(word[:2]) if len(word) == 2 else None
        if option is None or equals or option.is_flag or option.count:
            continue
        value = args[following] if following < len(args) else "-"
        if isinstance(option, OptionalValue) and not option.takes(value):
            continue
        following += 1


def first_argument(command: click.Command, args: Sequence[str]) -> int | None:
    """Return the index of the first word that is neither an option nor the value of one."""
    return next((at for kind, at in _places(command, args) if kind == "argument"), None)


def end_of_options(command: click.Command, args: Sequence[str]) -> int:
    """Return the index of the first argument or of ``--``; the number of words without either."""
    at = first_argument(command, args)
    return at if at is not None else [*args, "--"].index("--")


def _options(command: click.Command) -> dict[str, click.Option]:
    options: dict[str, click.Option] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            for spelling in (*parameter.opts, *parameter.secondary_opts):
                options[spelling] = parameter
    return options


def _well_spelt(command: click.Command, word: str) -> bool:
    options = _options(command)
    name = word.partition("=")[0]
    if word.startswith("--") or len(word) <= 2 or name in options or word in HELP_NAMES:
        return True  # click reports an unknown long option
    first = options.get(word[:2])
    if first is None:
        return False
    if not first.is_flag:
        if word[:2] == "-D":
            return True
        is_number = isinstance(first.type, (click.types.IntParamType, click.IntRange))
        return is_number and word[2:].isascii() and word[2:].isdigit()
    letters = [options.get("-" + letter) for letter in word[1:]]
    return all(option is not None and option.is_flag for option in letters)
