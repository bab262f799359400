"""Write the manual pages from the commands; ``python -m flinkish.cli.man`` writes ``man/``.

``flinkish.1`` lists the commands and the exit codes. Each other page, such as ``flinkish-run.1``,
is about one command.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator, Sequence

import click

from flinkish import __version__
from flinkish.cli import command_index
from flinkish.cli.app import root
from flinkish.cli.base import Command
from flinkish.cli.docs import MEANINGS, checkout
from flinkish.cli.help_sections import COMMANDS, examples_of, options_by_section


def pages() -> dict[str, str]:
    """Return the text of every page, by the name of its file."""
    commands = list(command_index.every_command())
    every = {"flinkish.1": _page(_overview(commands))}
    for name, command in commands:
        every[f"{_title(name)}.1"] = _page(_command(name, command))
    return every


def _page(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _overview(commands: Sequence[tuple[str, click.Command]]) -> Iterator[str]:
    yield from _head("flinkish", "Flink's job lifecycle for PySpark Structured Streaming")
    yield from (".SH SYNOPSIS", ".B flinkish", r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]")
    yield from (".SH DESCRIPTION", _text(root.help or ""))
    for title, names in COMMANDS.items():
        yield f".SH {title.upper()}"
        for name, command in commands:
            if name.split()[0] in names:
                yield from (".TP", rf"\fB{_title(name)}\fR(1)", _text(_paragraphs(command)[0]))
    yield from _exit_status(MEANINGS)
    yield from (
        ".SH ENVIRONMENT",
        ".TP",
        ".B FLINKISH_REGISTRY",
        "The URL or path of the registry.",
    )
    yield from (".TP", r"\fBFLINKISH_\fIKEY\fR", _text("A configuration key in capitals, with _."))
    yield from (".SH FILES", ".TP", ".I ./flinkish.toml", ".TQ")
    yield from (".I $XDG_CONFIG_HOME/flinkish/config.toml", "Configuration, see")
    yield ".BR flinkish-config-show (1)."


def _command(name: str, command: click.Command) -> Iterator[str]:
    paragraphs = _paragraphs(command)
    yield from _head(_title(name), paragraphs[0].rstrip("."))
    ctx = click.Context(command, info_name=name)
    words = [command.options_metavar or "", *_arguments(command, ctx)]
    yield from (".SH SYNOPSIS", rf"\fBflinkish {_text(name)}\fR {_text(' '.join(words))}")
    yield ".SH DESCRIPTION"
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield ".PP"
        if paragraph.startswith("\b\n"):  # click keeps the lines of such a paragraph
            yield from (".nf", *map(_text, paragraph[2:].split("\n")), ".fi")
        else:
            yield _text(paragraph.replace("\n", " "))
    for title, options in options_by_section(command.params).items():
        yield f".SH {title.upper()}"
        for option in options:
            record = option.get_help_record(ctx)
            if record is not None:
                yield from (".TP", rf"\fB{_text(record[0])}\fR", _text(record[1] or "."))
    yield ".SH EXAMPLES"
    for purpose, line in examples_of(name):
        yield from (".TP", _text(purpose[:1].upper() + purpose[1:]), rf"\fB{_text(line)}\fR")
    if isinstance(command, Command):
        yield from _exit_status({code: MEANINGS[code] for code in command.exit_codes})
    yield from (".SH SEE ALSO", ".BR flinkish (1)")


def _head(title: str, purpose: str) -> Iterator[str]:
    yield rf'.TH {title.upper()} 1 "" "flinkish {__version__}" "flinkish"'
    yield from (".SH NAME", rf"{_text(title)} \- {_text(purpose)}")


def _exit_status(meanings: dict[int, str]) -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, meaning in meanings.items():
        yield from (".TP", rf"\fB{code}\fR", _text(meaning.replace("`", "")))


def _title(name: str) -> str:
    return f"flinkish-{name.replace(' ', '-')}"


def _arguments(command: click.Command, ctx: click.Context) -> list[str]:
    return [p.make_metavar(ctx) for p in command.params if isinstance(p, click.Argument)]


def _paragraphs(command: click.Command) -> list[str]:
    return re.split(r"\n\n+", inspect.cleandoc(command.help or ""))


def _text(text: str) -> str:
    """Escape a text for roff, so that none of it is read as a macro."""
    escaped = text.strip().replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped[:1] in (".", "'") else escaped


def main() -> int:
    """Write the pages into ``man/`` of this checkout."""
    directory = os.path.join(checkout(), "man")
    os.makedirs(directory, exist_ok=True)
    for name, text in pages().items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
