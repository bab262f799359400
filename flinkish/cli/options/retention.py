"""The retention options of ``flinkish savepoint``: which savepoints are removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from flinkish.errors import InvalidConfiguration, UsageError

F = TypeVar("F", bound=Callable[..., Any])


def seconds_of(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of an option's duration, such as ``7d``."""
    from flinkish.config import parse_duration

    if value is None:
        return None
    try:
        return parse_duration(value)
    except InvalidConfiguration as error:
        raise UsageError(f"{parameter.opts[0]}: {error.message}", hint=error.hint) from error


def keep_options(last: str) -> Callable[[F], F]:
    """Add the options of a retention policy; the command gets them as the fields of a ``Policy``.

    ``last`` is the help of ``--keep-last``.
    """
    count = click.IntRange(min=1)
    options = (
        click.option(
            "--keep-weekly", type=count, metavar="N", help="The newest of each of N weeks (UTC)."
        ),
        click.option(
            "--keep-daily", type=count, metavar="N", help="The newest of each of N days (UTC)."
        ),
        click.option(
            "--keep-hourly", type=count, metavar="N", help="The newest of each of N hours."
        ),
        click.option(
            "--keep-within",
            "--max-age",
            "keep_within",
            callback=seconds_of,
            metavar="DURATION",
            help="Those not older than this, such as 7d.",
        ),
        click.option("--keep-last", "--retain", "keep_last", type=count, metavar="N", help=last),
    )

    def add(function: F) -> F:
        for option in options:
            function = option(function)
        return function

    return add
