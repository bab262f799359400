"""How results, notices and errors reach the user: stdout for the result, stderr for the rest.

Names, paths and messages come from elsewhere (other users' jobs, directories that others write
into). What is not printable in them is escaped here, and in :func:`flinkish.units.table` before
columns are aligned; nothing else of the command writes to the terminal. JSON escapes by itself.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from flinkish.cli.output.text import SCHEMA_VERSION, json_document, visible, visible_lines
from flinkish.config import mask_secrets
from flinkish.errors import FlinkishError

_CLEAR = "\x1b[H\x1b[J"


class Output:
    """Where one command's words go.

    Parameters
    ----------
    json: one JSON document on stdout, errors as one JSON line on stderr, no notices.
    quiet: only the one thing a script wants.
    debug: tracebacks.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False, debug: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self.debug = debug

    def line(self, text: str = "") -> None:
        """One line of the result."""
        sys.stdout.write(visible(text) + "\n")

    def start_screen(self, text: str) -> None:
        """One line at the top of an empty screen; only for a terminal (:func:`is_terminal`)."""
        sys.stdout.write(_CLEAR + visible(text) + "\n")

    def document(self, fields: Mapping[str, Any]) -> None:
        """The result as the one JSON document."""
        sys.stdout.write(json_document(masked(fields)) + "\n")

    def note(self, text: str) -> None:
        """What happens meanwhile; for people, on stderr."""
        if not (self.json or self.quiet):
            self.complain(text)

    def complain(self, text: str) -> None:
        """One line on stderr whatever the options say."""
        sys.stderr.write(_one_line(text) + "\n")
        sys.stderr.flush()

    def ask(self, question: str) -> bool:
        """A question that is answered with yes or no; both ends must be a terminal."""
        sys.stderr.write(f"{_one_line(question)} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def agree(self, question: str) -> bool:
        """Ask where both ends are a terminal; nobody agrees where they are not."""
        return sys.stdin.isatty() and sys.stderr.isatty() and self.ask(question)

    def warning(self, text: str) -> None:
        """Something to know although nothing failed (``-q`` does not hide it)."""
        if not self.json:
            self.complain(f"warning: {text}")

    def error(self, error: FlinkishError) -> None:
        """An error: what, then what to do; with ``--json`` one line."""
        message, hint = _joined(error.message), _joined(error.hint)
        sys.stdout.flush()
        if self.json:
            record = masked({**error.to_record(), "message": message, "hint": hint})
            line = json.dumps({"schema_version": SCHEMA_VERSION, "error": record}, default=_plain)
            sys.stderr.write(line + "\n")
        else:
            sys.stderr.write(f"error: {visible(message)}\n")
            if hint:
                sys.stderr.write(f"hint: {visible(hint)}\n")
        sys.stderr.flush()


def copy_log(text: str, stream: TextIO) -> None:
    """A piece of a program's log: raw into a pipe or a file, escaped on a terminal."""
    stream.write(visible_lines(text) if stream.isatty() else text)
    stream.flush()


def show_traceback(error: BaseException) -> None:
    """The traceback of ``error`` on stderr, for ``--debug``."""
    import traceback

    sys.stderr.write(visible_lines("".join(traceback.format_exception(error))))


def is_terminal(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """True when animation and colour may go to ``stream``."""
    env = os.environ if environ is None else environ
    if env.get("NO_COLOR") or env.get("TERM", "dumb") == "dumb":
        return False
    return stream.isatty()


def masked(value: Any) -> Any:
    """Plain data with the passwords in its texts hidden."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, Mapping):
        return {key: masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return value


def _joined(text: str) -> str:
    return mask_secrets(" ".join(text.split("\n")).strip())


def _one_line(text: str) -> str:
    return visible(mask_secrets(" ".join(text.rstrip("\n").split("\n"))))


def _plain(value: Any) -> Any:
    return str(value)


def report(error: BaseException, out: Output) -> int:
    """Show an error that ended a command; returns the exit status.

    A broken pipe is raised again: the console script ends it quietly.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    if isinstance(error, KeyboardInterrupt):
        return 130
    if out.debug:
        show_traceback(error)
    if not isinstance(error, FlinkishError):
        what = str(error).strip().splitlines()
        error = FlinkishError(
            f"unexpected {type(error).__name__}" + (f": {what[0]}" if what else ""),
            hint="run it again with --debug for the traceback",
        )
    out.error(error)
    return error.code
