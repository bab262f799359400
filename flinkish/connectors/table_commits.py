"""The commits of a table that a query writes to, and its version at a savepoint's batch. Pure.

Delta and Iceberg record in each commit of a streaming query which query and which batch made it:

* Delta: ``operationParameters`` of the commit's ``commitInfo`` (``queryId``, ``epochId``;
  ``DeltaOperations.StreamingUpdate``), and a ``txn`` action (``appId``, ``version``) by which
  ``DeltaSink.addBatch`` skips batches;
* Iceberg: the snapshot's summary (``spark.sql.streaming.queryId``, ``spark.sql.streaming.epochId``;
  ``SparkWrite.StreamingWrite``), by which its ``commit`` skips batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.units import first_of

_NEW_WRITER = (
    "of a query that had not written to it before: if its job resumed from this savepoint or an "
    "earlier one, input that is read again will be there twice"
)
_MERGED = "(merged into this query): input that is read again will be there twice"


@dataclass(frozen=True)
class TableCommit:
    """One commit of a table.

    Attributes
    ----------
    version
        Delta's version, or Iceberg's snapshot id.
    operation
        The table format's name for what the commit did (``STREAMING UPDATE``, ``append``).
    query_id, batch_id
        The streaming query and the batch that made the commit; None if no streaming query did.
    keeps_rows
        Whether the commit keeps the rows that the table had after the commit before it in the
        history, as maintenance does (a compaction).
    replaces_rows
        Whether the commit replaces all rows of the table, or may have replaced them.
    is_first
        Whether the history begins with this commit, and was not cut off before it: the commit
        created the table, or brought it back to a version that is unknown or was not read.
    """

    version: int
    operation: str
    query_id: str | None = None
    batch_id: int | None = None
    keeps_rows: bool = False
    replaces_rows: bool = False
    is_first: bool = False


@dataclass(frozen=True)
class TableReading:
    """What a table has recorded of a query.

    Attributes
    ----------
    table_id
        The id that the table keeps for life; another table at the same place has another id.
    version
        The present version of the table; None if it has none yet.
    newest_batch
        The newest batch of the query, up to which the sink skips; None if there is none.
    skips_after_rollback
        Whether the sink still skips those batches after the table was brought back to a version
        before them (Delta keeps its transactions).
    computes_skipped
        Whether a batch that the sink skips is computed anyway, so that its state is written
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
        None if the table cannot go back; ``why`` is then the reason.
    undone
        The commits that going back would undo, oldest first.
    """

    version: int | None
    undone: tuple[TableCommit, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Drift:
    """What others have done to a table since a savepoint.

    Attributes
    ----------
    undone
        Whether the table was brought back to a version before the savepoint, so that it lacks
        all or a part of what the saved batches wrote.
    new_writers
        Commits of streaming queries that had not written to the table before. Such a query may
        belong to a job that went on from this savepoint or an earlier one; the restored query then
        reads the input of these commits again.
    replaced
        Commits of others that replaced all rows of the table, or may have replaced them.
    others
        The remaining commits of others, without those that keep the rows.
    merged
        The batches of queries that are merged into the restored one, from after their saved
        batches, as texts: their input is read again.
    """

    undone: bool = False
    new_writers: tuple[TableCommit, ...] = ()
    replaced: tuple[TableCommit, ...] = ()
    others: tuple[TableCommit, ...] = ()
    merged: tuple[str, ...] = ()

    @property
    def asked(self) -> str:
        """What others have written that a restore must ask about; empty if there is nothing."""
        why = [f"{listed(self.new_writers)} {_NEW_WRITER}"] if self.new_writers else []
        why += [f"{listed(self.replaced)} replaced all rows"] if self.replaced else []
        why += [f"{', '.join(self.merged)} {_MERGED}"] if self.merged else []
        return "; ".join(why)


def drift(
    commits: Sequence[TableCommit],
    query_id: str,
    batch_id: int,
    recorded: int | None = None,
    committed: int | None = None,
) -> Drift:
    """Return what others have done to a table since a savepoint.

    The commits after the recorded version count. If the history lacks that version, the table was
    brought back, or, if older commits were cut off, nothing is known. If the savepoint recorded no
    version, the query's newest commit up to the saved batch stands for it; the table was then
    brought back if the query's newest commit is of a batch before ``committed``. If nothing is
    known, the result is empty.

    Parameters
    ----------
    commits, query_id, batch_id, recorded
        As in :func:`rollback_target`, but ``commits`` may lack those before ``recorded``. A query
        whose earlier commits are all missing for this reason counts as a new writer.
    committed
        The batch of the query that the table is known to have had; by default, the saved batch.
    """
    if recorded is not None:
        at = next((i for i, c in enumerate(commits) if c.version == recorded), None)
    else:
        own = [i for i, c in enumerate(commits) if _is_own(c, query_id)]
        at = max((i for i in own if not _is_later(commits[i], query_id, batch_id)), default=None)
        newest = max((commits[i].batch_id or 0 for i in own), default=None)
        if newest is not None and newest < (batch_id if committed is None else committed):
            return Drift(undone=True)
    if at is None:
        return Drift(undone=bool(recorded is not None and commits and commits[0].is_first))
    before = {commit.query_id for commit in commits[: at + 1]}
    strange = [c for c in commits[at + 1 :] if not c.keeps_rows and not _is_own(c, query_id)]
    new = tuple(c for c in strange if c.query_id is not None and c.query_id not in before)
    replaced = tuple(c for c in strange if c.replaces_rows and c not in new)
    others = tuple(c for c in strange if c not in new and c not in replaced)
    return Drift(False, new, replaced, others)


def rollback_target(
    commits: Sequence[TableCommit],
    query_id: str,
    batch_id: int,
    recorded: int | None = None,
    before: Sequence[TableCommit] = (),
) -> RollbackTarget:
    """Find the version of a table at a batch of a query.

    It is the recorded version, else the newest with nothing of a later batch of the query. A table
    goes back only if that undoes only later batches of the query and commits that keep the rows.

    Parameters
    ----------
    commits
        The commits that lead to the table's present version, oldest first, as far back as the table
        still has them.
    query_id, batch_id
        The saved query, and the batch at which it was saved.
    recorded
        The version that the savepoint recorded for this table, if it did.
    before
        The commits that led to the recorded version, if ``commits`` lack that version because the
        table was brought back to an earlier one, but the table still has it.
    """
    versions = [commit.version for commit in commits]
    if recorded is not None and recorded not in versions:
        if not before:
            return RollbackTarget(None, why=f"it no longer has version {recorded}")
        shared = {commit.version for commit in before}
        undone = tuple(commit for commit in commits if commit.version not in shared)
        return _if_its_own(recorded, undone, query_id, -1)  # the batch numbers began again
    if recorded is not None:
        first = versions.index(recorded) + 1
    else:
        first = next((i for i, c in enumerate(commits) if _is_later(c, query_id, batch_id)), -1)
        if first < 0:
            return RollbackTarget(None, why="its history has no commit of a later batch")
        if first == 0:
            return RollbackTarget(None, why=f"its history does not reach back to batch {batch_id}")
    return _if_its_own(versions[first - 1], tuple(commits[first:]), query_id, batch_id)


def _if_its_own(
    version: int, undone: tuple[TableCommit, ...], query_id: str, batch_id: int
) -> RollbackTarget:
    """Return the target, or the refusal if commits of others would be undone."""
    others = [c for c in undone if not c.keeps_rows and not _is_later(c, query_id, batch_id)]
    if others:
        why = f"others have written to it since: {listed(others)}"
        return RollbackTarget(None, undone, why)
    return RollbackTarget(version, undone)


def why_no_longer(commits: Sequence[TableCommit], planned_at: int | None, target: int) -> str:
    """Return why a planned rollback would now undo what the plan did not know of; else empty.

    Parameters
    ----------
    commits
        As in :func:`rollback_target`.
    planned_at
        The present version of the table when the rollback was planned.
    target
        The version to which the table is to go back.
    """
    agreed = [i for i, commit in enumerate(commits) if commit.version in (planned_at, target)]
    if not agreed:
        return "it was brought back to another version since the restore was planned"
    others = [commit for commit in commits[agreed[-1] + 1 :] if not commit.keeps_rows]
    if others:
        return f"others have written to it since the restore was planned: {listed(others)}"
    return ""


def listed(commits: Sequence[TableCommit]) -> str:
    """Return a text that names the first few of several commits."""
    return "version " + first_of([f"{c.version} ({c.operation})" for c in commits], limit=5)


def version_at(commits: Sequence[TableCommit], query_id: str, batch_id: int) -> int | None:
    """Return the newest version that has nothing of a later batch of a query; None if unknown.

    Parameters are those of :func:`rollback_target`.
    """
    first = next((i for i, c in enumerate(commits) if _is_later(c, query_id, batch_id)), None)
    if first == 0 or not commits:
        return None
    return commits[-1 if first is None else first - 1].version


def recorded_version(sink: Mapping[str, Any], table_id: str) -> int | None:
    """Return the version that a savepoint recorded for a table; None if it recorded none."""
    version = sink.get("table_version")
    return version if type(version) is int and sink.get("table_id") == table_id else None


def _is_own(commit: TableCommit, query_id: str) -> bool:
    return commit.query_id == query_id and commit.batch_id is not None


def _is_later(commit: TableCommit, query_id: str, batch_id: int) -> bool:
    return (
        commit.query_id == query_id and commit.batch_id is not None and commit.batch_id > batch_id
    )
