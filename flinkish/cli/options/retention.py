"""The retention options of ``savepoint`` and ``savepoint prune``: which savepoints are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from flinkish.cli.options.arguments import F, parse_age
from flinkish.errors import UsageError


def _only(_ctx: click.Context, parameter: click.Parameter, values: tuple[Any, ...]) -> Any:
    """Return the value of a retention option, None without it; UsageError for different values.

    Click would use only the last value, so savepoints that the other values keep would be deleted.
    """
    if len(set(values)) > 1:
        raise UsageError(
            f"several values for {' and '.join(parameter.opts)}: {', '.join(map(str, values))}",
            hint="use only one: what no rule keeps is deleted",
        )
    return values[0] if values else None


def _only_age(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Any:
    """Return the age in seconds; raise UsageError as :func:`_only` and :func:`parse_age` do."""
    return parse_age(ctx, parameter, _only(ctx, parameter, values))


def keep_options(last: str) -> Callable[[F], F]:
    """Return a decorator that adds the options of a retention policy.

    The command gets them as the fields of a ``Policy``. ``last`` is the help of ``--keep-last``.
    """
    once: dict[str, Any] = {"type": click.IntRange(min=1), "multiple": True, "callback": _only}
    options = (
        click.option(
            "--keep-weekly",
            **once,
            metavar="N",
            help="Keep the newest of each of the last N weeks (UTC) that have any.",
        ),
        click.option(
            "--keep-daily",
            **once,
            metavar="N",
            help="Keep the newest of each of the last N days (UTC) that have any.",
        ),
        click.option(
            "--keep-hourly",
            **once,
            metavar="N",
            help="Keep the newest of each of the last N hours (UTC) that have any.",
        ),
        click.option(
            "--keep-within",
            "--max-age",
            "keep_within",
            multiple=True,
            callback=_only_age,
            metavar="DURATION",
            help="Keep those not older than this, such as 7d. Needs a unit.",
        ),
        click.option("--keep-last", "--retain", "keep_last", **once, metavar="N", help=last),
    )

    def add(function: F) -> F:
        for option in options:
            function = option(function)
        return function

    return add
