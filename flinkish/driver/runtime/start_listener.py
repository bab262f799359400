"""The moment a query starts, before it plans a batch.

Spark calls ``StreamingQueryListener.onQueryStarted`` on the query's own thread. Neither that thread
nor ``start`` continues before the call returns (``StreamExecution.runStream``,
``StreamingQueryManager.startQuery``: no lock is held meanwhile; 3.5 to 4.3). A long call can let
``start`` return earlier (:func:`~flinkish.driver.spark.jvm.let_start_return`). If several blocks
wait for one query, their calls come in the order in which the blocks were entered, each after the
previous call has returned.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def at_start(session: Any, name: str, call: Callable[[Any], None]) -> Iterator[None]:
    """Call ``call`` with the JVM's query ``name`` of ``session`` when it starts inside the block.

    The query waits until the call returns.
    """

    def named(jsq: Any, started: str | None) -> None:
        if started == name:
            call(jsq)

    with at_each_start(session, named):
        yield


@contextmanager
def at_each_start(session: Any, call: Callable[[Any, str | None], None]) -> Iterator[None]:
    """Call ``call`` with the JVM's query and its name at each start in ``session`` in the block.

    The query waits until the call returns. An exception of the call is only logged.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import ensure_callback_server_started

    manager = session._jsparkSession.streams()
    serve: Any = ensure_callback_server_started  # untyped
    serve(SparkContext._gateway)
    streaming = session._jvm.org.apache.spark.sql.streaming
    listener = streaming.PythonStreamingQueryListenerWrapper(_Starts(manager, call))
    manager.addListener(listener)
    try:
        yield
    finally:
        manager.removeListener(listener)


class _Starts:
    """Takes the JVM's own events, as PySpark 4.3 cannot read the start of a query with job tags."""

    def __init__(self, manager: Any, call: Callable[[Any, str | None], None]) -> None:
        self._manager = manager
        self._call = call

    def onQueryStarted(self, event: Any) -> None:
        try:
            self._call(self._manager.get(event.id()), event.name())
        except Exception:  # noqa: BLE001 - logged; Spark would only log it elsewhere
            traceback.print_exc()

    def onQueryProgress(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
