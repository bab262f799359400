"""The wrappers around PySpark's classic streaming classes.

They only record the program's calls and leave the decisions to the :class:`Runtime`:

* ``DataStreamWriter``: the builder calls are recorded; ``start`` and ``toTable`` go through the
  runtime (name, checkpoint location, restore).
* ``StreamingQuery.awaitTermination`` and ``isActive``, ``SparkSession.stop`` and
  ``StreamingQueryManager.awaitAnyTermination``: they do not let the program continue while a
  request that has quiesced its queries still has no result.
* ``SparkSession.Builder.getOrCreate`` and ``create``: they refuse Spark Connect before it starts.

Installed once per process and removable, so that tests can run many jobs in one Spark session.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from flinkish.driver.plan.writer_settings import WriterFacts, facts_of
from flinkish.driver.restore import history
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.errors import UnsupportedSession


class Hook:
    """Installs the wrappers for one runtime; :meth:`remove` restores the original PySpark."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._originals: list[tuple[type, str, Any]] = []

    def install(self) -> None:
        """Wrap PySpark's classes (imports pyspark)."""
        from pyspark.sql import SparkSession
        from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        history.install()
        self._wrap_writer(DataStreamWriter)
        self._wrap_query(StreamingQuery)
        self._replace(StreamingQueryManager, "awaitAnyTermination", self._await_any)
        self._replace(StreamingQueryManager, "active", self._active)
        self._replace(SparkSession, "stop", self._session_stop)
        self._replace(SparkSession.Builder, "remote", self._remote)
        self._replace(SparkSession.Builder, "config", self._config)
        self._replace(SparkSession.Builder, "getOrCreate", self._session)
        self._replace(SparkSession.Builder, "create", self._session)

    def remove(self) -> None:
        """Undo :meth:`install`."""
        history.uninstall()
        while self._originals:
            cls, name, original = self._originals.pop()
            setattr(cls, name, original)

    def _replace(self, cls: type, name: str, make: Callable[[Any], Any]) -> None:
        original = cls.__dict__[name]
        self._originals.append((cls, name, original))
        setattr(cls, name, make(original))

    # --- DataStreamWriter -------------------------------------------------------------------

    def _wrap_writer(self, cls: type) -> None:
        def record(name: str, note: Callable[..., None]) -> None:
            def make(original: Any) -> Any:
                @functools.wraps(original)
                def call(writer: Any, *args: Any, **kwargs: Any) -> Any:
                    result = original(writer, *args, **kwargs)
                    note(facts_of(writer), *args, **kwargs)
                    return result

                return call

            self._replace(cls, name, make)

        record("queryName", _note_name)
        record("format", _note_format)
        record("outputMode", _note_mode)
        record("option", _note_option)
        record("options", _note_options)
        record("trigger", _note_trigger)
        record("foreach", lambda facts, *a, **k: _note_format(facts, "foreach"))
        record("foreachBatch", lambda facts, *a, **k: _note_format(facts, "foreachBatch"))
        self._replace(cls, "start", self._start)
        self._replace(cls, "toTable", self._to_table)

    def _start(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def start(
            writer: Any,
            path: str | None = None,
            format: str | None = None,  # PySpark's own parameter name
            outputMode: str | None = None,
            partitionBy: Any = None,
            queryName: str | None = None,
            **options: Any,
        ) -> Any:
            _apply(writer, format, outputMode, partitionBy, queryName, options)
            facts_of(writer).path = path
            return runtime.start_query(writer, facts_of(writer), lambda: original(writer, path))

        return start

    def _to_table(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def to_table(
            writer: Any,
            tableName: str,
            format: str | None = None,  # PySpark's own parameter name
            outputMode: str | None = None,
            partitionBy: Any = None,
            queryName: str | None = None,
            **options: Any,
        ) -> Any:
            _apply(writer, format, outputMode, partitionBy, queryName, options)
            facts_of(writer).table = tableName
            return runtime.start_query(
                writer, facts_of(writer), lambda: original(writer, tableName)
            )

        return to_table

    # --- StreamingQuery and its manager -----------------------------------------------------

    def _wrap_query(self, cls: type) -> None:
        runtime = self._runtime

        def make_await(original: Any) -> Any:
            @functools.wraps(original)
            def await_termination(query: Any, timeout: int | None = None) -> Any:
                return runtime.await_query(query, lambda left: original(query, left), timeout)

            return await_termination

        def make_active(original: property) -> property:
            def is_active(query: Any) -> bool:
                return runtime.appears_active(query) or bool(original.__get__(query, type(query)))

            return property(is_active, doc=original.__doc__)

        def make_settled(original: Any) -> Any:
            """Wrap a method that a program may poll."""
            if isinstance(original, property):

                def get(query: Any) -> Any:
                    runtime.program_asks()
                    return original.__get__(query, type(query))

                return property(get, doc=original.__doc__)

            @functools.wraps(original)
            def call(query: Any) -> Any:
                runtime.program_asks()
                return original(query)

            return call

        self._replace(cls, "awaitTermination", make_await)
        self._replace(cls, "isActive", make_active)
        for name in ("processAllAvailable", "lastProgress", "recentProgress"):
            self._replace(cls, name, make_settled)

    def _await_any(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def await_any_termination(manager: Any, timeout: int | None = None) -> Any:
            return runtime.await_any(manager, lambda left: original(manager, left), timeout)

        return await_any_termination

    def _active(self, original: property) -> property:
        runtime = self._runtime

        def active(manager: Any) -> Any:
            runtime.wait_for_requests()
            return original.__get__(manager, type(manager))

        return property(active, doc=original.__doc__)

    # --- SparkSession -----------------------------------------------------------------------

    def _session_stop(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def stop(session: Any) -> None:
            runtime.before_session_stop()
            original(session)

        return stop

    def _remote(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def remote(builder: Any, url: str) -> Any:
            refuse_connect({"spark.remote": url}, {}, runtime)
            return original(builder, url)

        return remote

    def _config(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def config(builder: Any, key: str | None = None, value: Any = None, **more: Any) -> Any:
            refuse_connect({**(more.get("map") or {}), str(key): value}, {}, runtime)
            return original(builder, key, value, **more)

        return config

    def _session(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def get_or_create(builder: Any) -> Any:
            refuse_connect(builder._options, os.environ, runtime)
            session = original(builder)
            runtime.session_created(session)
            return session

        return get_or_create


def refuse_connect(options: Any, environ: Any, runtime: Runtime) -> None:
    """Fail the job when the session to be built is a Spark Connect session.

    The queries of a client of ``sc://HOST`` run in that server, whose JVM nothing here can ask for
    a plan or a batch boundary. With a local server (``spark.api.mode=connect``) the JVM is in this
    process, but the program writes its queries with Connect's classes, which have no plan of the
    JVM's. The conditions are those of ``SparkSession.Builder.getOrCreate`` in PySpark 3.5 to 4.3.
    """
    mode = str(options.get("spark.api.mode") or environ.get("SPARK_API_MODE") or "").lower()
    remote = options.get("spark.remote") or environ.get("SPARK_REMOTE")
    if remote or mode == "connect" or "SPARK_CONNECT_MODE_ENABLED" in environ:
        error = connect_refusal(str(remote) if remote else None)
        runtime.fail(error)
        raise error


def connect_refusal(remote: str | None) -> UnsupportedSession:
    """Return why a Spark Connect session is refused, and what to do instead. Pure.

    ``remote`` is its server; None, or ``local[N]``, is one that the program starts itself.
    """
    if remote is None or remote.startswith("local"):
        return UnsupportedSession(
            "the program asks for a Spark Connect session with a local server: it describes its "
            "queries in Connect's protocol, and flinkish reads the plans of classic sessions",
            hint="drop spark.api.mode=connect (SPARK_API_MODE) and .remote('local'): the same "
            "program runs in a classic session of this process",
        )
    return UnsupportedSession(
        f"the program asks for a Spark Connect session ({remote}): its queries run in that server, "
        "and savepoints need their driver",
        hint="drop .remote(...) and SPARK_REMOTE, and name the cluster with: flinkish run -m "
        "MASTER; what the server has committed can be saved from its checkpoints: flinkish "
        "savepoint --from-checkpoint URL",
    )


def _apply(
    writer: Any,
    format_name: str | None,
    output_mode: str | None,
    partition_by: Any,
    query_name: str | None,
    options: dict[str, Any],
) -> None:
    """Apply the keyword arguments of ``start`` through the (recorded) builder calls."""
    writer.options(**options)
    if output_mode is not None:
        writer.outputMode(output_mode)
    if partition_by is not None:
        writer.partitionBy(partition_by)
    if format_name is not None:
        writer.format(format_name)
    if query_name is not None:
        writer.queryName(query_name)


def _note_name(facts: WriterFacts, queryName: str) -> None:
    facts.query_name = queryName


def _note_format(facts: WriterFacts, source: str) -> None:
    facts.format = source


def _note_mode(facts: WriterFacts, outputMode: str) -> None:
    facts.output_mode = outputMode


def _note_option(facts: WriterFacts, key: str, value: Any) -> None:
    if value is not None:
        facts.options[key.lower()] = str(value)


def _note_options(facts: WriterFacts, **options: Any) -> None:
    for key, value in options.items():
        _note_option(facts, key, value)


def _note_trigger(facts: WriterFacts, *args: Any, **kwargs: Any) -> None:
    facts.trigger = {k: v for k, v in kwargs.items() if v is not None}
