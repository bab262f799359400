"""The settings of a ``DataStreamWriter``: its output, and why its query cannot be savepointed."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import Any

from flinkish import storage
from flinkish.config import parse_duration
from flinkish.connectors.registry import sink_connector
from flinkish.driver.connectors.sinks import with_format
from flinkish.driver.connectors.table import SinkPlace, table_errors
from flinkish.errors import InvalidConfiguration, NotSavepointable, TableError
from flinkish.restore.origin.restore_inputs import NewSink

#: A method of a writer, and the arguments of a call.
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


@dataclass
class WriterFacts:
    """Recorded calls on one ``DataStreamWriter`` (mutable: the writer is a builder).

    ``options`` has lower-case keys, as Spark's own map is case-insensitive. ``calls`` has the last
    call of each method that sets neither options nor the name; ``format``, ``foreach`` and
    ``foreachBatch`` count as one method.
    """

    query_name: str | None = None
    format: str | None = None
    output_mode: str | None = None
    trigger: dict[str, Any] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    path: str | None = None
    table: str | None = None
    calls: dict[str, Call] = field(default_factory=dict, compare=False, repr=False)

    def note(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record a call on the writer, unless the method sets options or the query's name."""
        if method not in ("option", "options", "queryName"):
            kind = "format" if method in ("foreach", "foreachBatch") else method
            self.calls[kind] = method, args, kwargs

    @property
    def bounded(self) -> bool:
        """Whether the query ends on its own after it has read the available input."""
        return bool(self.trigger.get("once") or self.trigger.get("availableNow"))

    @property
    def trigger_interval(self) -> float | None:
        """The seconds from one look for input to the next; None if unknown."""
        if self.bounded or not self.trigger:
            return 0.0
        return interval_seconds(str(self.trigger.get("processingTime", "")))

    @property
    def async_progress(self) -> bool:
        """Whether the query tracks its progress asynchronously."""
        return self.options.get("asyncprogresstrackingenabled", "false").lower() == "true"

    def writes_like(self, other: WriterFacts) -> bool:
        """Return whether both writers write to the same place in the same way."""
        mine, others = (
            (each.format, each.path, each.table, each.options) for each in (self, other)
        )
        return mine == others

    def copy(self) -> WriterFacts:
        """Return a copy of the facts; the writer may be used for another query later."""
        trigger, options, calls = dict(self.trigger), dict(self.options), dict(self.calls)
        return replace(self, trigger=trigger, options=options, calls=calls)

    @property
    def place(self) -> SinkPlace:
        """Where the query writes, as the program specifies it."""
        return SinkPlace(self.format, self.path or self.options.get("path"), self.table)

    def describe_sink(self, session: Any) -> dict[str, Any]:
        """Return the sink as plain data for a savepoint's metadata.

        Leaves out the options, whose values may be secret, and the format of a table if the program
        leaves the format to the catalog.
        """
        by_catalog = self.table is not None and self.format is None
        facts = {
            "format": None if by_catalog else with_format(self.place, session).format,
            "output_mode": self.output_mode,
            "path": self.place.path,
            "table": self.table,
            "trigger": {k: str(v) for k, v in self.trigger.items()},
            "async_progress": self.async_progress,
        }
        return {key: value for key, value in facts.items() if value}


def own_location(facts: WriterFacts, session: Any) -> str | None:
    """Return the checkpoint location that the program sets for a query, as written, or None."""
    own = facts.options.get("checkpointlocation")
    if own is None and facts.query_name is not None:
        configured = session.conf.get("spark.sql.streaming.checkpointLocation", None)
        own = f"{configured.rstrip('/')}/{facts.query_name}" if configured else None
    return own


def interval_seconds(text: str) -> float | None:
    """Return the seconds of a trigger's interval, such as ``1 minute 30 seconds``; None if unknown.

    An interval is known if Spark and flinkish parse it alike: numbers with units up to days.
    """
    words = text.lower().removeprefix("interval ").split()
    if not words or len(words) % 2:
        return None
    try:
        return sum(
            parse_duration(f"{number} {unit}")
            for number, unit in zip(words[::2], words[1::2], strict=True)
        )
    except InvalidConfiguration:
        return None


_ATTRIBUTE = "_flinkish_facts"


def facts_of(writer: Any) -> WriterFacts:
    """Return the facts recorded on ``writer``; create them on first use."""
    facts: WriterFacts | None = writer.__dict__.get(_ATTRIBUTE)
    if facts is None:
        facts = writer.__dict__[_ATTRIBUTE] = WriterFacts()
    return facts


def why_not_savepointable(facts: WriterFacts) -> NotSavepointable | None:
    """Return why a query with these settings of its writer has no consistent cut, or None.

    Continuous processing and real-time mode do not commit a batch's state with its offsets as
    micro-batches do. Asynchronous progress tracking leaves batches out of the logs. The memory sink
    cannot be restarted from a checkpoint except in complete mode (Spark:
    ``DataStreamWriter.startInternal``, "recoverFromCheckpointLocation").
    """
    if "continuous" in facts.trigger:
        return NotSavepointable(
            "the query uses a continuous trigger, which commits no batches",
            hint="use a processingTime or availableNow trigger",
        )
    if "realTime" in facts.trigger:
        return NotSavepointable(
            "the query runs in real-time mode, whose offsets and state are not cut together",
            hint="use a processingTime or availableNow trigger",
        )
    if facts.async_progress:
        return NotSavepointable(
            "the query uses asyncProgressTrackingEnabled, which leaves batches out of its logs",
            hint="switch asyncProgressTrackingEnabled off",
        )
    if facts.format == "memory" and (facts.output_mode or "append").lower() != "complete":
        return NotSavepointable(
            "the query writes to the memory sink, which Spark restarts from a checkpoint only in "
            "complete mode",
            hint="use another sink, or cancel without a savepoint",
        )
    return None


#: The formats that Spark writes with its file sink.
_FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
_OWN_CATALOG = "spark_catalog"


@dataclass(frozen=True)
class Output:
    """Where a query writes.

    ``place`` is a location without links, or the name of a table, in one spelling, for comparisons;
    ``location`` is the same place in the spelling with which storage or a catalog can be asked.
    Several queries may write to one table (``is_table``).
    """

    place: str
    is_table: bool
    location: str = field(compare=False)


def output_of(sink: NewSink, session: Any) -> Output | None:
    """Return where a query writes; None unless to a table with versions or a known directory."""
    kind = (sink.format or "").lower()
    connector = sink_connector(kind)
    if kind and kind not in _FILE_FORMATS and not connector.keeps_versions:
        return None
    by_name = connector.in_catalogs and sink.table is not None
    path = None if by_name else sink.path
    if path is None and sink.table is not None and session is not None and not by_name:
        path = _place_to_be(sink.table, session)
    if path is not None:
        return Output(storage.one_name(path), connector.keeps_versions, path)
    if sink.table is None or not connector.keeps_versions:
        return None
    return Output(_full_name(sink.table, session), True, sink.table)


def _full_name(table: str, session: Any) -> str:
    """Return a table's name in one spelling, with its catalog and namespace if there is a session.

    As in Spark, the first of several parts is a catalog if the session has one of that name.
    """
    head, *rest = parts = table.replace("`", "").split(".")
    if session is not None:
        configured = head == _OWN_CATALOG or session.conf.get(f"spark.sql.catalog.{head}", None)
        catalog = session.catalog
        if not rest:
            parts = [str(catalog.currentDatabase()).replace("`", ""), head]
        if not (rest and configured):
            parts = [str(catalog.currentCatalog()), *parts]
    return ".".join(filter(None, parts)).lower()


def _place_to_be(table: str, session: Any) -> str | None:
    """Return where Spark puts the files of a table that it creates; None for another catalog."""
    # As ``SessionCatalog.defaultTablePath`` does (3.5 to 4.3).
    *outer, name = table.replace("`", "").lower().split(".")
    catalog = session.catalog
    first = outer.pop(0) if len(outer) > 1 else str(catalog.currentCatalog())
    if first != _OWN_CATALOG or len(outer) > 1:
        return None
    try:
        with table_errors(table, "the table's catalog"):
            database = catalog.getDatabase(outer[0] if outer else catalog.currentDatabase())
    except TableError:
        return None  # of another catalog, or Spark will report the error
    return f"{str(database.locationUri).rstrip('/')}/{name}"


#: A URL of Hadoop, with or without a host: ``dbfs:/a``, ``hdfs:///a``, ``hdfs://host:8020/a``.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?=/)(?://(?P<host>[^/]*))?(?P<path>.*)")


def qualified(path: str | None, session: Any) -> str | None:
    """Return a path as a URL of the file system that Spark would use, or as a local absolute path.

    A URL without a host, such as ``hdfs:///out``, gets the host of the default file system
    (Hadoop's ``Path.makeQualified``). It stays as it is if that system has another scheme. A
    relative path starts at the default file system's working directory, such as ``/user/NAME``.
    """
    if path is None or path.startswith("file:"):
        return path
    url = _URL.fullmatch(path)
    if url is not None and url["host"]:
        return path
    hadoop = session._jsc.hadoopConfiguration()
    default = str(hadoop.get("fs.defaultFS") or "").rstrip("/")
    if url is not None:
        same_scheme = default.lower().startswith(f"{url['scheme'].lower()}://")
        return f"{default}/{url['path'].lstrip('/')}" if same_scheme else path
    if default.startswith("file:") or not default:
        return os.path.abspath(path)
    if path.startswith("/"):
        return f"{default}/{path.lstrip('/')}"
    if not path or ":" in path.partition("/")[0]:
        return path  # Hadoop refuses it as a path, with an error
    relative = session._jvm.org.apache.hadoop.fs.Path(path)
    return str(relative.getFileSystem(hadoop).makeQualified(relative).toString())
