"""Drain the queries of a job that is being stopped: emit results that wait for the watermark.

Like ``flink stop --drain`` (MAX_WATERMARK): after its last batch each query runs one more, over the
same offsets, with the watermark at its maximum. Input that has arrived since is not read. A drained
query treats all later rows as late, so its savepoint is for the record only; a restore warns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from flinkish import storage
from flinkish.checkpoint.cut import newest_committed_batch, newest_entries
from flinkish.checkpoint.format.logs import drained_entry
from flinkish.checkpoint.format.names import OFFSETS
from flinkish.driver.log import log
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.quiesce import stop_hard
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import FlinkishError, GivenUp, ProgramFailed, WrongState

_POLL = 0.1


def check_drainable(queries: Sequence[ManagedQuery]) -> None:
    """Refuse to drain if a query has a batch that was planned and not committed.

    Spark would run such a batch first, with its own watermark. Raises WrongState.
    """
    for query in queries:
        committed = newest_committed_batch(query.checkpoint)
        planned = (
            None
            if committed is None
            else storage.join(query.checkpoint, OFFSETS, str(committed + 1))
        )
        if planned is not None and storage.exists(planned):
            raise WrongState(
                f"query '{query.name}' has started batch {(committed or 0) + 1} but not committed "
                "it, so it cannot be drained now",
                hint="let it run until its batches are finished, or stop without --drain",
            )


def drain(
    runtime: Runtime,
    queries: Sequence[ManagedQuery],
    deadline: float,
    interrupted: Callable[[], None],
) -> list[str]:
    """Run the last batch of each quiesced query that has a watermark; return their names.

    All queries have ended at a batch boundary, with a committed batch. ``deadline`` is a
    ``time.monotonic`` value. ``interrupted`` is called during the wait and raises to end it.

    Raises FlinkishError if a batch failed, or took too long, and the error of ``interrupted``. Some
    queries may be drained by then, so no query may be resumed.
    """
    drained = []
    for query in queries:
        entries = newest_entries(query.checkpoint)
        assert entries is not None, query.name
        offsets, commit = entries
        if not (offsets.watermark_ms or commit.next_watermark_ms):
            log(f"query '{query.name}' has no watermark yet: there is nothing to drain")
            continue
        batch = newest_committed_batch(query.checkpoint)
        assert batch is not None, query.name
        _write_entry(query, batch)
        _run_once(runtime, query, batch + 1, deadline, interrupted)
        drained.append(query.name)
        log(f"query '{query.name}' is drained: its watermark is at the maximum")
    return drained


def _write_entry(query: ManagedQuery, batch: int) -> None:
    """Write the entry of the batch after ``batch``, the newest committed one."""
    name = f"{OFFSETS}/{batch}"
    data = storage.read_bytes(storage.join(query.checkpoint, name))
    following = storage.join(query.checkpoint, OFFSETS, str(batch + 1))
    storage.write_bytes(following, drained_entry(data, name))


def _run_once(
    runtime: Runtime,
    query: ManagedQuery,
    batch: int,
    deadline: float,
    interrupted: Callable[[], None],
) -> None:
    """Start the query for exactly this planned batch, and wait for its end."""
    runtime.run_once(query)
    while not spark_jvm.has_ended(query.jsq):
        if time.monotonic() > deadline:
            stop_hard([query.jsq])
            raise GivenUp(f"the last batch of query '{query.name}' took too long")
        interrupted()  # after the look at the deadline: the batch may end during this call
        time.sleep(_POLL)
    error = spark_jvm.error_of(query.jsq)
    if error is not None:
        raise ProgramFailed(f"the last batch of query '{query.name}' failed: {error[:400]}")
    after = newest_committed_batch(query.checkpoint)
    if after != batch:
        raise FlinkishError(
            f"query '{query.name}' was started to run batch {batch}, but its newest committed "
            f"batch is {after}"
        )
