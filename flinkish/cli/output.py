"""How results, notices and errors reach the user: stdout for the result, stderr for the rest."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from flinkish.cli.text import SCHEMA_VERSION, json_document
from flinkish.config import mask_secrets
from flinkish.errors import FlinkishError


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
        sys.stdout.write(text + "\n")

    def document(self, fields: Mapping[str, Any]) -> None:
        """The result as the one JSON document."""
        sys.stdout.write(json_document(masked(fields)) + "\n")

    def note(self, text: str) -> None:
        """What happens meanwhile; for people, on stderr."""
        if not (self.json or self.quiet):
            sys.stderr.write(mask_secrets(text) + "\n")
            sys.stderr.flush()

    def warning(self, text: str) -> None:
        """Something to know although nothing failed (``-q`` does not hide it)."""
        if not self.json:
            sys.stderr.write(f"warning: {mask_secrets(text)}\n")
            sys.stderr.flush()

    def error(self, error: FlinkishError) -> None:
        """An error: what, then what to do; with ``--json`` one line."""
        message, hint = _one_line(error.message), _one_line(error.hint)
        sys.stdout.flush()
        if self.json:
            record = masked({**error.to_record(), "message": message, "hint": hint})
            line = json.dumps({"schema_version": SCHEMA_VERSION, "error": record}, default=_plain)
            sys.stderr.write(line + "\n")
        else:
            sys.stderr.write(f"error: {message}\n")
            if hint:
                sys.stderr.write(f"hint: {hint}\n")
        sys.stderr.flush()


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


def _one_line(text: str) -> str:
    return mask_secrets(" ".join(text.split("\n")).strip())


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
        import traceback

        traceback.print_exception(error)
    if not isinstance(error, FlinkishError):
        what = str(error).strip().splitlines()
        error = FlinkishError(
            f"unexpected {type(error).__name__}" + (f": {what[0]}" if what else ""),
            hint="run it again with --debug for the traceback",
        )
    out.error(error)
    return error.code
