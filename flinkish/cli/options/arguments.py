"""Options and arguments that several commands share."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from flinkish.errors import FlinkishError, InvalidConfiguration, UsageError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def packed(function: F, name: str, pack: Callable[[dict[str, Any]], Any]) -> F:
    """Replace options of a command with one argument ``name``, which ``pack`` builds from them."""

    @functools.wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        value = pack(options)
        return function(*arguments, **options, **{name: value})

    return cast("F", called)


def take(cls: type[T], options: dict[str, Any]) -> T:
    """Remove the options that have the names of a dataclass's fields; return an instance of it."""
    names = {each.name for each in fields(cls)} & options.keys()  # type: ignore[arg-type]
    return cls(**{name: options.pop(name) for name in names})


def complete_job(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the ids of jobs, and the names of jobs not ended, that begin with ``incomplete``.

    Words that name another command (``savepoint list``) come first. If ``incomplete`` is empty, no
    names of jobs are returned. Without a readable registry there are no jobs.
    """
    from flinkish.cli.command_index import SUB_WORDS
    from flinkish.config import Config
    from flinkish.registry.job_registry import Registry

    items = [
        CompletionItem(word, help=entry.help)
        for word, entry in SUB_WORDS.get(ctx.info_name or "", {}).items()
        if word.startswith(incomplete)
    ]
    try:
        with Registry.open(Config.load().registry_url(), create=False) as registry:
            jobs = registry.jobs()
    except FlinkishError:
        return items
    jobs.sort(key=lambda job: (job.state.is_final, -job.start_time))
    items += [
        CompletionItem(job.job_id, help=f"{job.name} {job.state.value}")
        for job in jobs
        if job.job_id.startswith(incomplete.lower())
    ]
    names = {job.name for job in jobs if not job.state.is_final} if incomplete else set()
    items += [CompletionItem(n, help="job") for n in sorted(names) if n.startswith(incomplete)]
    return items


def words_of(
    *words: str,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a completion of fixed words."""

    def complete(
        _ctx: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(word) for word in words if word.startswith(incomplete.lower())]

    return complete


def complete_file(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete file names."""
    return [CompletionItem(incomplete, type="file")]


#: The option ``--name`` of commands with ``--all``.
pattern_option = click.option(
    "--name",
    metavar="NAME",
    help="With --all: only jobs with this name (* and ? are wildcards).",
)


def check_one_or_all(job: str | None, *, every: bool, name: str | None, verb: str) -> None:
    """Refuse a command line with both or neither of a job and ``--all``.

    ``--name`` without ``--all`` is refused too.
    """
    hint = f"flinkish {verb} JOB, or: flinkish {verb} --all [--name NAME]"
    if job is not None and every:
        raise UsageError(f"--all takes no JOB, but {job!r} was given", hint=hint)
    if job is None and not every:
        raise UsageError(f"missing argument 'JOB': specify the job to {verb}", hint=hint)
    if name is not None and not every:
        raise UsageError("--name requires --all", hint=hint)


def job_argument(function: F) -> F:
    """Add the ``JOB`` argument: an id, a prefix of one, or a name."""
    return click.argument("job", metavar="JOB", shell_complete=complete_job)(function)


def parse_seconds(
    _ctx: click.Context, parameter: click.Parameter, value: str | None
) -> float | None:
    """Return the seconds of a duration such as ``90 s`` or ``10min``; UsageError if invalid."""
    from flinkish.config import parse_duration

    if value is None:
        return None
    try:
        return parse_duration(value)
    except InvalidConfiguration as error:
        raise UsageError(f"{parameter.opts[0]}: {error.message}", hint=error.hint) from error


def parse_age(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of a duration that decides what is removed; UsageError if unclear.

    Other options take a bare number as seconds. A user who writes ``7`` for an age means days, and
    would lose savepoints; ``1m`` and ``7M`` may mean months, as in other retention tools. So a
    number without a unit, and the unit ``m``, are refused.
    """
    seconds = parse_seconds(ctx, parameter, value)
    if value is not None and not any(character.isalpha() for character in value):
        raise UsageError(
            f"{parameter.opts[0]}: {value!r} has no unit",
            hint=f"write days, hours or minutes, such as {value.strip()}d or {value.strip()}h",
        )
    word = (value or "").strip()
    if word[-1:] in ("m", "M"):
        number = word[:-1].rstrip()
        raise UsageError(
            f"{parameter.opts[0]}: {value!r} may be minutes or months",
            hint=f"write {number}min for minutes, or days, such as 30d for a month",
        )
    return seconds


def parse_since(
    _ctx: click.Context, _parameter: click.Parameter, value: str | None
) -> float | None:
    """Return the seconds since the epoch of ``2h`` (before now) or ``2026-11-23T10:30``.

    Raises UsageError for any other text.
    """
    from flinkish.config import parse_moment

    if value is None:
        return None
    try:
        return parse_moment(value, time.time())
    except InvalidConfiguration as error:
        raise UsageError(f"--since: {error.message}", hint=error.hint) from error


def since_option(text: str) -> Callable[[F], F]:
    """Return the option ``--since``, with its line in the help."""
    return click.option("--since", callback=parse_since, metavar="DURATION|TIME", help=text)


def savepoint_path_option(*short: str) -> Callable[[F], F]:
    """Return the option for a savepoint's directory; ``short`` is its one-letter form, if any."""
    return click.option(
        *short,
        "--savepointPath",
        "target",
        metavar="PATH",
        type=click.Path(),
        help="Directory for the savepoint. Default: execution.checkpointing.savepoint-dir.",
    )


timeout_option = click.option(
    "--timeout",
    callback=parse_seconds,
    metavar="DURATION",
    help="How long to wait before exit 14; the work continues. Default: client.timeout.",
)

detached_option = click.option(
    "-detached",
    "--detached",
    "detached",
    is_flag=True,
    help="Do not wait: print the request id.",
)

dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would be done, and do nothing."
)


_FORMATS = ("native", "canonical")


def check_format(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str:
    """Accept a savepoint format in any letter case, as Flink does; UsageError for other words."""
    word = (value or "native").lower()
    if word not in _FORMATS:
        raise UsageError(
            f"unknown savepoint type {value!r}", hint="-type takes native or canonical"
        )
    return word


format_option = click.option(
    "-type",
    "--type",
    "format_",
    callback=check_format,
    metavar="native|canonical",
    shell_complete=words_of(*_FORMATS),
    help="native (default): Spark's files, unchanged. canonical: state as Avro files.",
)


#: Parameters that the commands for state share: the savepoint, the state in it, and ``--raw``.
savepoint_argument = click.argument("path", metavar="SAVEPOINT", type=click.Path())
state_argument = click.argument("name", metavar="[QUERY/]UID[/STATE]")
raw_option = click.option("--raw", is_flag=True, help="Show values of typed state as bytes.")
