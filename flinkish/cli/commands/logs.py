"""``flinkish logs JOB``: the driver's log."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.jobs import LogsDocument
from flinkish.cli.options.arguments import job_argument, since_option, words_of
from flinkish.cli.output.printer import copy_log
from flinkish.client.logs import LogReader
from flinkish.errors import UsageError
from flinkish.log_lines import LogChoice, LogLevel, level_of


def _level(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> LogLevel | None:
    least = None if value is None else level_of(value)
    if value is not None and least is None:
        names = ", ".join(level.name.lower() for level in LogLevel)
        raise UsageError(f"--level: {value!r} is not a log level", hint=f"use one of: {names}")
    return least


def _pattern(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> re.Pattern[str] | None:
    try:
        return None if value is None else re.compile(value)
    except re.error as error:
        raise UsageError(
            f"--grep: {value!r} is not a regular expression: {error}",
            hint="escape special characters with a backslash, such as \\(",
        ) from error


@command("logs", exit_codes=(10,), documents=(LogsDocument,))
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the job ends.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only the last N lines.",
)
@since_option("Only lines of the last DURATION (2h, 90 s), or since 10:30 or 2026-11-23T10:30.")
@click.option(
    "--level",
    callback=_level,
    metavar="LEVEL",
    shell_complete=words_of(*(level.name.lower() for level in LogLevel)),
    help="Only lines of at least this level: debug, info, warn, error ...",
)
@click.option(
    "--grep",
    "pattern",
    callback=_pattern,
    type=click.UNPROCESSED,
    metavar="REGEX",
    help="Only lines that match this Python regular expression, with their stack traces.",
)
def logs(
    call: Call,
    job: str,
    follow: bool,
    lines: int | None,
    since: float | None,
    level: LogLevel | None,
    pattern: re.Pattern[str] | None,
) -> int:
    """Show the driver's log of a job, running or ended, across all its attempts.

    A line without a time and a level (a stack trace, program output) belongs to the line
    before. On a terminal, unprintable characters are escaped; in a pipe or a file, they are
    unchanged.
    """
    if follow and call.out.json:
        raise UsageError(
            "-f and --json are mutually exclusive: the document is written at the end of the log",
            hint="use only one of them",
        )
    with call.session() as session:
        record = session.find_job(job, include_final=True)
        log = LogReader(record, LogChoice(since, level, pattern))
        text = log.read() if lines is None else log.read_last(lines, to_end=not follow)
        if session.out.json:
            output = "".join([*text, *log.finish()])
            document: LogsDocument = {
                "job_id": record.job_id,
                "path": record.log_path,
                "lines": _lines(output),
            }
            session.out.document(document)
            return 0
        _show(text)
        _show(log.follow(session) if follow else log.finish())
    return 0


def _lines(output: str) -> list[str]:
    """Return the lines of a log's text; as for ``-n``, only a line feed ends a line. Pure."""
    lines = output.removesuffix("\n").split("\n") if output else []
    return [line.rstrip("\r") for line in lines]


def _show(text: Iterable[str]) -> None:
    for part in text:
        copy_log(part, sys.stdout)
