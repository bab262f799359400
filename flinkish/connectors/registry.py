"""The formats that are known, by their names in Spark. Pure."""

from __future__ import annotations

from flinkish.connectors.base import Connector
from flinkish.connectors.delta import DELTA
from flinkish.connectors.files.connector import FILES
from flinkish.connectors.iceberg import ICEBERG
from flinkish.connectors.kafka.connector import KAFKA
from flinkish.connectors.sources import kind_of

#: flinkish does not read Hudi's tables, but knows that Hudi's sink has no log.
_HUDI = Connector("hudi", keeps_log=False)
CONNECTORS = {each.name: each for each in (DELTA, FILES, _HUDI, ICEBERG, KAFKA)}
#: Prefixes of the classes that a program may name in place of a format that flinkish knows.
_CLASSES = ("org.apache.spark.", "org.apache.iceberg.", "com.databricks.spark.", "io.delta.")
_FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
#: Formats by the packages of their classes.
_PACKAGES = {name: name for name in _FILES} | {
    package: each.name for each in CONNECTORS.values() for package in each.packages
}


def source_connector(signature: str | None, offset: str = "") -> Connector:
    """Return the connector of a source, by what it reads.

    For a table of a catalog, the signature has the name of the table and not the format. The form
    of the saved position then shows the format, if flinkish knows it.
    """
    kind = kind_of(signature)
    if kind in CONNECTORS:
        return CONNECTORS[kind]
    return next((each for each in CONNECTORS.values() if each.owns(offset)), Connector(kind))


def sink_connector(format: str | None) -> Connector:
    """Return the connector of a sink, by its format: a short name, or the name of a class."""
    name = short_format(format or "").lower()
    return CONNECTORS.get(name) or Connector(name)


def short_format(format: str) -> str:
    """Return the short name of a format that may be the name of a class; other names stay.

    Known are the classes of Spark, Delta, Iceberg and Databricks (``com.databricks.spark.avro``).
    """
    if not format.startswith(_CLASSES):
        return format
    return next((_PACKAGES[part] for part in format.split(".") if part in _PACKAGES), format)


def source_options(format: str, *, is_catalog_table: bool) -> tuple[str, ...]:
    """Return the names of the options of a source that matter to a restore.

    ``is_catalog_table`` says that the source may be a table of a catalog. If it is one, ``format``
    is the name of the table.
    """
    if format in CONNECTORS:
        return CONNECTORS[format].options
    names_by_connector = (
        each.options for each in CONNECTORS.values() if each.in_catalogs and is_catalog_table
    )
    return tuple(name for options in names_by_connector for name in options)
