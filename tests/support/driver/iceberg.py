"""Settings of a session with a catalog ``ice`` of Iceberg's own kind, in a directory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import venvs
from tests.support.servers import jars

_MOVE = Path(__file__).with_name("iceberg_move.py")


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


def move_tables(spark: str, old: Path, new: Path, tables: Sequence[str]) -> None:
    """Move tables of the catalog to another warehouse by ``rewrite_table_path``."""
    words = [
        word for key, value in settings(spark, old).items() for word in ("--conf", f"{key}={value}")
    ]
    subprocess.run(
        [venvs.interpreter(spark), str(_MOVE), str(old), str(new), *tables],
        env={
            **os.environ,
            "PYSPARK_SUBMIT_ARGS": " ".join(["--master local[2]", *words, "pyspark-shell"]),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        check=True,
        timeout=600,
    )
