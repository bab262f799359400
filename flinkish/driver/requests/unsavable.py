"""Queries that have nothing to save, as opposed to those whose checkpoint is gone.

A savepoint covers the whole job. A query that ended before it committed a batch, or has found no
input for its first one, has no state, and the others are saved without it. If a query did commit
and its checkpoint has no commit any more, the state that a savepoint must hold is lost: no
savepoint is made, and the error names the query and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import Corrupt, WrongState
from flinkish.messages.requests import LeftOut


def ended_without_commit(query: ManagedQuery) -> bool:
    """Return whether ``query`` has ended without a commit, so that it never has anything to save.

    Raises Corrupt when its commits are lost.
    """
    return not has_committed(query) and spark_jvm.has_ended(query.jsq)


def has_committed(query: ManagedQuery) -> bool:
    """Return whether ``query`` has committed a batch.

    Raises Corrupt if it has, and its checkpoint has no commit.
    """
    if newest_committed_batch(query.checkpoint) is not None:
        return True
    progress = spark_jvm.last_progress(query.jsq)
    if progress is not None:
        query.progress = progress
    batch = _known_commit(query)
    if batch is None or newest_committed_batch(query.checkpoint) is not None:
        return batch is not None
    raise Corrupt(
        f"query '{query.name}' has committed batch {batch}, and its checkpoint "
        f"{query.checkpoint} was removed, or its commits were",
        hint="its state is lost, and the savepoint would lack it: end the job with a plain "
        "flinkish cancel and start it from an earlier savepoint, or put the checkpoint back",
        query=query.name,
        path=query.checkpoint,
    )


def _known_commit(query: ManagedQuery) -> int | None:
    """Return a batch that ``query`` is known to have committed, or None."""
    progress = query.progress
    # Spark reports an idle trigger under the number of the next batch. A batch that was computed is
    # reported when it is committed.
    if progress.get("batchId") is not None and "addBatch" in progress.get("durationMs", {}):
        return int(progress["batchId"])
    return query.restored_batch


def waits_for_input(query: ManagedQuery) -> bool:
    """Return whether ``query`` has looked for input, found none, and has committed nothing.

    Spark reports such a trigger too, as one that added no batch (``ProgressReporter``); a query
    whose first batch runs has not reported any.
    """
    progress = spark_jvm.last_progress(query.jsq)
    return (
        progress is not None
        and "addBatch" not in progress.get("durationMs", {})
        and not spark_jvm.has_input(query.jsq)
        and not has_committed(query)
    )


#: Why a query is not in the savepoint.
ENDED = "it ended before it committed a batch"
NO_INPUT = "it has committed no batch yet, because it has found no input"


def left_out(
    queries: Sequence[ManagedQuery], savable: Sequence[ManagedQuery]
) -> tuple[LeftOut, ...]:
    """Return the names of the queries that are not in the savepoint, with the reason.

    Raises WrongState when no query is left.
    """
    names = {query.name for query in savable}
    out = tuple(
        LeftOut(query.name, ENDED)
        if spark_jvm.has_ended(query.jsq)
        else LeftOut(query.name, NO_INPUT, pending=True)
        for query in queries
        if query.name not in names
    )
    if not names:
        listed = ", ".join(f"'{each.query}'" for each in out)
        raise WrongState(
            f"no query of the job has committed a batch, and all have ended: {listed}",
            hint="there is nothing to save; end the job with: flinkish cancel JOB",
        )
    return out
