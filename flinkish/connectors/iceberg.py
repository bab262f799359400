"""Findings about an Iceberg source that resumes from a saved position. Pure.

A position is ``{"version":1,"snapshot_id":..,"position":..,"scan_all_files":..}``
(``org.apache.iceberg.spark.source.StreamingOffset``): the files up to ``position`` of that snapshot
were read, and all snapshots before it. A ``snapshot_id`` of -1 means that nothing was read.

Facts used, observed on Spark 3.5.9 with Iceberg 1.10.1, and on Spark 4.1.4 with Iceberg 1.11.0
(``SparkMicroBatchStream``):

* The saved snapshot must exist, and must be the current one or an ancestor of it, even if all files
  of the saved snapshot were read. Otherwise the query fails: "Cannot load current offset at
  snapshot", "Cannot find snapshot after".
* With ``availableNow`` the snapshot where the query first began (``sources/0/offsets/0`` in the
  checkpoint) must exist as well.
* A table without snapshots is read as empty at any position, and later from its first snapshot.
* The source reads the files of ``append`` snapshots. It skips ``replace`` (maintenance), and fails
  at ``delete`` unless ``streaming-skip-delete-snapshots`` is true, and at ``overwrite`` unless
  ``streaming-skip-overwrite-snapshots`` is. With the option it skips such snapshots and the rows
  that they add; rows that they remove stay in the query's state and output.
* Without a position it starts at the oldest existing ancestor of the current snapshot, or at the
  time in ``stream-from-timestamp``. Rows that earlier snapshots added are never read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flinkish.connectors.base import Connector
from flinkish.connectors.sources import ACCEPT_LOST_ROWS, Consent, Finding, SourceAnswer
from flinkish.messages.plan import RestoreOutcome
from flinkish.units import first_of

SKIP_DELETE = "streaming-skip-delete-snapshots"
SKIP_OVERWRITE = "streaming-skip-overwrite-snapshots"
FROM_TIME = "stream-from-timestamp"
#: The snapshot of a position before the first snapshot.
_NONE = -1
_SKIPS = {"delete": SKIP_DELETE, "overwrite": SKIP_OVERWRITE}
_KEYS = frozenset({"version", "snapshot_id", "position", "scan_all_files"})


@dataclass(frozen=True)
class IcebergPosition:
    """A saved position: after ``files`` files of a snapshot, or before all snapshots (None)."""

    snapshot: int | None
    files: int


def parse_iceberg_position(offset: str) -> IcebergPosition | None:
    """Return the position in a line of the offset log; None if that is no position of Iceberg."""
    try:
        parsed = json.loads(offset)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict) or parsed.keys() != _KEYS:
        return None
    snapshot, files = parsed["snapshot_id"], parsed["position"]
    if parsed["version"] != 1 or type(snapshot) is not int or type(files) is not int:
        return None
    return IcebergPosition(None if snapshot == _NONE else snapshot, max(0, files))


@dataclass(frozen=True)
class Written:
    """A snapshot of a table: its operation, and how many rows it added (None if not known)."""

    snapshot: int
    operation: str
    rows: int | None


@dataclass(frozen=True)
class IcebergAnswer(SourceAnswer):
    """An Iceberg table's answer about the saved position of a source.

    Attributes
    ----------
    position
        The saved position, about which the table was asked.
    options
        The options that the program gives to the source.
    has_snapshots
        Whether the table has a current snapshot.
    there
        Whether the table has the snapshot of the position, if the position has one.
    ancestor
        Whether the snapshot of the position is the current one, or leads to it.
    whole
        Whether the table still has the history of the current snapshot from its beginning.
    since
        The snapshots that lead to the current one, oldest first; without those up to the position,
        if ``ancestor``.
    before
        How many rows were appended up to the position's snapshot, as far as known; None if unknown.
    """

    position: IcebergPosition
    options: Mapping[str, str]
    has_snapshots: bool = False
    there: bool = False
    ancestor: bool = False
    whole: bool = True
    since: tuple[Written, ...] = ()
    before: int | None = None

    def judge(self, offset: str, consent: Consent) -> Iterator[Finding]:
        """Yield the findings about a source that resumes from ``position``; none for another."""
        if parse_iceberg_position(offset) != self.position:
            return
        findings = list(self._position(consent))
        yield from findings
        if all(each.outcome is RestoreOutcome.WARNING for each in findings):
            yield from (*self._rewritten(), *self._waiting())

    def judge_reset(self, offset: str) -> Iterator[Finding]:
        """Yield which rows the source reads twice or never if it starts from scratch."""
        text = f"it starts at {FROM_TIME}"
        if self._given(FROM_TIME) is None:
            text = "it starts at the oldest snapshot that the table has"
            if self.before:
                text += f": {_rows(self.before)} {'is' if self.before == 1 else 'are'} read again"
            if not self.whole:
                text += ", and rows added by expired snapshots are not read"
        yield Finding("table-reset", RestoreOutcome.NOTE, text)

    def counts_losses(self, offset: str) -> bool:
        """Return whether the rows of the findings are all that the source loses at a position."""
        return parse_iceberg_position(offset) == self.position

    def _position(self, consent: Consent) -> Iterator[Finding]:
        """Yield the finding if the source cannot resume at the position, or loses rows there."""
        snapshot = self.position.snapshot
        afresh = (
            f"start it from scratch and keep the state: {consent.reset} ({FROM_TIME} sets "
            "the time to start at)"
        )
        if snapshot is None:
            if self.has_snapshots and not self.whole:
                yield _loss(
                    "snapshots-expired",
                    "nothing of its table was read yet, and snapshots that have expired "
                    "since are never read",
                    consent,
                )
            return
        if not self.has_snapshots:
            yield _loss(
                "table-recreated",
                f"the table has no snapshot but was read up to {snapshot}: it was "
                "recreated, and Spark reads the new one from its beginning",
                consent,
            )
        elif not self.there:
            why = (
                "that snapshot has expired, or the table was recreated"
                if not self.whole
                else "the table was recreated, or rolled back to an earlier snapshot"
            )
            yield Finding(
                "snapshot-gone",
                RestoreOutcome.CONSENT,
                f"its table was read up to snapshot {snapshot}, which it no longer has: "
                f"{why}; Spark would fail, even if all files of that snapshot were read",
                afresh,
            )
        elif not self.ancestor:
            yield Finding(
                "snapshot-not-current",
                RestoreOutcome.CONSENT,
                f"its table was read up to snapshot {snapshot}, which does not lead to "
                "the current one: the table was rolled back to an earlier snapshot, or "
                "those in between have expired; Spark would fail",
                afresh,
            )

    def _rewritten(self) -> Iterator[Finding]:
        """Yield the findings about rows that were deleted or replaced after the position."""
        for operation, option in _SKIPS.items():
            met = [each for each in self.since if each.operation == operation]
            if not met:
                continue
            names = _listed([each.snapshot for each in met])
            if not self._is_on(option):
                yield Finding(
                    f"table-{operation}",
                    RestoreOutcome.REFUSED,
                    f"after the position its table has {names} of operation {operation}, "
                    "where Spark fails",
                    f"let the program skip such snapshots: option {option}=true",
                )
                continue
            counts = [each.rows for each in met]
            rows = None if None in counts else sum(each or 0 for each in counts)
            text = f"it skips {names} of operation {operation} ({option})"
            if rows:
                text += f", which added {_rows(rows)}"
            yield Finding(f"table-{operation}", RestoreOutcome.WARNING, text, rows=rows)

    def _waiting(self) -> Iterator[Finding]:
        appended = [each for each in self.since if each.operation == "append"]
        rows = sum(each.rows or 0 for each in appended)
        if rows:
            many = f"{len(appended)} snapshot{'s' if len(appended) != 1 else ''}"
            text = f"unread rows: {rows:,} in {many}"
            yield Finding("table-lag", RestoreOutcome.NOTE, text)

    def _given(self, name: str) -> str | None:
        return {key.lower(): value for key, value in self.options.items()}.get(name)

    def _is_on(self, name: str) -> bool:
        return (self._given(name) or "").strip().lower() == "true"


def _loss(reason: str, text: str, consent: Consent) -> Finding:
    """Return the finding for rows that Spark silently skips."""
    if consent.lost_rows:
        return Finding(reason, RestoreOutcome.WARNING, text)
    return Finding(
        reason, RestoreOutcome.CONSENT, text, f"accept the loss of rows: {ACCEPT_LOST_ROWS}"
    )


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _listed(snapshots: Sequence[int]) -> str:
    names = first_of([str(each) for each in snapshots], limit=3)
    return ("snapshot " if len(snapshots) == 1 else "snapshots ") + names


class IcebergConnector(Connector):
    """Iceberg's source and sink."""

    def owns(self, offset: str) -> bool:
        """Return whether an offset has the form of Iceberg's offsets."""
        return parse_iceberg_position(offset) is not None


ICEBERG = IcebergConnector(
    "iceberg",
    "Iceberg",
    options=(SKIP_DELETE, SKIP_OVERWRITE, FROM_TIME),
    packages=("iceberg",),
    in_catalogs=True,
    keeps_versions=True,
)
