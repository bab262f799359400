"""The commits of a table that a query writes to, and the version to which it can go back. Pure.

Delta and Iceberg record with each commit of a streaming query which query and which batch it is of:

* Delta: ``operationParameters`` of the commit's ``commitInfo`` (``queryId``, ``epochId``;
  ``DeltaOperations.StreamingUpdate``), and a ``txn`` action (``appId``, ``version``) by which
  ``DeltaSink.addBatch`` skips batches;
* Iceberg: the snapshot's summary (``spark.sql.streaming.queryId``, ``spark.sql.streaming.epochId``;
  ``SparkWrite.StreamingWrite``), by which its ``commit`` skips batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TableCommit:
    """One commit of a table.

    Attributes
    ----------
    version
        Delta's version, or Iceberg's snapshot id.
    operation
        The table format's name of what it did (``STREAMING UPDATE``, ``append``).
    query_id, batch_id
        The streaming query and batch that it is of; None for a commit of somebody else.
    keeps_rows
        Whether it leaves the table's rows as they were: maintenance, such as a compaction.
    """

    version: int
    operation: str
    query_id: str | None = None
    batch_id: int | None = None
    keeps_rows: bool = False


@dataclass(frozen=True)
class TableReading:
    """What a table has of a query.

    Attributes
    ----------
    table_id
        The id that the table keeps for life; another table at the same place has another.
    version
        Its present version; None where it has none yet.
    newest_batch
        The newest batch of the query by which the sink skips; None if there is none.
    skips_after_rollback
        Whether the sink goes on skipping those batches when the table was brought back to a version
        before them (Delta keeps its transactions).
    computes_skipped
        Whether a batch that the sink skips is computed all the same, so that its state is written
        (Iceberg: only the commit is left out).
    """

    table_id: str
    version: int | None
    newest_batch: int | None
    skips_after_rollback: bool
    computes_skipped: bool


@dataclass(frozen=True)
class RollbackTarget:
    """The version of a table at a savepoint's batch, and what going back to it would undo.

    Attributes
    ----------
    version
        None where the table cannot go back; ``why`` says the reason.
    undone
        The commits after it, oldest first.
    """

    version: int | None
    undone: tuple[TableCommit, ...] = ()
    why: str = ""


def rollback_target(
    commits: Sequence[TableCommit], query_id: str, batch_id: int, recorded: int | None = None
) -> RollbackTarget:
    """Find the version of a table at a batch of a query.

    It is the newest version that has nothing of a later batch of the query. A table goes back only
    if nothing but the query's own batches, and maintenance, would be undone.

    Parameters
    ----------
    commits
        Those that lead to the table's present version, oldest first, as far back as the table still
        has them.
    query_id, batch_id
        The saved query, and the batch at which it was saved.
    recorded
        The version that the savepoint recorded, if it did, and for this table.
    """
    versions = [commit.version for commit in commits]
    if recorded is not None:
        if recorded not in versions:
            return RollbackTarget(None, why=f"it no longer has version {recorded}")
        first = versions.index(recorded) + 1
    else:
        first = next((i for i, c in enumerate(commits) if _is_later(c, query_id, batch_id)), -1)
        if first < 0:
            return RollbackTarget(None, why="its history has no commit of a later batch")
        if first == 0:
            return RollbackTarget(None, why=f"its history does not reach back to batch {batch_id}")
    undone = tuple(commits[first:])
    others = [c for c in undone if not c.keeps_rows and not _is_later(c, query_id, batch_id)]
    if others:
        listed = ", ".join(f"{c.version} ({c.operation})" for c in others[:5])
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        why = f"others have written to it since: version {listed}{more}"
        return RollbackTarget(None, undone, why)
    return RollbackTarget(versions[first - 1], undone)


def version_at(commits: Sequence[TableCommit], query_id: str, batch_id: int) -> int | None:
    """Return the newest version that has nothing of a later batch of a query; None if unknown.

    Parameters are those of :func:`rollback_target`.
    """
    first = next((i for i, c in enumerate(commits) if _is_later(c, query_id, batch_id)), None)
    if first == 0 or not commits:
        return None
    return commits[-1 if first is None else first - 1].version


def _is_later(commit: TableCommit, query_id: str, batch_id: int) -> bool:
    return (
        commit.query_id == query_id and commit.batch_id is not None and commit.batch_id > batch_id
    )
