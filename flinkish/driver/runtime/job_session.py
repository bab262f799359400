"""The Spark session of a job's program, and the end of the queries that run in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flinkish.driver.connect.server import stop_session
from flinkish.driver.log import log
from flinkish.driver.runtime.quiesce import quiesce, stop_hard
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import GivenUp, RegistryError
from flinkish.registry.job_registry import Registry

_END_GRACE = 10.0  # seconds that a batch gets when the program has ended before its query


class JobSession:
    """The newest session of one job; ``is_stopped`` once the program or the job has stopped it.

    ``queries`` returns the newest run of each query.
    """

    def __init__(
        self, registry: Registry, job_id: str, queries: Callable[[], Sequence[ManagedQuery]]
    ) -> None:
        self._registry = registry
        self._job_id = job_id
        self._queries = queries
        self._session: Any = None
        self._is_recorded = False
        self._failed_before_stop: tuple[str, str] | None = None
        self.is_stopped = False
        self.ended_before_queries = False  # the program or the job ended while queries ran

    def created(self, session: Any) -> None:
        """Record the session and, the first time, its Spark version and application id."""
        self._session, self.is_stopped, self.ended_before_queries = session, False, False
        if self._is_recorded:
            return
        version, application_id = session.version, session.sparkContext.applicationId
        try:
            self._registry.update_job(
                self._job_id, spark_version=version, application_id=application_id
            )
            self._is_recorded = True
        except RegistryError as error:  # the next call tries again
            log(f"registry: {error.message}")

    def jvm_is_gone(self) -> bool:
        """Return whether the session's JVM no longer answers."""
        if self._session is None or self.is_stopped:
            return False
        from py4j.protocol import Py4JError

        try:
            self._session._jvm.java.lang.System.nanoTime()
        except (Py4JError, OSError):
            return True
        return False

    def failed_query(self) -> tuple[str, str] | None:
        """Return the name and error of a query whose newest run failed, or None."""
        if self.is_stopped:
            return self._failed_before_stop
        return _first_failed(self._queries())

    def end_queries(self, why: str | None = None) -> tuple[str, str] | None:
        """End the queries that still run, at a batch boundary if one comes in time.

        Returns the name and error of one that failed in its last batch, or None.

        ``why`` is for the log: None means that the program ended, or stops Spark, while they ran.
        """
        running = [q for q in self._queries() if not spark_jvm.has_ended(q.jsq)]
        if not running:
            return None
        self.ended_before_queries = True
        names = ", ".join(f"'{q.name}'" for q in running)
        ended = f"the program ended, or stops Spark, while {names} ran: ending them (did it miss "
        ended += "awaitTermination?)"
        log(ended if why is None else f"{why}: ending {names}")
        try:
            quiesce(running[0].gateway_jvm, [q.jsq for q in running], _END_GRACE)
        except GivenUp:
            failed = _first_failed(running)  # later errors may be those of the interrupt
            stop_hard([q.jsq for q in running])
            return failed
        return _first_failed(running)

    def before_stop(self) -> None:
        """Note that the program stops Spark, which then forgets its queries."""
        self._failed_before_stop = self.failed_query()
        self.is_stopped = True

    def stop(self) -> None:
        """Stop Spark, so that nothing of the job still runs when its end is recorded."""
        if self._session is not None and not self.is_stopped:
            self.is_stopped = True
            stop_session(self._session)


def _first_failed(queries: Sequence[ManagedQuery]) -> tuple[str, str] | None:
    """Return the name and error of a query that failed, or None."""
    for query in queries:
        error = spark_jvm.error_of(query.jsq)
        if error is not None:
            return query.name, error
    return None
