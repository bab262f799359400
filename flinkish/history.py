"""``history_batch``: the number of a batch in the history of its job, for ``foreachBatch``."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.annotations import public

#: The function that returns the shift of the query whose ``foreachBatch`` function runs in this
#: thread. The driver of a job sets it.
_shift: Callable[[], int] | None = None


@public
def history_batch(batch_id: int) -> int:
    """Return a number of a batch that never stands for other data in the job's history.

    Call it in a ``foreachBatch`` function with the batch id that Spark passes. Spark's own ids
    repeat when an older savepoint is restored or a fork is started. This number grows from batch to
    batch and from restore to restore, and is the same when Spark replays a batch with exactly the
    same input, after a crash or when a stopped job continues. It therefore suits Delta's
    ``txnVersion``, or a column by which rows are replaced. It is less than 2**63.

    Parameters
    ----------
    batch_id
        The batch id that Spark has given the function.

    Returns
    -------
    int
        The batch id itself in a program that is not a job of flinkish, and in a job until a
        restore starts a new line of its history.

    Raises
    ------
    UsageError
        In a job, the query of the call is unknown, because the call is outside of a
        ``foreachBatch`` function, in a thread that the function has started, or under
        ``PYSPARK_PIN_THREAD=false``.
    """
    return batch_id if _shift is None else batch_id + _shift()


def set_shift(find: Callable[[], int] | None) -> None:
    """Set the function that returns the shift; None if this process runs no job."""
    global _shift
    _shift = find
