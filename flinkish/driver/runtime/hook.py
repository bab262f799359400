"""The wrappers around PySpark's classic streaming classes.

They only record the program's calls and leave the decisions to the :class:`Runtime`:

* ``DataStreamWriter``: the builder calls are recorded; ``start`` and ``toTable`` go through the
  runtime (name, checkpoint location, restore).
* ``StreamingQuery.awaitTermination`` and ``isActive``, ``StreamingQueryManager.active`` and
  ``awaitAnyTermination``, ``SparkContext.stop``: while a request that has quiesced queries has no
  result, they wait, or say that the queries run. ``stop`` ends the queries before Spark.
* ``processAllAvailable``, ``lastProgress``, ``recentProgress``: the runtime learns of the call.
* ``SparkSession.Builder``: its methods refuse a Spark Connect server outside this process.
* With a Connect server in this process: the client's classes of the same names, and
  ``SparkConnectClient.execute_command_as_iterator``, which requests the run of a pipeline.

Installed once per process and removable, so that tests can run many jobs in one Spark session.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from flinkish.driver.connect.server import (
    base_session,
    connect_refusal,
    is_client_session,
    refused_server,
)
from flinkish.driver.connect.writers import is_served, start_through
from flinkish.driver.plan.writer_settings import WriterFacts, facts_of
from flinkish.driver.restore import history
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.pipeline_run import run_asked_for
from flinkish.errors import UnsupportedSession


class Hook:
    """Installs the wrappers for one runtime; :meth:`remove` restores the original PySpark."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._originals: list[tuple[type, str, Any]] = []

    def install(self) -> None:
        """Wrap PySpark's classes (imports pyspark)."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
        from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        history.install()
        self._wrap_writer(DataStreamWriter)
        self._wrap_query(StreamingQuery)
        self._replace(StreamingQueryManager, "awaitAnyTermination", self._await_any)
        self._replace(StreamingQueryManager, "active", self._active)
        self._replace(SparkContext, "stop", self._spark_stop)  # SparkSession.stop calls it
        self._replace(SparkSession.Builder, "remote", self._remote)
        self._replace(SparkSession.Builder, "config", self._config)
        self._replace(SparkSession.Builder, "getOrCreate", self._session)
        self._replace(SparkSession.Builder, "create", self._session)
        if base_session() is not None and "pyspark.sql.connect.session" in sys.modules:
            self._wrap_client()

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
                def call(writer: Any, /, *args: Any, **kwargs: Any) -> Any:
                    result = original(writer, *args, **kwargs)
                    note(facts_of(writer), *args, **kwargs)
                    facts_of(writer).note(name, args, kwargs)
                    return result

                return call

            self._replace(cls, name, make)

        record("queryName", lambda facts, queryName: setattr(facts, "query_name", queryName))
        record("format", _note_format)
        record("outputMode", _note_mode)
        record("option", _note_option)
        record("options", _note_options)
        record("trigger", _note_trigger)
        for lasting in {"partitionBy", "clusterBy"} & vars(cls).keys():  # clusterBy is of Spark 4
            record(lasting, lambda facts, *a, **k: None)
        record("foreach", lambda facts, *a, **k: _note_format(facts, "foreach"))
        record("foreachBatch", lambda facts, *a, **k: _note_format(facts, "foreachBatch"))
        self._replace(cls, "start", self._start)
        self._replace(cls, "toTable", self._to_table)

    def _start(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def start(
            writer: Any,
            /,
            path: str | None = None,
            format: str | None = None,  # PySpark's own parameter name
            outputMode: str | None = None,
            partitionBy: Any = None,
            queryName: str | None = None,
            **options: Any,
        ) -> Any:
            _apply(writer, format, outputMode, partitionBy, queryName, options)
            facts_of(writer).path, facts_of(writer).table = path, None
            return runtime.start_query(writer, facts_of(writer), lambda: original(writer, path))

        return start

    def _to_table(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def to_table(
            writer: Any,
            /,
            tableName: str,
            format: str | None = None,  # PySpark's own parameter name
            outputMode: str | None = None,
            partitionBy: Any = None,
            queryName: str | None = None,
            **options: Any,
        ) -> Any:
            _apply(writer, format, outputMode, partitionBy, queryName, options)
            facts = facts_of(writer)
            facts.path, facts.table = None, tableName
            return runtime.start_query(writer, facts, lambda: original(writer, tableName))

        return to_table

    # --- StreamingQuery and its manager -----------------------------------------------------

    def _wrap_query(self, cls: type, has_jvm: Callable[[Any], bool] = lambda query: True) -> None:
        """Wrap a class of queries; those that fail ``has_jvm`` wait and answer as in PySpark."""
        runtime = self._runtime

        def make_await(original: Any) -> Any:
            @functools.wraps(original)
            def await_termination(query: Any, timeout: int | None = None) -> Any:
                if not has_jvm(query):
                    return original(query, timeout)
                return runtime.await_query(query, lambda left: original(query, left), timeout)

            return await_termination

        def make_active(original: property) -> property:
            def is_active(query: Any) -> bool:
                appears = has_jvm(query) and runtime.appears_active(query)
                return appears or bool(original.__get__(query, type(query)))

            return property(is_active, doc=original.__doc__)

        def make_settled(original: Any) -> Any:
            """Wrap a method or property that a program may poll."""
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
            return runtime.await_any(lambda left: original(manager, left), timeout)

        return await_any_termination

    def _active(self, original: property) -> property:
        runtime = self._runtime

        def active(manager: Any) -> Any:
            runtime.wait_for_requests()
            return original.__get__(manager, type(manager))

        return property(active, doc=original.__doc__)

    # --- SparkSession -----------------------------------------------------------------------

    def _spark_stop(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def stop(spark: Any) -> None:
            runtime.before_session_stop()
            original(spark)

        return stop

    def _remote(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def remote(builder: Any, url: str) -> Any:
            _refuse(connect_refusal({"spark.remote": url}, {}), runtime)
            return original(builder, url)

        return remote

    def _config(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def config(builder: Any, key: str | None = None, *args: Any, **more: Any) -> Any:
            value = args[0] if args else more.get("value")
            _refuse(connect_refusal({**(more.get("map") or {}), str(key): value}, {}), runtime)
            return original(builder, key, *args, **more)

        return config

    def _session(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def get_or_create(builder: Any) -> Any:
            _refuse(connect_refusal(builder._options, os.environ), runtime)
            session = classic = original(builder)
            if is_client_session(session):
                classic = base_session()
                if classic is None:  # the server is in another process (spark.local.connect.reuse)
                    _refuse(refused_server(), runtime)
                self._wrap_client()
            runtime.session_created(classic)
            return session

        return get_or_create

    # --- Spark Connect with a server in this process ----------------------------------------

    def _wrap_client(self) -> None:
        """Wrap the classes of Spark Connect, once."""
        from pyspark.sql.connect.client import SparkConnectClient
        from pyspark.sql.connect.session import SparkSession
        from pyspark.sql.connect.streaming.query import StreamingQuery, StreamingQueryManager
        from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

        if any(cls is SparkConnectClient for cls, _, _ in self._originals):
            return
        self._replace(SparkConnectClient, "execute_command_as_iterator", self._commands)
        self._replace(SparkSession, "stop", self._spark_stop)
        self._replace(DataStreamWriter, "_start_internal", self._client_start)
        self._wrap_query(StreamingQuery, is_served)
        self._replace(StreamingQueryManager, "awaitAnyTermination", self._await_any)
        self._replace(StreamingQueryManager, "active", self._active)

    def _client_start(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def start(writer: Any, **asked: Any) -> Any:
            return start_through(writer, asked, runtime.start_query, original)

        return start

    def _commands(self, original: Any) -> Any:
        runtime = self._runtime

        @functools.wraps(original)
        def execute(client: Any, command: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
            def begin() -> Iterator[Any]:
                events: Iterator[Any] = original(client, command, *args, **kwargs)
                return events

            run = run_asked_for(client, command)
            return begin() if run is None else runtime.run_pipeline(run, begin)

        return execute


def _refuse(error: UnsupportedSession | None, runtime: Runtime) -> None:
    """Fail the job with ``error``, if any, and raise it; the job fails even if it is handled."""
    if error is not None:
        runtime.fail(error)
        raise error


def _apply(
    writer: Any,
    format_name: str | None,
    output_mode: str | None,
    partition_by: Any,
    query_name: str | None,
    options: dict[str, Any],
) -> None:
    """Apply the arguments of ``start`` or ``toTable`` through the (recorded) builder calls."""
    writer.options(**options)
    if output_mode is not None:
        writer.outputMode(output_mode)
    if partition_by is not None:
        writer.partitionBy(partition_by)
    if format_name is not None:
        writer.format(format_name)
    if query_name is not None:
        writer.queryName(query_name)


def _note_format(facts: WriterFacts, source: str) -> None:
    facts.format = source


def _note_mode(facts: WriterFacts, outputMode: str) -> None:
    facts.output_mode = outputMode


def _note_option(facts: WriterFacts, key: str, value: Any) -> None:
    if value is not None:
        facts.options[key.lower()] = str(value)


def _note_options(facts: WriterFacts, /, **options: Any) -> None:
    for key, value in options.items():
        _note_option(facts, key, value)


def _note_trigger(facts: WriterFacts, *args: Any, **kwargs: Any) -> None:
    facts.trigger = {k: v for k, v in kwargs.items() if v is not None}
