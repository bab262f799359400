"""The retention options of ``flinkish savepoint``: what goes once the new savepoint is there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinkish.cli.arguments import requester
from flinkish.cli.session import Session
from flinkish.errors import FlinkishError, InvalidConfiguration, PartialFailure, UsageError

if TYPE_CHECKING:
    from flinkish.savepoint.retention import Policy

F = TypeVar("F", bound=Callable[..., Any])


def _seconds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    from flinkish.config import parse_duration

    if value is None:
        return None
    try:
        return parse_duration(value)
    except InvalidConfiguration as error:
        raise UsageError(f"{parameter.opts[0]}: {error.message}", hint=error.hint) from error


def keep_options(last: str) -> Callable[[F], F]:
    """The options of a retention policy; the command gets them as the fields of a ``Policy``.

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
            callback=_seconds,
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


@dataclass(frozen=True)
class Removal:
    """What was removed after a savepoint: paths; ``error`` says why not all that was to go."""

    removed: tuple[str, ...] = ()
    error: FlinkishError | None = None


def remove_old(session: Session, target: str, policy: Policy, job_ids: Collection[str]) -> Removal:
    """Prune ``target`` of the savepoints of some jobs by ``policy``, if it says anything.

    Raises nothing of its own: the savepoint has been taken, whatever becomes of the old ones.
    """
    if policy.is_empty or not job_ids:
        return Removal()
    from flinkish.restore.inuse import savepoints_in_use
    from flinkish.savepoint.prune import prune

    registry = session.registry
    removed: list[str] = []
    try:
        needed = savepoints_in_use(registry)
        done = prune(
            target,
            policy,
            needed.protected,
            running=needed.running,
            jobs=job_ids,
            owner=requester(),
        )
        for outcome in done.savepoints:
            if outcome.removed:
                removed.append(outcome.savepoint.path)
                registry.mark_disposed(outcome.savepoint.path)
    except FlinkishError as refused:
        return Removal(tuple(removed), refused)
    if not done.errors:
        return Removal(tuple(removed))
    first = done.errors[0]
    some = PartialFailure(
        f"{len(done.errors)} of them could not be removed: {first.message}", hint=first.hint
    )
    return Removal(tuple(removed), some)


def not_pruned(target: str, error: FlinkishError) -> PartialFailure:
    """The error of a command whose savepoint was taken and whose old ones are still there."""
    return PartialFailure(
        f"the savepoint was taken, but old ones in {target} were not removed: {error.message}",
        hint=error.hint,
        cause=error.id,
    )
