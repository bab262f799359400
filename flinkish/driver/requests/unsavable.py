"""Queries that have nothing to save, told from those whose checkpoint is gone.

A savepoint is of the job. A query that ended before it committed a batch has no state, and the
others are saved without it. One that did commit, and whose checkpoint has no commit any more, has
lost what a savepoint would have to hold: there is none then, and the error says which and why.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import Corrupt, WrongState
from flinkish.spec.requests import LeftOut


def ended_without_commit(query: ManagedQuery) -> bool:
    """Whether ``query`` has nothing to save, and never will. Corrupt when it had."""
    return not has_committed(query) and spark_jvm.has_ended(query.jsq)


def has_committed(query: ManagedQuery) -> bool:
    """Whether ``query`` has committed a batch.

    Raises Corrupt when it has, and its checkpoint does not know.
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
        hint="its state is lost, and the savepoint would be without it: end the job with a plain "
        "flinkish cancel and start it from an earlier savepoint, or put the checkpoint back",
        query=query.name,
        path=query.checkpoint,
    )


def _known_commit(query: ManagedQuery) -> int | None:
    """A batch that ``query`` has certainly committed, by what is known here; None: of none."""
    progress = query.progress
    # Spark reports an idle trigger under the number of the batch to come; one that computed
    # something is reported when it is committed.
    if progress.get("batchId") is not None and "addBatch" in progress.get("durationMs", {}):
        return int(progress["batchId"])
    return query.restored_batch


def left_out(
    queries: Sequence[ManagedQuery], savable: Sequence[ManagedQuery]
) -> tuple[LeftOut, ...]:
    """What is said of the queries that are not in the savepoint: their names, and why.

    Raises WrongState when no query is left.
    """
    names = {query.name for query in savable}
    out = tuple(
        LeftOut(query.name, "it ended before it committed a batch")
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
