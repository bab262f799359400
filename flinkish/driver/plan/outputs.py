"""The place that a query writes to, under one name for all jobs that write there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from flinkish import storage
from flinkish.errors import StorageError
from flinkish.restore.source.restore_inputs import NewSink

#: The formats that Spark writes with its file sink; None is one of them by default.
_FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
_TABLE_FORMATS = frozenset({"delta", "iceberg"})

#: Where classes are from that a program may name in place of one of these formats.
_CLASSES = ("org.apache.spark.", "org.apache.iceberg.", "com.databricks.spark.", "io.delta.")
#: Formats by the packages of their classes.
_PACKAGES = {name: name for name in (*_FILE_FORMATS, *_TABLE_FORMATS)} | {"kafka010": "kafka"}


@dataclass(frozen=True)
class Output:
    """Where a query writes to.

    Attributes
    ----------
    place
        A location without links, or the name of a table.
    is_table
        Whether it is a table, to which several queries may write.
    """

    place: str
    is_table: bool


def output_of(sink: NewSink, session: Any) -> Output | None:
    """Return where a query writes to; None for a sink of which that is not known."""
    kind = (sink.format or "").lower()
    if not kind and session is not None:
        kind = str(session.conf.get("spark.sql.sources.default", "parquet")).lower()
    if kind in _TABLE_FORMATS:
        known = sink.table if kind == "iceberg" and sink.table else sink.path or sink.table
        return None if known is None else Output(one_name(known), True)
    if sink.path is None or (kind and kind not in _FILE_FORMATS):
        return None
    return Output(one_name(sink.path), False)


def short_format(format: str) -> str:
    """Return the short name of a format of Spark, Delta or Iceberg that is given by its class."""
    if not format.startswith(_CLASSES):
        return format
    return next((_PACKAGES[part] for part in format.split(".") if part in _PACKAGES), format)


def same_place(one: str, other: str) -> bool:
    """Return whether two locations are one, whichever links lead there."""
    return one_name(one) == one_name(other)


def one_name(location: str) -> str:
    """Return the one name of a location, whichever links lead there."""
    try:
        found = storage.locate(location)
    except StorageError:
        return location
    return os.path.realpath(found) if storage.is_local(found) else found.rstrip("/")
