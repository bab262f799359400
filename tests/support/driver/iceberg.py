"""Settings of a session with a catalog ``ice`` of Iceberg's own kind, in a directory."""

from __future__ import annotations

from pathlib import Path

from tests.support.servers import jars


def settings(spark: str, warehouse: Path) -> dict[str, str]:
    """Return them for this version of Spark; raises ``jars.Unavailable``."""
    catalog = "spark.sql.catalog.ice"
    return {
        "spark.jars": ",".join(str(jar) for jar in jars.iceberg(spark)),
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(warehouse),
    }


def options(spark: str, warehouse: Path) -> tuple[str, ...]:
    """Return them as options of ``spark-submit`` and ``flinkish run``."""
    return tuple(f"--conf={key}={value}" for key, value in settings(spark, warehouse).items())
