"""Where a query writes: the format and location of its sink, and its table, opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from flinkish.connectors.registry import short_format, sink_connector
from flinkish.connectors.table_commits import version_at
from flinkish.driver.connectors import delta, iceberg
from flinkish.driver.connectors.table import SinkPlace, Table, table_errors
from flinkish.errors import FlinkishError, TableError

#: The functions that open the tables of sinks, by their format.
_OPEN: Mapping[str, Callable[[SinkPlace, Any], Table | None]] = {
    "delta": delta.open_sink,
    "iceberg": iceberg.open_sink,
}


def with_format(place: SinkPlace, session: Any) -> SinkPlace:
    """Return a place with the short name of its format, by default that of the session's format."""
    name = place.format
    if not name and session is not None:
        name = str(session.conf.get("spark.sql.sources.default", "parquet"))
    return replace(place, format=short_format(name) if name else None)


def resolve(place: SinkPlace, session: Any) -> SinkPlace:
    """Return a place with the table's format and location from its catalog.

    A place without a table gets its format from :func:`with_format`.

    Raises TableError if the catalog cannot be read, or has no table of the name that the program
    passes to ``start`` (``toTable`` may create its table).
    """
    place = with_format(place, session)
    in_catalogs = sink_connector(place.format).in_catalogs
    named = in_catalogs and place.path is not None and not iceberg.is_path(place.path)
    if named and place.table is None:  # format("iceberg").start("catalog.database.table")
        place = replace(place, path=None, table=place.path)
    if place.table is None:
        return place
    by_path = delta.named_by_path(place)
    if by_path is not None:
        return by_path
    described = _describe(session, place.table)
    if named and not described:
        raise TableError(f"the session's catalogs have no table {place.table}")
    provider, location = described.get("Provider"), described.get("Location")
    return replace(place, format=provider or place.format, path=location or place.path)


def _describe(session: Any, table: str) -> Mapping[str, str]:
    """Return what a catalog records about a table; empty if there is none."""
    with table_errors(table, "the table's catalog"):
        if not session.catalog.tableExists(table):
            return {}
        rows = session.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    return {str(row[0]): str(row[1]) for row in rows}


def open_table(place: SinkPlace, session: Any) -> Table | None:
    """Return the table of a sink; None if its format keeps no versions or its place is unknown."""
    opener = _OPEN.get(sink_connector(place.format).name)
    return None if opener is None else opener(place, session)


def facts_at(
    place: SinkPlace, session: Any, query_id: str, batch_id: int
) -> tuple[dict[str, Any], str]:
    """Return what a savepoint records about a sink's table, and why its version is missing.

    ``place`` is as the program gives it; ``batch_id`` is the savepoint's batch. In the result,
    ``path`` and ``provider`` are the location and format of a named table, ``table_version`` is its
    newest version that has nothing of a later batch, and ``table_id`` is its id. The text is empty
    if the version is known or the sink has none.
    """
    described: dict[str, Any] = {}
    try:
        place = resolve(place, session)
        if place.path is not None and place.table is not None:
            described.update(path=place.path, provider=place.format)
        table = open_table(place, session)
        if table is None or not table.exists():
            return described, ""
        reading = table.read(query_id)
        version = reading.version
        if reading.newest_batch is not None and reading.newest_batch > batch_id:
            version = version_at(table.history(), query_id, batch_id)
            if version is None:
                return described, f"its history no longer reaches back to batch {batch_id}"
    except FlinkishError as error:  # no reason to fail the savepoint
        return described, error.message
    if version is not None:
        described.update(table_id=reading.table_id, table_version=version)
    return described, ""
