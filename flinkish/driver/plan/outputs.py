"""The place that a query writes to, under one name for all jobs that write there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish import storage
from flinkish.connectors.registry import sink_connector
from flinkish.driver.connectors.table import table_errors
from flinkish.errors import TableError
from flinkish.restore.origin.restore_inputs import NewSink

#: The formats that Spark writes with its file sink.
_FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
_OWN_CATALOG = "spark_catalog"


@dataclass(frozen=True)
class Output:
    """Where a query writes.

    ``place`` is a location without links, or the name of a table, to which several queries may
    write.
    """

    place: str
    is_table: bool


def output_of(sink: NewSink, session: Any) -> Output | None:
    """Return where a query writes; None for a sink whose output is unknown."""
    kind = (sink.format or "").lower()
    connector = sink_connector(kind)
    if connector.keeps_versions:
        location = sink.table if connector.in_catalogs and sink.table else sink.path or sink.table
        return None if location is None else Output(storage.one_name(location), True)
    if kind and kind not in _FILE_FORMATS:
        return None
    path = sink.path
    if path is None and sink.table is not None and session is not None:
        path = _place_to_be(sink.table, session)
    return None if path is None else Output(storage.one_name(path), False)


def _place_to_be(table: str, session: Any) -> str | None:
    """Return where Spark puts the files of a table that it makes; None if a catalog decides that.

    So ``SessionCatalog.defaultTablePath`` does (3.5 to 4.3).
    """
    *outer, name = table.replace("`", "").lower().split(".")
    catalog = session.catalog
    first = outer.pop(0) if len(outer) > 1 else str(catalog.currentCatalog())
    if first != _OWN_CATALOG or len(outer) > 1:
        return None
    try:
        with table_errors(table, "its catalog"):
            database = catalog.getDatabase(outer[0] if outer else catalog.currentDatabase())
    except TableError:
        return None  # of another catalog, or the program is about to be told
    return f"{str(database.locationUri).rstrip('/')}/{name}"
