"""The options about a restore: of ``run -s``, ``check``, ``upgrade`` and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import click

from flinkish.cli.options.arguments import F, packed, take, words_of
from flinkish.launch.restoring import (
    check_path_map,
    check_uid_map,
    offset_pair,
    path_pair,
    uid_pair,
)
from flinkish.messages.restore_options import SINK_MODES, VERIFY_LEVELS, RestoreOptions


def _uid_map(
    _ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Convert ``OLD=NEW`` options to pairs."""
    return check_uid_map(uid_pair(value) for value in values)


def _path_map(
    _ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Convert ``OLD=NEW`` options to pairs."""
    return check_path_map(path_pair(value) for value in values)


def _set_offsets(
    _ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Convert ``SOURCE=WHERE`` options to pairs."""
    return tuple(offset_pair(value) for value in values)


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
_map_path_option = click.option(
    "--map-path",
    "path_map",
    metavar="OLD=NEW",
    multiple=True,
    callback=_path_map,
    help="Everything that the savepoint records at or below the path or URL OLD is now at NEW. "
    "Files that were read before the move are not read again (repeatable).",
)
_reset_source_option = click.option(
    "--reset-source",
    "reset_sources",
    metavar="NAME",
    multiple=True,
    help="Start this source (its uid, or what it reads; QUERY/NAME for one query's) from scratch, "
    "and keep the state (repeatable).",
)
sink_ahead_option = click.option(
    "--sink-ahead",
    metavar="|".join(SINK_MODES),
    type=click.Choice(SINK_MODES),
    shell_complete=words_of(*SINK_MODES),
    help="If a sink has later batches than the savepoint: rebase continues after them, accept lets "
    "the sink drop output, rollback rolls its table (Delta, Iceberg) back to the savepoint's "
    "version.",
)
_accept_lost_rows_option = click.option(
    "--accept-lost-rows",
    is_flag=True,
    help="Skip rows of a Kafka source that were deleted, with or without their topic, before "
    "they were read (Spark fails unless the program sets failOnDataLoss=false), files that a file "
    "source ignores for their age or that another run has cleaned, and rows that --set-offsets "
    "skips.",
)
_set_offsets_option = click.option(
    "--set-offsets",
    metavar="SOURCE=WHERE",
    multiple=True,
    callback=_set_offsets,
    help="Resume this source (named as for --reset-source) from other offsets: earliest, "
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
    help="Accept incomplete results of this operator (its uid or name; QUERY/NAME for one "
    "query's) for existing keys and rows: a new aggregate starts at the restore, a new join "
    "column is null in waiting rows, keys were computed under another setting such as the time "
    "zone (repeatable).",
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
    help="How the savepoint's files are verified before the restore. logs (default): digests of "
    "logs and metadata, sizes of all files. full: all digests, which reads all state once more.",
)


#: The options about what a new program does with the state.
_OPTIONS = (
    _allow_non_restored_option,
    _uid_map_option,
    _map_path_option,
    _reset_source_option,
    _set_offsets_option,
    sink_ahead_option,
    _accept_lost_rows_option,
    _accept_repeated_rows_option,
    _accept_partial_option,
    _offline_option,
)


def new_program_options(function: F) -> F:
    """Add the options about what a new program does with the state, as the argument ``restore``."""
    return _with(_OPTIONS, function)


def restore_options(function: F) -> F:
    """Add the arguments ``savepoint`` and ``restore``: what is restored, and how."""
    allow, *others = _OPTIONS
    return _savepoint_option(_with((allow, _fork_option, *others, _verify_option), function))


def consent_options(function: F) -> F:
    """Add the consents that a restart may need, as the argument ``restore``."""
    return _with((sink_ahead_option, _accept_lost_rows_option), function)


def _with(options: Sequence[Callable[[F], F]], function: F) -> F:
    """Add options, in the help's order, and pack them as ``restore``.

    ``restore`` also takes the restore options that ``function`` has already.
    """
    function = packed(function, "restore", partial(take, RestoreOptions))
    for option in reversed(options):  # decorators apply from the last to the first
        function = option(function)
    return function
