"""The history batches of the queries in this driver (:mod:`flinkish.restore.plan.history`).

Spark runs a ``foreachBatch`` function in the thread of its query, whose local properties have the
query's id (``StreamExecution.QUERY_ID_KEY``). Python sees them as long as its threads are pinned to
those of the JVM, which is PySpark's default (3.5 to 4.3; ``tests/driver/restore/test_history.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkish import history
from flinkish.errors import UsageError
from flinkish.restore.plan.history import KEY

_QUERY_ID = "sql.streaming.queryId"
#: The shift of each query that has one, by query id. Ids are never given twice.
_shifts: dict[str, int] = {}


def install() -> None:
    """Let ``flinkish.history_batch`` find the shifts of this driver's queries."""
    history.set_shift(_find)


def uninstall() -> None:
    """Undo :func:`install`."""
    history.set_shift(None)


def remember(query_id: str, shift: int) -> None:
    """Keep a query's shift; called before the query starts."""
    if shift:
        _shifts[query_id] = shift


def described(sink: Mapping[str, Any], query_id: str) -> dict[str, Any]:
    """Return a sink's description with the shift of its query."""
    shift = _shifts.get(query_id, 0)
    return {**sink, KEY: shift} if shift else dict(sink)


def _find() -> int:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
    if query_id is None:
        raise UsageError(
            "flinkish.history_batch cannot tell which query it is called for",
            hint="call it in a foreachBatch function itself, not in a thread that the function "
            "starts, and without PYSPARK_PIN_THREAD=false",
        )
    return _shifts.get(query_id, 0)
