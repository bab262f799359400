"""What ``run -s`` and ``check`` ask about a restore: one list of options and their record."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import click

from flinkish.cli.arguments import F, words_of
from flinkish.config import Config
from flinkish.errors import UsageError
from flinkish.jobs.model import RestoreSpec
from flinkish.operators.uids import uid_to_operator_id

_OPERATOR_ID = re.compile("[0-9A-Fa-f]{32}")
_RECOVERY = "execution.state-recovery."


@dataclass(frozen=True)
class RestoreOptions:
    """The options of this module as parsed; names as in ``flinkish check --help``."""

    savepoint: str | None
    allow_non_restored: bool
    fork: bool
    uid_map: tuple[tuple[str, str], ...]
    reset_sources: tuple[str, ...]
    sink_ahead: str | None

    def given(self) -> list[str]:
        """The flags that say how to restore and make no sense without a savepoint."""
        flags = (
            (self.allow_non_restored, "-n (--allowNonRestoredState)"),
            (self.fork, "--fork"),
            (self.uid_map, "--uid-map"),
            (self.reset_sources, "--reset-source"),
            (self.sink_ahead, "--sink-ahead"),
        )
        return [flag for value, flag in flags if value]


def _uid_map(
    _ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """``OLD=NEW`` options as pairs; the first ``=`` separates, so that NEW may contain more.

    Raises UsageError unless every pair has both sides and no state and no uid stands twice.
    """
    pairs = []
    states: dict[str, str] = {}
    uids: dict[str, str] = {}
    for value in values:
        old, _, new = value.partition("=")
        if not (old and new):
            raise UsageError(
                f"--uid-map {value!r} is not OLD=NEW",
                hint="write --uid-map old=new; the first = separates: give the operator id of an "
                "old uid that contains one",
            )
        # A uid and its operator id are two names of one state.
        state = old.lower() if _OPERATOR_ID.fullmatch(old) else uid_to_operator_id(old)
        for taken, key, what in ((states, state, "state"), (uids, new, "new uid")):
            if key in taken:
                raise UsageError(
                    f"--uid-map names one {what} twice: {taken[key]!r} and {value!r}",
                    hint="the state of one operator goes to one operator",
                )
            taken[key] = value
        pairs.append((old, new))
    return tuple(pairs)


_OPTIONS: tuple[Callable[[F], F], ...] = (
    click.option(
        "-s",
        "--fromSavepoint",
        "savepoint",
        metavar="PATH",
        type=click.Path(),
        help="Restore from a savepoint, or from a plain Spark checkpoint.",
    ),
    click.option(
        "-n",
        "--allowNonRestoredState",
        "allow_non_restored",
        is_flag=True,
        help="Drop savepoint state that nothing in the program takes.",
    ),
    click.option("--fork", is_flag=True, help="With -s: new query ids, the original may go on."),
    click.option(
        "--uid-map",
        metavar="OLD=NEW",
        multiple=True,
        callback=_uid_map,
        help="With -s: the state of OLD (a uid of the savepoint, or an operator id) goes to uid "
        "NEW of the program; the first = separates (repeatable).",
    ),
    click.option(
        "--reset-source",
        "reset_sources",
        metavar="NAME",
        multiple=True,
        help="With -s: this source (its uid, or what it reads) starts afresh, state is kept "
        "(repeatable).",
    ),
    click.option(
        "--sink-ahead",
        metavar="rebase|accept",
        type=click.Choice(["rebase", "accept"]),
        shell_complete=words_of("rebase", "accept"),
        help="With -s, where a sink has later batches: go on after them, or let it drop output.",
    ),
)


def restore_options(function: F) -> F:
    """Add the options that say what is restored and how, in the help's order."""
    for option in reversed(_OPTIONS):  # decorators apply from the last to the first
        function = option(function)
    return function


def config_flags(options: RestoreOptions) -> dict[str, str | None]:
    """Those of the options that are settings too, by their keys."""
    return {
        _RECOVERY + "path": options.savepoint,
        _RECOVERY + "ignore-unclaimed-state": "true" if options.allow_non_restored else None,
    }


def restore_spec(
    options: RestoreOptions,
    config: Config,
    *,
    claim_mode: str | None = None,
    parallelism: int | None = None,
) -> RestoreSpec | None:
    """The restore asked for by options and configuration, None without a savepoint.

    Parameters
    ----------
    claim_mode: the flag, if it was given.
    parallelism: state partitions asked for.

    Raises UsageError when something is said of a restore and there is no savepoint.
    """
    path = config.get(_RECOVERY + "path")
    if path is None:
        for flag in [*options.given(), *(["-cm (--claimMode)"] if claim_mode else [])]:
            raise UsageError(
                f"{flag} needs a savepoint to restore from", hint="give it with -s PATH"
            )
        return None
    from flinkish.storage import locate

    return RestoreSpec(
        path=locate(path),
        allow_non_restored=config.boolean(_RECOVERY + "ignore-unclaimed-state"),
        claim_mode=config.get(_RECOVERY + "claim-mode") or "no_claim",
        fork=options.fork,
        uid_map=options.uid_map,
        reset_sources=options.reset_sources,
        sink_ahead=options.sink_ahead,
        parallelism=parallelism,
    )
