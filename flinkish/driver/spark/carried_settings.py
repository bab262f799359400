"""Arrival of a driver on a standalone cluster: its secret settings, and the file it came in."""

from __future__ import annotations

import json
import os
from collections.abc import MutableMapping
from typing import Any

from flinkish.driver.carried import ORIGIN_VARIABLE, SETTINGS_VARIABLE
from flinkish.launch.carried_job import JAR, remove


def arrive(environ: MutableMapping[str, str]) -> None:
    """Set what this driver's JVM was not given, and remove the file that brought the driver.

    A ``SparkConf`` reads the JVM's system properties (``SparkConf.loadFromSystemProperties``). The
    jar that brought the job is in ``spark.jars``: Spark would give it to every executor.

    Raises StorageError if the file cannot be removed.
    """
    settings = json.loads(environ.pop(SETTINGS_VARIABLE, "null"))
    if settings is not None:
        _set_properties(settings)
    origin = environ.pop(ORIGIN_VARIABLE, None)
    if origin is not None:
        remove(origin)


def _set_properties(settings: dict[str, str]) -> None:
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    gateway: Any = SparkContext
    system = gateway._jvm.java.lang.System
    jars = [jar for jar in (system.getProperty("spark.jars") or "").split(",") if jar]
    kept = [jar for jar in jars if os.path.basename(jar) != JAR]
    if kept:
        system.setProperty("spark.jars", ",".join(kept))
    else:
        system.clearProperty("spark.jars")
    for key, value in settings.items():
        system.setProperty(key, value)
