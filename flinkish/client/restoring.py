"""The options of a restore, and how they combine with the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from flinkish.client.set_offsets import Where, offsets_of
from flinkish.config import Config
from flinkish.errors import UsageError
from flinkish.messages.launch import VERIFY_LEVELS, RestoreSpec
from flinkish.operators.uids import uid_to_operator_id

_OPERATOR_ID = re.compile("[0-9A-Fa-f]{32}")
_RECOVERY = "execution.state-recovery."


@dataclass(frozen=True)
class Restore:
    """How to restore a savepoint.

    Parameters
    ----------
    savepoint : str or None
        The savepoint, or a plain Spark checkpoint; None uses the configuration.
    allow_non_restored : bool
        Whether non-restored state, which no operator of the program takes, is dropped.
    claim_mode : str or None
        Who owns the savepoint afterwards: ``no_claim`` or ``claim``; None uses the configuration.
    fork : bool
        Whether the queries get new ids, so that the original job may continue.
    uid_map : sequence of pairs
        (old, new): the state of ``old``, a uid or an operator id of the savepoint, goes to the
        operator with the uid ``new``.
    reset_sources : sequence of str
        Sources that start from scratch.
    sink_ahead : str or None
        What to do with a sink that has later batches: one of
        :data:`~flinkish.messages.launch.SINK_MODES`.
    accept_lost_rows : bool
        Whether rows that a Kafka source can no longer read are skipped.
    accept_partial : sequence of str
        Operators, by uid or name, whose results may be incomplete for existing keys and
        rows.
    set_offsets : sequence of pairs
        Sources, each with the offsets from which it resumes: ``earliest``, ``latest``,
        ``timestamp:TIME``, JSON, or a file with it.
    accept_repeated_rows : bool
        Whether rows may be read again.
    offline : bool
        Whether the restore is planned without asking the brokers of Kafka sources.
    verify : str or None
        How the files of the savepoint are checked first: one of
        :data:`~flinkish.messages.launch.VERIFY_LEVELS`; None is the first of them.
    """

    savepoint: str | None = None
    allow_non_restored: bool = False
    claim_mode: str | None = None
    fork: bool = False
    uid_map: Sequence[tuple[str, str]] = ()
    reset_sources: Sequence[str] = ()
    sink_ahead: str | None = None
    accept_lost_rows: bool = False
    accept_partial: Sequence[str] = ()
    offline: bool = False
    set_offsets: Sequence[tuple[str, Where]] = ()
    accept_repeated_rows: bool = False
    verify: str | None = None

    def given(self) -> list[tuple[str, str]]:
        """Return the given options that require a savepoint, each with its command-line flag."""
        options = (
            (
                self.allow_non_restored,
                "dropping non-restored state",
                "-n (--allowNonRestoredState)",
            ),
            (self.fork, "a fork", "--fork"),
            (self.uid_map, "a uid map", "--uid-map"),
            (self.reset_sources, "a source that starts from scratch", "--reset-source"),
            (self.sink_ahead, "a choice for a sink that is ahead", "--sink-ahead"),
            (self.accept_lost_rows, "skipping lost rows", "--accept-lost-rows"),
            (self.accept_partial, "incomplete results", "--accept-partial"),
            (self.set_offsets, "setting offsets", "--set-offsets"),
            (self.accept_repeated_rows, "reading rows again", "--accept-repeated-rows"),
            (self.offline, "planning without a broker", "--offline"),
            (self.verify, "a check of the savepoint's files", "--verify"),
        )
        return [(name, flag) for value, name, flag in options if value]

    def settings(self) -> dict[str, str | None]:
        """Return the options that are also settings, by their keys."""
        return {
            _RECOVERY + "path": self.savepoint,
            _RECOVERY + "ignore-unclaimed-state": "true" if self.allow_non_restored else None,
            _RECOVERY + "claim-mode": self.claim_mode,
        }


def restore_spec(
    restore: Restore,
    config: Config,
    *,
    parallelism: int | None = None,
    checkpoints: str | None = None,
) -> RestoreSpec | None:
    """Return the requested restore, or None without a savepoint.

    Parameters
    ----------
    restore : Restore
        The options.
    config : Config
        Loaded with :meth:`Restore.settings`.
    parallelism : int, optional
        Requested number of state partitions.
    checkpoints : str, optional
        The checkpoints of a job, which stand for a savepoint.

    Raises
    ------
    UsageError
        Options of a restore are given without a savepoint. What to do with a sink that has batches
        is no such option, unless a table is to be rolled back.
    """
    path = checkpoints or restore.savepoint or config.get(_RECOVERY + "path")
    if path is None:
        mode = [("a claim mode", "-cm (--claimMode)")] if restore.claim_mode else []
        # A new checkpoint can count on from its sink's batches, too; only tables have versions.
        rest = restore if restore.sink_ahead == "rollback" else replace(restore, sink_ahead=None)
        for name, flag in [*rest.given(), *mode]:
            raise UsageError(
                f"{name} needs a savepoint to restore from",
                hint=f"give it with -s PATH, or omit {flag}",
            )
        return None
    from flinkish.storage import locate

    return RestoreSpec(
        path=locate(path),
        allow_non_restored=config.boolean(_RECOVERY + "ignore-unclaimed-state"),
        claim_mode=config.get(_RECOVERY + "claim-mode") or "no_claim",
        fork=restore.fork,
        uid_map=tuple(restore.uid_map),
        reset_sources=tuple(restore.reset_sources),
        sink_ahead=restore.sink_ahead,
        parallelism=parallelism,
        accept_lost_rows=restore.accept_lost_rows,
        accept_partial=tuple(restore.accept_partial),
        offline=restore.offline,
        set_offsets=offsets_of(restore.set_offsets),
        accept_repeated_rows=restore.accept_repeated_rows,
        verify=restore.verify or VERIFY_LEVELS[0],
    )


def check_uid_map(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the pairs (old, new) of a uid map, checked.

    Raises
    ------
    UsageError
        A pair lacks a side, or one state or one uid appears in the map twice.
    """
    found = []
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
        found.append((old, new))
    return tuple(found)


def not_a_pair(value: str) -> UsageError:
    """Return the error for an entry of a uid map that does not have the form OLD=NEW."""
    return UsageError(
        f"{value!r} in the uid map is not OLD=NEW",
        hint="write --uid-map old=new; the first = separates: for an old uid that contains "
        "one, use its operator id",
    )
