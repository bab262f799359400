"""The ``flinkish`` console script.

``import click`` alone takes the whole start-up budget of ``flinkish list``, and so does the
registry's object model. Plain uses of ``list`` are therefore parsed by hand, and the jobs are read
by :mod:`flinkish.registry.fast_list`. Everything else (help, ``-D``, an error, a job that may be
dead) goes to click and the registry. Both paths show their rows with
:mod:`flinkish.cli.output.jobs_text`.

This module imports only what Python itself has already loaded.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flinkish.cli.output.printer import Output

_FLAGS = {
    "-r": "running",
    "--running": "running",
    "-s": "scheduled",
    "--scheduled": "scheduled",
    "-a": "everything",
    "--all": "everything",
    "--json": "json",
    "-q": "quiet",
    "--quiet": "quiet",
    "--debug": "debug",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; ``argv`` is without the program's name."""
    if argv is None:
        _say_terminated()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _guarded(arguments)
    except KeyboardInterrupt:  # while loading the command, which later handles Ctrl-C itself
        return 130


def _guarded(arguments: Sequence[str]) -> int:
    from flinkish.cli.output import streams

    streams.guard()
    outputs: list[Output] = []
    try:
        status = _run(arguments, outputs)
        lost = streams.lost(sys.stdout)
        if lost is None:
            return status
        if isinstance(lost, BrokenPipeError):  # the reader has gone (`| head`)
            return streams.READER_GONE
        from flinkish.cli.app import report_lost_result

        return report_lost_result(arguments, lost, status, outputs)
    finally:
        streams.restore()


def _run(arguments: Sequence[str], outputs: list[Output]) -> int:
    if arguments[:1] == ["list"] and list_plainly(arguments[1:]):
        return 0
    from flinkish.cli.app import run

    return run(arguments, outputs)


def _say_terminated() -> None:
    """Report a SIGTERM while the command is being loaded; after that the command handles it."""
    import _signal  # type: ignore[import-not-found]  # already loaded, unlike signal

    def stop(_number: int, _frame: object) -> None:
        os.write(2, b"flinkish: terminated (SIGTERM)\n")
        os._exit(143)

    if _signal.getsignal(_signal.SIGTERM) == _signal.SIG_DFL:
        _signal.signal(_signal.SIGTERM, stop)


def list_plainly(arguments: Sequence[str]) -> bool:
    """Run ``list`` if arguments, configuration and jobs are plain; return whether it was run."""
    if "_FLINKISH_COMPLETE" in os.environ:
        return False
    parsed = parse_list(arguments)
    if parsed is None:
        return False
    flags, name = parsed
    from flinkish.registry.fast_list import read_jobs, registry_path
    from flinkish.registry.schema import is_absent

    try:
        path = registry_path(os.environ, os.getcwd())
    except OSError:  # the working directory is gone, or the registry is not accessible
        return False
    if path is None:
        return False
    running, scheduled = "running" in flags, "scheduled" in flags
    everything = "everything" in flags
    answer = read_jobs(path, running=running, scheduled=scheduled, everything=everything, name=name)
    if answer is None:
        return False
    rows, failed = answer
    from flinkish.cli.output.jobs_text import (
        absent_notice,
        failed_notice,
        list_document,
        notice,
        show,
    )
    from flinkish.cli.output.text import folded, json_document, terminal_width, without_commands

    absent = f"sqlite:///{path}" if is_absent(path) else None
    if "json" in flags:
        document = list_document(rows)
        about = {} if absent is None else {"absent_registry": absent}
        sys.stdout.write(json_document({**document, **about}) + "\n")
        return True
    quiet = "quiet" in flags
    sys.stdout.write(show(rows, quiet=quiet, width=terminal_width(sys.stdout)))
    if not quiet:
        said = failed_notice(failed)
        if not rows:
            empty = notice(running=running, scheduled=scheduled, everything=everything, name=name)
            said = [*empty, *([] if absent is None else [absent_notice(absent)]), *said]
        width = terminal_width(sys.stderr)
        text = "".join(f"{part}\n" for line in said for part in folded(line, width))
        sys.stderr.write(without_commands(text))
    return True


def parse_list(arguments: Sequence[str]) -> tuple[set[str], str | None] | None:
    """Return the flags' names and ``--name`` from plain arguments of ``list``, else None. Pure.

    ``-D`` is not plain, because the key that it sets may need the whole configuration. A name that
    is blank or not valid UTF-8 is not plain either.
    """
    flags: set[str] = set()
    name: str | None = None
    rest = iter(arguments)
    for word in rest:
        if word in _FLAGS:
            flags.add(_FLAGS[word])
        elif word == "--name":
            name = next(rest, "-")
            if name.startswith("-"):
                return None
        elif word.startswith("--name=") and len(word) > 7:
            name = word[7:]
        else:
            return None
    if name is not None:
        is_text = not any("\ud800" <= character <= "\udfff" for character in name)
        if not (is_text and name.strip()):
            return None
    return flags, name


if __name__ == "__main__":
    sys.exit(main())
