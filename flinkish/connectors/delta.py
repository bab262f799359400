"""Findings about a Delta source that resumes from a saved position. Pure.

Facts used, observed on Spark 3.5.9 with Delta 3.3.2 and on 4.0.5 with 4.0.1:

* A position is a ``DeltaSourceOffset``: ``reservoirId`` (the table's id), ``reservoirVersion`` (the
  version that is read next) and ``index`` (of a file in that version; -1 before the first file).
* A table with another id fails the query (``DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE``). A
  log that lacks the position's version also fails it, even with ``failOnDataLoss=false``
  (``DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE``).
* A later commit that removes or rewrites rows, such as a ``RESTORE``, fails the query that reaches
  it (``DELTA_SOURCE_TABLE_IGNORE_CHANGES``), unless ``skipChangeCommits``, ``ignoreChanges`` or
  ``readChangeFeed`` is set. In the code of Delta 3.3 and 4.0, ``ignoreDeletes`` allows only commits
  that remove files and add none, like a ``DELETE`` of whole partitions.
* ``isStartingVersion`` says that the version is read as a snapshot: its commit is not read. (This
  was not observed; Delta's code says so.)
* A later change of the schema ends the query once (``DELTA_SCHEMA_CHANGED_WITH_VERSION``) if the
  query was planned with another schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from flinkish.connectors.base import Connector
from flinkish.connectors.sources import ACCEPT_LOST_ROWS, Consent, Finding, SourceAnswer
from flinkish.messages.plan import RestoreOutcome
from flinkish.units import first_of

#: Operations that remove or rewrite rows; an overwriting ``WRITE`` is given as ``TRUNCATE``.
_CHANGES = frozenset({"DELETE", "MERGE", "RESTORE", "TRUNCATE", "UPDATE"})
#: Options with which Delta skips changed rows, or reads them.
_TOLERANT = ("skipchangecommits", "ignorechanges", "readchangefeed")
_LISTED = 5


@dataclass(frozen=True)
class DeltaPosition:
    """The position of a Delta source: the files of ``version`` up to ``index`` were read.

    ``in_snapshot`` says that these are the files that the table had at that version, not those that
    its commit has added.
    """

    table_id: str
    version: int
    index: int
    in_snapshot: bool = False


@dataclass(frozen=True)
class DeltaAnswer(SourceAnswer):
    """A Delta table's answer about a source.

    Attributes
    ----------
    table_id
        The id of the table; None if the table no longer exists.
    oldest, newest
        The oldest and the newest version that the log has.
    operations
        The operation of each version from the position on, as far as it is known.
    options
        The options of the source, by lower-case name.
    """

    table_id: str | None
    oldest: int = 0
    newest: int = -1
    operations: Mapping[int, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def judge(self, offset: str, consent: Consent) -> Iterator[Finding]:
        """Yield the findings about a source that resumes from a saved position."""
        position = parse_delta_position(offset)
        if position is None:
            return
        again = f"start it from scratch and keep the state: {consent.reset}"
        if self.table_id is None:
            yield Finding(
                "table-missing", RestoreOutcome.REFUSED, "the table no longer exists", again
            )
        elif self.table_id != position.table_id:
            yield Finding(
                "table-made-again",
                RestoreOutcome.CONSENT,
                "the table is not the one that the saved position refers to (its id "
                "differs): the query would fail",
                again,
            )
        elif position.version < self.oldest:
            yield Finding(
                "versions-gone",
                RestoreOutcome.CONSENT,
                f"version {position.version} must be read next, but the table's log "
                f"begins with {self.oldest}: the query would fail, even with "
                "failOnDataLoss=false",
                f"{again}; to keep the log longer, set the table's delta.logRetentionDuration",
            )
        elif position.version > self.newest + 1:
            yield Finding(
                "table-behind",
                RestoreOutcome.WARNING if consent.lost_rows else RestoreOutcome.CONSENT,
                f"the table was read up to version {position.version}, but has versions up to "
                f"{self.newest} only: the query would not read what is written up to there",
                "" if consent.lost_rows else f"{again}; or accept the loss: {ACCEPT_LOST_ROWS}",
            )
        else:
            yield from self._ahead(position)

    def counts_losses(self, offset: str) -> bool:
        """Return whether the rows of the findings are all that the source loses at a position."""
        return parse_delta_position(offset) is not None

    def _is_on(self, option: str) -> bool:
        return self.options.get(option, "").lower() == "true"

    def _ahead(self, position: DeltaPosition) -> Iterator[Finding]:
        waiting = self.newest - position.version + 1
        if waiting > 0:
            text = f"unread versions: {waiting:,}"
            yield Finding("table-lag", RestoreOutcome.NOTE, text)
        first = position.version + position.in_snapshot
        later = {v: word for v, word in self.operations.items() if v >= first}
        # An overwriting write counts as TRUNCATE, but also adds files.
        ignores = self._is_on("ignoredeletes")
        failing = _CHANGES - {"DELETE"} if ignores else _CHANGES
        changed = [v for v, word in sorted(later.items()) if word in failing]
        if changed and not any(self._is_on(name) for name in _TOLERANT):
            listed = first_of([f"{v} ({later[v]})" for v in changed], limit=_LISTED)
            yield Finding(
                "rows-changed",
                RestoreOutcome.WARNING,
                f"versions after the position have removed or rewritten rows: {listed}: "
                f"the query {'may fail' if ignores else 'fails'} when it reaches them",
                "set skipChangeCommits on the source to skip them",
                rows=0,
            )
        schema = [v for v, word in sorted(later.items()) if _is_schema(word)]
        if schema:
            yield Finding(
                "schema-changed",
                RestoreOutcome.WARNING,
                f"the table's schema changed after the position, in version {schema[0]} "
                f"({later[schema[0]]}): the query may fail there once, and continues "
                "after a restart",
                "use a restart strategy, or restart the job after it has failed",
                rows=0,
            )


def _is_schema(word: str) -> bool:
    return word.endswith((" COLUMNS", " COLUMN")) or word == "REPLACE TABLE"


def parse_delta_position(offset: str) -> DeltaPosition | None:
    """Return the saved position in a text; None if the text is no position of Delta."""
    try:
        parsed = json.loads(offset)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    table, version, index = (
        parsed.get(name) for name in ("reservoirId", "reservoirVersion", "index")
    )
    if not isinstance(table, str) or type(version) is not int or type(index) is not int:
        return None
    return DeltaPosition(table, version, index, parsed.get("isStartingVersion") is True)


class DeltaConnector(Connector):
    """Delta Lake's source and sink."""

    def owns(self, offset: str) -> bool:
        """Return whether an offset has the form of Delta's offsets."""
        return parse_delta_position(offset) is not None


DELTA = DeltaConnector(
    "delta",
    "Delta Lake",
    # These options decide which table the source reads, and how it treats missing or changed rows.
    options=(
        *("path", "failOnDataLoss", "ignoreChanges", "ignoreDeletes"),
        *("readChangeFeed", "skipChangeCommits"),
    ),
    packages=("delta",),
    keeps_versions=True,
)
