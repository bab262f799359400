"""The options of ``run -s`` and ``check`` about a restore: one list of options, their record."""

from __future__ import annotations

from dataclasses import dataclass

import click

from flinkish.cli.options.arguments import F, words_of
from flinkish.client.restoring import Restore, check_uid_map, not_a_pair
from flinkish.client.set_offsets import pair_of
from flinkish.messages.launch import SINK_MODES, VERIFY_LEVELS


@dataclass(frozen=True)
class RestoreArguments:
    """The parsed options of this module; the names are those of ``flinkish check --help``."""

    savepoint: str | None
    allow_non_restored: bool
    fork: bool
    uid_map: tuple[tuple[str, str], ...]
    reset_sources: tuple[str, ...]
    sink_ahead: str | None
    accept_lost_rows: bool
    accept_partial: tuple[str, ...]
    offline: bool
    set_offsets: tuple[tuple[str, str], ...]
    accept_repeated_rows: bool
    verify: str | None


def restore_of(options: RestoreArguments, *, claim_mode: str | None = None) -> Restore:
    """Return the restore that the options request; ``claim_mode`` is the flag, if given."""
    return Restore(
        savepoint=options.savepoint,
        allow_non_restored=options.allow_non_restored,
        claim_mode=claim_mode,
        fork=options.fork,
        uid_map=options.uid_map,
        reset_sources=options.reset_sources,
        sink_ahead=options.sink_ahead,
        accept_lost_rows=options.accept_lost_rows,
        accept_partial=options.accept_partial,
        offline=options.offline,
        set_offsets=options.set_offsets,
        accept_repeated_rows=options.accept_repeated_rows,
        verify=options.verify,
    )


def _uid_map(
    _ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Convert ``OLD=NEW`` options to pairs; the first ``=`` separates, so NEW may contain more."""
    pairs = []
    for value in values:
        old, equals, new = value.partition("=")
        if not equals:
            raise not_a_pair(value)
        pairs.append((old, new))
    return check_uid_map(pairs)


def _set_offsets(
    _ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Convert ``SOURCE=WHERE`` options to pairs."""
    return tuple(pair_of(value) for value in values)


_savepoint_option = click.option(
    "-s",
    "--fromSavepoint",
    "savepoint",
    metavar="PATH",
    type=click.Path(),
    help="Restore from a savepoint or a plain Spark checkpoint.",
)
_allow_non_restored_option = click.option(
    "-n",
    "--allowNonRestoredState",
    "allow_non_restored",
    is_flag=True,
    help="Drop savepoint state that no operator of the program takes.",
)
_fork_option = click.option(
    "--fork",
    is_flag=True,
    help="Give the restored queries new ids, so that the original job may keep running.",
)
_uid_map_option = click.option(
    "--uid-map",
    metavar="OLD=NEW",
    multiple=True,
    callback=_uid_map,
    help="Assign the state of OLD (a uid or operator id of the savepoint) to uid NEW of the "
    "program; the first = separates (repeatable).",
)
_reset_source_option = click.option(
    "--reset-source",
    "reset_sources",
    metavar="NAME",
    multiple=True,
    help="Start this source (its uid, or what it reads) from scratch, and keep the state "
    "(repeatable).",
)
sink_ahead_option = click.option(
    "--sink-ahead",
    metavar="|".join(SINK_MODES),
    type=click.Choice(SINK_MODES),
    shell_complete=words_of(*SINK_MODES),
    help="If a sink has later batches than the savepoint: continue after them, let it drop "
    "output, or roll its table (Delta, Iceberg) back to the savepoint's version.",
)
_accept_lost_rows_option = click.option(
    "--accept-lost-rows",
    is_flag=True,
    help="Skip rows of a Kafka source that were deleted, with or without their topic, before "
    "they were read (Spark fails unless the program sets failOnDataLoss=false), and rows "
    "that --set-offsets skips.",
)
_set_offsets_option = click.option(
    "--set-offsets",
    metavar="SOURCE=WHERE",
    multiple=True,
    callback=_set_offsets,
    help="Resume this source (its uid, or what it reads) from other offsets: earliest, "
    "latest, timestamp:TIME (ISO-8601 with a zone, or milliseconds), or a FILE with JSON "
    "in the source's own form; moved: continue a file source whose files were moved to "
    "the path that it reads now. The last = separates (repeatable).",
)
_accept_repeated_rows_option = click.option(
    "--accept-repeated-rows",
    is_flag=True,
    help="Allow --set-offsets to read rows again, which the state then counts again.",
)
_accept_partial_option = click.option(
    "--accept-partial",
    metavar="NAME",
    multiple=True,
    help="Accept incomplete results of this operator (its uid or name) for existing keys and "
    "rows: a new aggregate starts at the restore, a new join column is null in waiting "
    "rows, keys were computed under another setting such as the time zone (repeatable).",
)
_offline_option = click.option(
    "--offline",
    is_flag=True,
    help="Do not ask Kafka brokers whether they still have the rows to be read.",
)

_verify_option = click.option(
    "--verify",
    metavar="|".join(VERIFY_LEVELS),
    type=click.Choice(VERIFY_LEVELS),
    shell_complete=words_of(*VERIFY_LEVELS),
    help="How the savepoint's files are verified first. logs (default): digests of logs and "
    "metadata, sizes of state files. full: all digests, which reads all state once more.",
)


def new_program_options(function: F) -> F:
    """Add the options that say what a new program does with the state, in the help's order."""
    function = _offline_option(function)  # decorators apply from the last to the first
    function = _accept_partial_option(function)
    function = _accept_repeated_rows_option(function)
    function = _accept_lost_rows_option(function)
    function = sink_ahead_option(function)
    function = _set_offsets_option(function)
    function = _reset_source_option(function)
    function = _uid_map_option(function)
    return _allow_non_restored_option(function)


def restore_options(function: F) -> F:
    """Add the options that say what is restored and how, in the help's order."""
    function = _verify_option(function)
    function = _offline_option(function)
    function = _accept_partial_option(function)
    function = _accept_repeated_rows_option(function)
    function = _accept_lost_rows_option(function)
    function = sink_ahead_option(function)
    function = _set_offsets_option(function)
    function = _reset_source_option(function)
    function = _uid_map_option(function)
    function = _fork_option(function)
    function = _allow_non_restored_option(function)
    return _savepoint_option(function)
