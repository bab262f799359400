"""The options of a restore, combined with the configuration, and the check of what is restored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkish.client.context import Context
from flinkish.client.program import well_typed
from flinkish.client.set_offsets import offsets_of
from flinkish.config import Config
from flinkish.errors import StorageError, UsageError
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.restore_options import RestoreOptions
from flinkish.operators.uids import uid_to_operator_id

if TYPE_CHECKING:
    from flinkish.messages.calls import JobOrigin
    from flinkish.restore.origin.restore_origin import RestoreOrigin


_OPERATOR_ID = re.compile("[0-9A-Fa-f]{32}")
_RECOVERY = "execution.state-recovery."
#: The setting with the savepoint to start from.
RECOVERY_PATH = _RECOVERY + "path"
#: The beginning of an absolute path or a URL.
_BEGINS_PATH = re.compile("/|[A-Za-z][A-Za-z0-9+.-]*:/")


def given(options: RestoreOptions) -> list[tuple[str, str]]:
    """Return the given options that require a savepoint, each with its command-line flag."""
    names = (
        (options.allow_non_restored, "dropping non-restored state", "-n (--allowNonRestoredState)"),
        (options.fork, "a fork", "--fork"),
        (options.uid_map, "a uid map", "--uid-map"),
        (options.path_map, "mapping paths", "--map-path"),
        (options.reset_sources, "a source that starts from scratch", "--reset-source"),
        (options.sink_ahead, "a choice for a sink that is ahead", "--sink-ahead"),
        (options.accept_lost_rows, "skipping lost rows", "--accept-lost-rows"),
        (options.accept_partial, "incomplete results", "--accept-partial"),
        (options.set_offsets, "setting offsets", "--set-offsets"),
        (options.accept_repeated_rows, "reading rows again", "--accept-repeated-rows"),
        (options.offline, "planning without a broker", "--offline"),
        (options.verify, "a check of the savepoint's files", "--verify"),
    )
    return [(name, flag) for value, name, flag in names if value]


def settings(
    savepoint: str | None, options: RestoreOptions, parallelism: int | None
) -> dict[str, str | None]:
    """Return the options that are also settings, by their keys."""
    return {
        RECOVERY_PATH: savepoint,
        _RECOVERY + "ignore-unclaimed-state": "true" if options.allow_non_restored else None,
        _RECOVERY + "claim-mode": options.claim_mode,
        "parallelism.default": None if parallelism is None else str(parallelism),
    }


def restore_spec(
    savepoint: str | None,
    options: RestoreOptions,
    config: Config,
    *,
    parallelism: int | None = None,
    checkpoints: str | None = None,
) -> RestoreSpec | None:
    """Return the requested restore, or None without a savepoint.

    ``savepoint``: the savepoint, or a plain Spark checkpoint; None uses the configuration.
    ``options``: how it is restored. ``config``: loaded with :func:`settings`. ``parallelism``:
    requested number of state partitions. ``checkpoints``: the checkpoints of a job, which stand for
    a savepoint.

    Raises UsageError if options of a restore are given without a savepoint, or contradict each
    other. What to do with a sink that has batches needs no savepoint, unless a table is to be
    rolled back.
    """
    path = checkpoints or savepoint or config.get(RECOVERY_PATH)
    if path is None:
        mode = [("a claim mode", "-cm (--claimMode)")] if options.claim_mode else []
        # A new checkpoint can count on from its sink's batches, too; only tables have versions.
        rest = options if options.sink_ahead == "rollback" else replace(options, sink_ahead=None)
        for name, flag in [*given(rest), *mode]:
            raise UsageError(
                f"{name} needs a savepoint to restore from",
                hint=f"give it with -s PATH, or omit {flag}",
            )
        return None
    from flinkish.storage import locate

    options = checked(
        replace(
            options,
            allow_non_restored=config.boolean(_RECOVERY + "ignore-unclaimed-state"),
            claim_mode=config.get(_RECOVERY + "claim-mode"),
        )
    )
    return RestoreSpec(locate(path), options, parallelism)


def check_restorable(
    context: Context, spec: RestoreSpec, spark: str | None, *, job: JobOrigin | None = None
) -> None:
    """Check before the launch that a version of Spark can restore a savepoint.

    ``context``: its reporter receives the warnings and notes of the version matrix. ``spec``: the
    savepoint, or a plain checkpoint, and how its files are checked. ``spark``: version of the Spark
    that will run, None if unknown. ``job``: the job whose checkpoints are restored instead.

    Raises SavepointNotFound, Corrupt or UnsupportedFormat if the savepoint is missing, incomplete,
    damaged or not readable; Incompatible if, according to the version matrix, this Spark cannot
    resume the savepoint.
    """
    from flinkish.restore.origin.restore_origin import open_origin

    check_open_origin(context, open_origin(spec, job, verify=spec.verify), spark)


def check_open_origin(context: Context, origin: RestoreOrigin, spark: str | None) -> None:
    """Check before the launch that a version of Spark can restore what is open already.

    Parameters and errors are those of :func:`check_restorable`.
    """
    from flinkish.messages.plan import RestoreOutcome
    from flinkish.restore.check.version_check import check_spark_version

    versions = check_spark_version(origin, spark)
    if versions.error is not None:
        raise versions.error
    if versions.check.outcome is RestoreOutcome.WARNING:
        context.reporter.warning(versions.check.text)
    elif versions.check.outcome is not RestoreOutcome.OK:
        context.reporter.note(versions.check.text)


def checked(options: RestoreOptions) -> RestoreOptions:
    """Return the options with their files of offsets read; raise UsageError for wrong values."""
    options = well_typed(options)
    return replace(
        options,
        uid_map=check_uid_map(options.uid_map),
        path_map=check_path_map(options.path_map),
        set_offsets=offsets_of(options.set_offsets),
    )


def check_uid_map(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs (old, new) of a uid map, checked.

    Raises UsageError if a pair lacks a side, or one state or one uid appears in the map twice.
    """
    checked_pairs = []
    states: dict[str, str] = {}
    uids: dict[str, str] = {}
    for old, new in pairs:
        value = f"{old}={new}"
        if not (old.strip() and new.strip()):
            raise not_a_pair(value)
        # A uid and its operator id name the same state.
        state = old.lower() if _OPERATOR_ID.fullmatch(old) else uid_to_operator_id(old)
        for taken, key, what in ((states, state, "state"), (uids, new, "new uid")):
            if key in taken:
                raise UsageError(
                    f"the uid map contains one {what} twice: {taken[key]!r} and {value!r}",
                    hint="map the state of one operator to one operator: --uid-map OLD=NEW",
                )
            taken[key] = value
        checked_pairs.append((old, new))
    return tuple(checked_pairs)


def path_pair(value: str) -> tuple[str, str]:
    """Return the two paths of ``OLD=NEW``; UsageError if it has another form.

    Paths may contain ``=`` (directories ``key=value``): then one that a path or URL follows counts.
    """
    places = [i for i, character in enumerate(value) if character == "="]
    if len(places) > 1:
        places = [i for i in places if _BEGINS_PATH.match(value, i + 1)]
    if len(places) != 1:
        raise UsageError(
            f"--map-path {value}: it is not OLD=NEW",
            hint="write two absolute paths or URLs: --map-path /data/in=s3a://bucket/in",
        )
    return value[: places[0]], value[places[0] + 1 :]


def check_path_map(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs (old, new) of mapped paths as locations, checked.

    Raises
    ------
    UsageError
        A side is empty or no path, both are the same, or two pairs overlap.
    """
    from flinkish.connectors.path_map import overlapping
    from flinkish.storage import locate

    located = []
    for old, new in pairs:
        try:
            pair = locate(old), locate(new)
        except StorageError as error:
            raise UsageError(f"--map-path {old}={new}: {error.message}", hint=error.hint) from error
        if pair[0] == pair[1]:
            raise UsageError(
                f"--map-path {old}={new}: both are the same place", hint="omit --map-path"
            )
        located.append(pair)
    for one, other in overlapping(located):
        raise UsageError(
            f"--map-path: {one} and {other} overlap, so that paths in both have two places",
            hint="map directories of which none is in another one",
        )
    return tuple(located)


def not_a_pair(value: str) -> UsageError:
    """Return the error for an entry of a uid map that does not have the form OLD=NEW."""
    return UsageError(
        f"{value!r} in the uid map is not OLD=NEW",
        hint="write --uid-map old=new; the first = separates: for an old uid that contains "
        "one, use its operator id",
    )
