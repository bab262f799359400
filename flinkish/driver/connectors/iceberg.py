"""Tables of Apache Iceberg, accessed through Iceberg's own classes in the program's session.

Facts used, observed on Spark 3.5.9 and 4.0.5 with Iceberg 1.10.1 and on 4.1.4 with 1.11.0:

* ``SparkWrite.StreamingWrite.commit`` (``org.apache.iceberg.spark.source``) puts the query id and
  the batch into the summary of each snapshot, also of a batch without rows and in complete mode. It
  looks for the newest snapshot with the same query id, from the current snapshot back through its
  ancestors, and does not commit a batch that is not above the one found. By then the batch has been
  computed and its state written.
* ``commit`` looks at no other snapshots. After ``rollbackTo`` it commits the undone batches again.
  After the query's snapshots have expired, it also commits batches again that the table already
  has, and the table then has their rows twice.
* ``rollbackTo`` goes back to an ancestor of the current snapshot, and commits no new snapshot.
  ``setCurrentSnapshot`` takes any snapshot that the table still has, also one that was undone.
* A snapshot of maintenance (``rewrite_data_files``, ``rewrite_manifests``) has the operation
  ``replace`` and no query id. The newest query id is then that of an older ancestor.
* ``commit`` examines the current snapshot even if it writes to a branch (``table.branch_x``, which
  on 4.1.4 is the name of another table; ``spark.wap.branch``). So it skips no batch on a branch,
  and the branch has the rows of a repeated batch twice.
* The sink never creates a table for ``format("iceberg").start(...)``. The argument of ``start`` is
  the name of a table or, if it contains a slash, a path of ``HadoopTables``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from typing import Any

from flinkish.connectors.iceberg import (
    IcebergAnswer,
    IcebergPosition,
    Written,
    parse_iceberg_position,
)
from flinkish.connectors.table_commits import TableCommit, TableReading
from flinkish.driver.connectors.question import SourceQuestion
from flinkish.driver.connectors.table import SinkPlace, Table, table_errors
from flinkish.errors import TableError

#: Maximum number of commits in a history; each takes two calls to the JVM.
_HISTORY = 10_000
_QUERY_ID = "spark.sql.streaming.queryId"
_BATCH = "spark.sql.streaming.epochId"
#: The operation of snapshots that put the same rows into other files.
_REPLACE = "replace"


class IcebergTable:
    """An Iceberg table.

    ``session`` is the query's; ``place`` is the name of the table, or its path or URL.
    """

    def __init__(self, session: Any, place: str) -> None:
        self._place = place
        self._session = session
        self._jvm = session._jvm

    def exists(self) -> bool:
        """Return whether the table exists."""
        with self._errors():
            if is_path(self._place):
                return bool(self._paths.exists(self._place))
            return bool(self._session.catalog.tableExists(self._place))

    def read(self, query_id: str) -> TableReading:
        """Return what the table has recorded of a query.

        Raises TableError if the table cannot be read, if the query writes to a branch, or if the
        snapshots that might have its newest batch have expired.
        """
        with self._errors():
            table = self._load()
            self._refuse_branch(table)
            current = table.currentSnapshot()
            return TableReading(
                str(table.uuid()),
                None if current is None else int(current.snapshotId()),
                self._newest_batch(table, query_id),
                skips_after_rollback=False,
                computes_skipped=True,
            )

    def history(
        self, version: int | None = None, *, back_to: int | None = None
    ) -> Sequence[TableCommit]:
        """Return the commits that lead to a version; TableError if the table cannot be read."""
        commits: list[TableCommit] = []
        with self._errors():
            for snapshot in islice(self._ancestors(self._load(), version), _HISTORY):
                whole = snapshot.get("parent-snapshot-id") is None
                commits.append(replace(commit_of(snapshot), is_first=whole))
                if commits[-1].version == back_to:
                    break
        return tuple(reversed(commits))

    def answer(self, position: IcebergPosition, options: Mapping[str, str]) -> IcebergAnswer:
        """Return what the table still has for a source at ``position``.

        ``options`` are the source's options. Raises TableError if the table cannot be read.
        """
        with self._errors():
            table = self._load()
            current, saved = table.currentSnapshot(), position.snapshot
            since: list[Mapping[str, Any]] = []
            before: list[Mapping[str, Any]] = []
            for each in self._ancestors(table):
                (before if before or each["snapshot-id"] == saved else since).append(each)
            oldest = (before or since)[-1] if before or since else {}
            return IcebergAnswer(
                position,
                options,
                has_snapshots=current is not None,
                there=saved is not None and table.snapshot(saved) is not None,
                ancestor=bool(before),
                whole=oldest.get("parent-snapshot-id") is None,
                since=tuple(written_of(each) for each in reversed(since)),
                before=sum(
                    each.rows or 0 for each in map(written_of, before) if each.operation == "append"
                ),
            )

    def roll_back(self, version: int) -> None:
        """Make another snapshot the current one; TableError if the table does not have that one."""
        with self._errors():
            self._load().manageSnapshots().setCurrentSnapshot(version).commit()

    def _newest_batch(self, table: Any, query_id: str) -> int | None:
        """Return the query's newest batch as ``SparkWrite`` finds it, or None."""
        oldest = None
        for oldest in self._ancestors(table):
            commit = commit_of(oldest)
            if commit.query_id == query_id:
                return commit.batch_id
        if oldest is not None and oldest.get("parent-snapshot-id") is not None:
            raise TableError(
                f"the table {self._place}: the snapshots before {oldest['snapshot-id']} were "
                "expired, and no later one is of the query; Iceberg cannot tell which of the "
                "query's batches the table has, and would write them again"
            )
        return None

    def _refuse_branch(self, table: Any) -> None:
        """Raise TableError if the query writes to a branch, whose batches the sink ignores."""
        _, named, branch = self._place.rpartition(".branch_")
        if not named or str(table.name()).endswith(f".branch_{branch}"):
            audited = str(table.properties().get("write.wap.enabled")).lower() == "true"
            branch = self._session.conf.get("spark.wap.branch", "") if audited else ""
            if not branch or not table.refs().containsKey(branch):
                return
        raise TableError(
            f"the table {self._place}: the query writes to the branch {branch}, for which Iceberg "
            "does not look up the committed batches: it would write them again"
        )

    def _ancestors(self, table: Any, version: int | None = None) -> Iterator[Mapping[str, Any]]:
        """Yield a snapshot (default: the current one) and its ancestors, newest first, as JSON."""
        parser = self._jvm.org.apache.iceberg.SnapshotParser
        snapshot = table.currentSnapshot() if version is None else table.snapshot(version)
        while snapshot is not None:
            record: Mapping[str, Any] = json.loads(parser.toJson(snapshot))
            yield record
            parent = record.get("parent-snapshot-id")
            snapshot = None if parent is None else table.snapshot(parent)

    def _load(self) -> Any:
        """Load the table, and refresh it if a catalog may have cached an older version."""
        if is_path(self._place):
            return self._paths.load(self._place)
        spark = self._jvm.org.apache.iceberg.spark.Spark3Util
        table = spark.loadIcebergTable(self._session._jsparkSession, self._place)
        table.refresh()
        return table

    @property
    def _paths(self) -> Any:
        configuration = self._session._jsparkSession.sessionState().newHadoopConf()
        return self._jvm.org.apache.iceberg.hadoop.HadoopTables(configuration)

    def _errors(self) -> AbstractContextManager[None]:
        return table_errors(self._place, "Iceberg")


def ask(question: SourceQuestion) -> IcebergAnswer | None:
    """Return the answer of a source's table; None if the saved position is not one of Iceberg.

    Raises TableError if the table cannot be read, or its name is unknown.
    """
    position = parse_iceberg_position(question.saved.offset)
    if position is None:
        return None
    place = table_of(question.source.signature)
    if place is None:
        raise TableError("the name of its table is not known")
    return IcebergTable(question.session, place).answer(position, question.source.options)


def table_of(signature: str) -> str | None:
    """Return the table in ``table[catalog.db.t]`` or ``iceberg[/path]``, else None. Pure."""
    kind, bracket, rest = signature.partition("[")
    if kind not in ("table", "iceberg") or not bracket:
        return None
    return rest.removesuffix("]").partition(", ")[0] or None


def open_sink(place: SinkPlace, session: Any) -> Table | None:
    """Return the table of a sink; None if its name and path are unknown."""
    name = place.table or place.path
    return None if name is None else IcebergTable(session, name)


def is_path(place: str) -> bool:
    """Return whether Iceberg reads a text as a path, not as a name (``IcebergSource``). Pure."""
    return "/" in place


def written_of(snapshot: Mapping[str, Any]) -> Written:
    """Return what a snapshot, as Iceberg's ``SnapshotParser`` writes it, has added. Pure."""
    summary = snapshot.get("summary") or {}
    rows = str(summary.get("added-records"))
    operation = str(summary.get("operation") or "unknown")
    is_number = rows.isascii() and rows.isdigit()
    return Written(int(snapshot["snapshot-id"]), operation, int(rows) if is_number else None)


def commit_of(snapshot: Mapping[str, Any]) -> TableCommit:
    """Return a snapshot, as Iceberg's ``SnapshotParser`` writes it, as a commit. Pure."""
    summary = snapshot.get("summary") or {}
    operation = str(summary.get("operation") or "unknown")
    version = int(snapshot["snapshot-id"])
    batch, query = summary.get(_BATCH), summary.get(_QUERY_ID)
    if isinstance(query, str) and isinstance(batch, str) and batch.isascii() and batch.isdigit():
        return TableCommit(version, operation, query, int(batch))
    total, added = (summary.get(f"{which}-records", "0") for which in ("total", "added"))
    replaced = operation in ("overwrite", "delete") and total == added
    return TableCommit(version, operation, keeps_rows=operation == _REPLACE, replaces_rows=replaced)
