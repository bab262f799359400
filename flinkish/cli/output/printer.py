"""How results, notices and errors reach the user: stdout for the result, stderr for the rest.

Names, paths and messages come from elsewhere (other users' jobs, directories that others write
into). Their unprintable characters are escaped here, except in what ``-q`` writes into a pipe
(:meth:`Output.line`); :func:`flinkish.units.table` escapes them before it aligns columns. JSON does
its own escaping. Outside this package, only the fast path of ``list``, ``completion``, click's own
texts, the JSON line of an interrupted command, and the line about an early SIGTERM bypass this
module.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TextIO

from flinkish.cli.output.streams import flush
from flinkish.cli.output.text import SCHEMA_VERSION, json_document, without_commands
from flinkish.errors import ConsentNeeded, FlinkishError, UsageError
from flinkish.units import visible, visible_lines


class Output:
    """The output of one command.

    With ``json``: one JSON document on stdout, or an error as one JSON line on stderr, with the
    warnings in it; no notices. With ``quiet``: only the main result.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False, debug: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self.debug = debug
        self._warnings: list[str] = []

    def line(self, text: str = "") -> None:
        """Write one line of the result; with ``-q`` raw into a pipe or a file, for scripts.

        Otherwise the line is escaped, and a line with surrogates always is. Line feeds are always
        escaped, so that a name cannot add a line to a list that a script reads.
        """
        is_text = not any("\ud800" <= character <= "\udfff" for character in text)
        raw = self.quiet and is_text and not sys.stdout.isatty()
        sys.stdout.write((text.replace("\n", "\\n") if raw else visible(text)) + "\n")

    def text(self, text: str) -> None:
        """Write lines of the result, which have their line ends and are escaped already."""
        sys.stdout.write(text)

    def document(self, fields: Mapping[str, Any]) -> None:
        """Write the result as the one JSON document, with the warnings so far, if there are any."""
        warnings = [*self._warnings, *fields.get("warnings", ())]
        document = {**fields, "warnings": warnings} if warnings else fields
        sys.stdout.write(json_document(masked(document)) + "\n")

    def note(self, text: str) -> None:
        """Write a notice about the current activity, for people, on stderr."""
        if not (self.json or self.quiet):
            self.complain(text)

    def complain(self, text: str) -> None:
        """Write one line on stderr, even with ``-q`` and ``--json``."""
        sys.stderr.write(_one_line(text) + "\n")
        sys.stderr.flush()

    def ask(self, question: str) -> bool:
        """Ask a yes-or-no question; stdin and stderr must be terminals."""
        sys.stderr.write(f"{_one_line(question)} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def agree(self, question: str) -> bool:
        """Ask a question if stdin and stderr are terminals; otherwise the answer is no."""
        return sys.stdin.isatty() and sys.stderr.isatty() and self.ask(question)

    def agree_to_remove(self, what: str, names: Iterable[str]) -> None:
        """List the names, and ask whether to remove ``what``.

        Raises ConsentNeeded if the user refuses, or stdin or stderr is not a terminal.
        """
        refused = ConsentNeeded(
            f"removing {what} needs confirmation",
            hint="use --yes to remove them, or --dry-run to see which would be removed",
        )
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise refused
        for name in names:
            self.complain(f"  {name}")
        if not self.ask(f"Remove {what}?"):
            raise refused

    def warning(self, text: str) -> None:
        """Write a warning about something that did not fail (``-q`` does not hide it).

        With ``json`` the warning becomes part of the document, or of the error. A warning that has
        been given is not repeated, because ``--watch`` reads the configuration at every refresh.
        """
        if text in self._warnings:
            return
        self._warnings.append(text)
        if not self.json:
            self.complain(f"warning: {text}")

    def error(self, error: FlinkishError) -> None:
        """Write an error: its message, then its hint; with ``--json`` one line."""
        message, hint = _joined(error.message), _joined(error.advice)
        sys.stdout.flush()
        if self.json:
            fields: dict[str, Any] = {
                "error": {**error.to_record(), "message": message, "hint": hint}
            }
            fields |= {"warnings": self._warnings} if self._warnings else {}
            document = {"schema_version": SCHEMA_VERSION, **masked(fields)}
            line = json.dumps(document, default=_plain)
            sys.stderr.write(line.replace("##[", "##\\u005b") + "\n")  # as without_commands
        else:
            sys.stderr.write(without_commands(f"error: {visible(message)}\n"))
            if hint:
                sys.stderr.write(without_commands(f"hint: {visible(hint)}\n"))
        sys.stderr.flush()


def copy_log(text: str, stream: TextIO) -> None:
    """Write part of a program's log: raw into a pipe or a file, escaped on a terminal.

    Raises :class:`~flinkish.cli.output.streams.StreamLost` as :func:`flush` does.
    """
    stream.write(visible_lines(text) if stream.isatty() else text)
    flush(stream)


def show_traceback(error: BaseException) -> None:
    """Write the traceback of ``error`` to stderr, for ``--debug``."""
    import traceback

    lines = visible_lines("".join(traceback.format_exception(error)))
    sys.stderr.write(without_commands(lines))


def is_terminal(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """Return whether animation and colour may go to ``stream``."""
    env = os.environ if environ is None else environ
    if env.get("NO_COLOR") or env.get("TERM", "dumb") == "dumb":
        return False
    return stream.isatty()


def masked(value: Any) -> Any:
    """Return plain data with the passwords in its texts masked."""
    if isinstance(value, str):
        return _without_secrets(value)
    if isinstance(value, Mapping):
        return {key: masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        from flinkish.messages.codec import encode_fields

        return masked(encode_fields(value))
    return value


def _without_secrets(text: str) -> str:
    # This import takes a tenth of the time of ``--help``, which needs no mask.
    from flinkish.config import mask_secrets

    return mask_secrets(text)


def _joined(text: str) -> str:
    return _without_secrets(" ".join(text.split("\n")).strip())


def _one_line(text: str) -> str:
    line = visible(_without_secrets(" ".join(text.rstrip("\n").split("\n"))))
    return without_commands(line)


def _plain(value: Any) -> Any:
    return str(value)


def report(error: BaseException, out: Output) -> int:
    """Show an error that ended a command, and return the exit status."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if out.debug:
        show_traceback(error)
    if isinstance(error, UnicodeEncodeError) and not error.object.isprintable():
        error = UsageError(
            f"{visible(error.object)} is not valid UTF-8",
            hint="names and paths must be UTF-8",
        )
    if isinstance(error, FileNotFoundError) and error.filename is None:  # from os.getcwd
        from flinkish.config import working_directory

        try:
            working_directory()
        except UsageError as gone:
            error = gone
    if not isinstance(error, FlinkishError):
        what = str(error).strip().splitlines()
        error = FlinkishError(
            f"unexpected {type(error).__name__}" + (f": {what[0]}" if what else ""),
            hint="run it again with --debug for the traceback",
        )
    out.error(error)
    return error.code


def draw(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    out: TextIO,
    *,
    styles: Mapping[tuple[int, int], str],
    rooms: Sequence[int] = (),
    whole: Collection[str] = (),
    width: int | None = None,
) -> None:
    """Write a table to a terminal.

    ``styles``: rich's styles of cells, by row and column. ``rooms``: the widths of the columns,
    which wrap their cells; if empty, a column is as wide as its widest cell. ``whole``: the titles
    of columns whose cells stay in one line. ``width``: the terminal's width, None if it is unknown.
    """
    from rich.console import Console  # only on a terminal: its import is slow
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for i, name in enumerate(head):
        room = rooms[i] if rooms else None
        drawn.add_column(name, overflow="fold", no_wrap=name in whole, max_width=room)
    for i, row in enumerate(rows):
        # As Text: rich interprets markup in plain strings.
        drawn.add_row(*(Text(visible(t), styles.get((i, j), "")) for j, t in enumerate(row)))
    plain = not is_terminal(out)
    Console(file=out, width=width, color_system=None if plain else "auto").print(drawn)
