"""Tables that queries read, and what they still have for a saved position."""

from __future__ import annotations

from typing import Any

from flinkish.connectors.base import SourceAnswer
from flinkish.connectors.delta import parse_delta_position
from flinkish.connectors.iceberg import parse_iceberg_position
from flinkish.connectors.sources import NewSource, SavedSource
from flinkish.driver.connectors.delta import DeltaTable
from flinkish.driver.connectors.iceberg import IcebergTable
from flinkish.errors import TableError


def ask_table(session: Any, source: NewSource, saved: SavedSource) -> SourceAnswer | None:
    """Return what the table of a source still has for its position.

    The form of the position shows the format of the table; table names do not. Returns None for a
    source that does not read a table, or one that cannot be asked. Raises TableError if the table
    cannot be read.
    """
    delta = parse_delta_position(saved.offset)
    if delta is not None:
        path = source.options.get("path")
        return None if path is None else DeltaTable(session, path).answer(delta, source.options)
    iceberg = parse_iceberg_position(saved.offset)
    if iceberg is not None:
        place = table_of(source.signature)
        if place is None:
            raise TableError("the name of its table is not known")
        return IcebergTable(session, place).answer(iceberg, source.options)
    return None


def table_of(signature: str) -> str | None:
    """Return the table of ``table[catalog.db.t]`` or ``iceberg[/path]``; None without one. Pure."""
    kind, bracket, rest = signature.partition("[")
    if kind not in ("table", "iceberg") or not bracket:
        return None
    return rest.removesuffix("]").partition(", ")[0] or None
