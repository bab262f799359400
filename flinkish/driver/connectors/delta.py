"""Tables of Delta Lake, accessed through Delta's own classes in the program's session.

Facts used, observed on Spark 3.5.9 with Delta 3.3.2 and on 4.0.5 with 4.0.1:

* ``DeltaSink.addBatch`` (``org.apache.spark.sql.delta.sources``) skips a batch that is not above
  the newest version of the query's ``txn`` (``Snapshot.transactions``, by query id). The skipped
  batch is not computed.
* A commit of a streaming query has ``operation`` ``STREAMING UPDATE`` and, in
  ``operationParameters``, ``queryId`` and ``epochId`` (the batch).
* ``DeltaTable.restoreToVersion`` commits the files of that version (``RESTORE``, parameter
  ``version``). The table's transactions stay, so the sink still skips the batches that it had.
* Delta refuses to do anything in a session without its extension and catalog, so a program that
  writes to Delta has both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from flinkish.connectors.delta import DeltaAnswer, DeltaPosition, parse_delta_position
from flinkish.connectors.table_commits import TableCommit, TableReading
from flinkish.driver.connectors.question import SourceQuestion
from flinkish.driver.connectors.table import SinkPlace, Table, table_errors

#: Operations that leave the rows, the schema and the properties of a table as they are.
_MAINTENANCE = frozenset({"COMPUTE STATS", "OPTIMIZE", "VACUUM END", "VACUUM START"})
#: Operations that replace all rows, in any mode.
_REPLACING = frozenset(
    {"CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE"}
    | {"REPLACE TABLE AS SELECT", "TRUNCATE", "CLONE"}
)
#: Operations that keep all rows. ``RESTORE`` is one, as :func:`lineage` leaves out what it undid.
_KEEPING = _MAINTENANCE | {"RESTORE"}
#: Maximum number of commits that are read from a history; each is a file of the log.
_HISTORY = 10_000
#: A path of Delta as the name of a table: ``delta.`/path```.
_PATH_TABLE = re.compile(r"delta\.`(?P<path>[^`]+)`")


class DeltaTable:
    """A Delta Lake table.

    ``session`` is the query's; ``location`` is the path or URL of the table.
    """

    def __init__(self, session: Any, location: str) -> None:
        self._location = location
        self._jsession = session._jsparkSession
        self._jvm = session._jvm

    def exists(self) -> bool:
        """Return whether the table exists."""
        with self._errors():
            return bool(self._tables.isDeltaTable(self._jsession, self._location))

    def read(self, query_id: str) -> TableReading:
        """Return what the table has recorded of a query; TableError if it cannot be read."""
        with self._errors():
            snapshot = self._log_and_snapshot()._2()
            newest = snapshot.transactions().get(query_id)
            return TableReading(
                str(snapshot.metadata().id()),
                int(snapshot.version()),
                int(newest.get()) if newest.isDefined() else None,
                skips_after_rollback=True,
                computes_skipped=False,
            )

    def history(
        self, version: int | None = None, *, back_to: int | None = None
    ) -> Sequence[TableCommit]:
        """Return the commits that lead to a version; TableError as :meth:`read`."""
        count = _HISTORY
        if back_to is not None:
            with self._errors():
                newest = int(self._log_and_snapshot()._2().version())
            count = min(_HISTORY, max(1, newest - back_to + 1))
        rows = sorted(self._rows(count), key=lambda row: int(row["version"]))
        return lineage(rows, version)

    def _rows(self, count: int) -> list[dict[str, Any]]:
        """Return the rows of the history of the newest commits."""
        with self._errors():
            history = self._tables.forPath(self._jsession, self._location).history(count)
            columns = self._jvm.PythonUtils.toSeq(["operation", "operationParameters"])
            rows = history.select("version", columns).toJSON().collectAsList()
            return [json.loads(row) for row in rows]

    def answer(self, position: DeltaPosition, options: Mapping[str, str]) -> DeltaAnswer:
        """Return what the table still has for a source at ``position``; TableError as :meth:`read`.

        ``options`` are the source's options.
        """
        if not self.exists():
            return DeltaAnswer(None)
        with self._errors():
            log_and_snapshot = self._log_and_snapshot()
            log, snapshot = log_and_snapshot._1(), log_and_snapshot._2()
            oldest = int(log.history().getEarliestDeltaFile(log))
            newest = int(snapshot.version())
            table_id = str(snapshot.metadata().id())
        operations: dict[int, str] = {}
        if position.table_id == table_id and position.version <= newest:
            rows = self._rows(min(newest - position.version + 1, _HISTORY))
            operations = {int(row["version"]): operation_of(row) for row in rows}
        lowered = {name.lower(): value for name, value in options.items()}
        return DeltaAnswer(table_id, oldest, newest, operations, lowered)

    def roll_back(self, version: int) -> None:
        """Restore the table to a version; TableError if that fails, as when its files are gone."""
        with self._errors():
            self._tables.forPath(self._jsession, self._location).restoreToVersion(version)

    def _log_and_snapshot(self) -> Any:
        logs = self._jvm.org.apache.spark.sql.delta.DeltaLog
        return logs.forTableWithSnapshot(self._jsession, self._location)

    @property
    def _tables(self) -> Any:
        return self._jvm.io.delta.tables.DeltaTable

    def _errors(self) -> AbstractContextManager[None]:
        return table_errors(self._location, "Delta Lake")


def ask(question: SourceQuestion) -> DeltaAnswer | None:
    """Return the answer of a source's table about its position.

    Returns None if the position is not one of Delta or the table's path is unknown; raises
    TableError if the table cannot be read.
    """
    position = parse_delta_position(question.saved.offset)
    path = question.source.options.get("path")
    if position is None or path is None:
        return None
    return DeltaTable(question.session, path).answer(position, question.source.options)


def open_sink(place: SinkPlace, session: Any) -> Table | None:
    """Return the table of a sink; None if its path is unknown."""
    return None if place.path is None else DeltaTable(session, place.path)


def named_by_path(place: SinkPlace) -> SinkPlace | None:
    """Return the place of a table whose name is its path, ``delta.`/path```; else None."""
    match = _PATH_TABLE.fullmatch(place.table or "")
    return None if match is None else replace(place, format="delta", path=match["path"])


def lineage(
    rows: Iterable[Mapping[str, Any]], version: int | None = None
) -> tuple[TableCommit, ...]:
    """Return the commits of a history that lead to a version. Pure.

    A ``RESTORE`` continues the version that it goes back to, so the commits between are not part of
    the lineage, unless another ``RESTORE`` goes back to one of them. A ``RESTORE`` to a time does
    not record a version, so the lineage begins with it.

    ``rows`` are ``version``, ``operation`` and ``operationParameters`` of each commit, oldest
    first. ``version`` is the newest by default.
    """
    commits: dict[int, TableCommit] = {}
    parents: dict[int, int | None] = {}
    newest: int | None = None
    for row in rows:
        commit = _commit(row)
        commits[commit.version], parents[commit.version] = commit, newest
        newest = commit.version
        if commit.operation == "RESTORE":  # None for a restore to a time
            parents[newest] = _number((row.get("operationParameters") or {}).get("version"))
    backwards: list[TableCommit] = []
    at = newest if version is None else version
    while at is not None and at in commits:
        backwards.append(commits[at])
        at = parents[at]
    if backwards and (backwards[-1].version == 0 or backwards[-1].operation == "RESTORE"):
        backwards[-1] = replace(backwards[-1], is_first=True)
    return tuple(reversed(backwards))


def _commit(row: Mapping[str, Any]) -> TableCommit:
    parameters = row.get("operationParameters") or {}
    operation = str(row.get("operation") or "unknown")
    version = int(row["version"])
    batch = _number(parameters.get("epochId"))
    query = parameters.get("queryId")
    if batch is None or not isinstance(query, str):
        return TableCommit(
            version,
            operation,
            keeps_rows=operation in _KEEPING,
            replaces_rows=parameters.get("mode") == "Overwrite" or operation in _REPLACING,
        )
    return TableCommit(version, operation, query, batch)


def operation_of(row: Mapping[str, Any]) -> str:
    """Return the operation of a row of a history; an overwriting write is a ``TRUNCATE``. Pure."""
    mode = (row.get("operationParameters") or {}).get("mode")
    return "TRUNCATE" if mode == "Overwrite" else str(row.get("operation") or "unknown")


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None
