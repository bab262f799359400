"""The retention options of ``flinkish savepoint``: which savepoints are removed."""

from __future__ import annotations

from collections.abc import Callable

import click

from flinkish.cli.options.arguments import F, parse_age


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
            "--keep-hourly", type=count, metavar="N", help="The newest of each of N hours (UTC)."
        ),
        click.option(
            "--keep-within",
            "--max-age",
            "keep_within",
            callback=parse_age,
            metavar="DURATION",
            help="Those not older than this, such as 7d. Needs a unit.",
        ),
        click.option("--keep-last", "--retain", "keep_last", type=count, metavar="N", help=last),
    )

    def add(function: F) -> F:
        for option in options:
            function = option(function)
        return function

    return add
