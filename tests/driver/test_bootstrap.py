"""What a driver on a standalone cluster sets before the first session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.bootstrap import arrive
from flinkish.driver.carried import ORIGIN_VARIABLE, SETTINGS_VARIABLE

pytestmark = pytest.mark.spark

KEY = "spark.hadoop.fs.s3a.secret.key"


@pytest.mark.parametrize("jars", ["", "file:/other.jar,"])
def test_secrets_are_set_and_the_jar_is_left_out(spark: Any, tmp_path: Path, jars: str) -> None:
    """A new ``SparkConf`` has them; executors do not get the file, which has secrets."""
    jvm = spark._jvm
    system = jvm.java.lang.System
    before = system.getProperty("spark.jars")
    origin = tmp_path / ".launch-1" / "flinkish-job.jar"
    origin.parent.mkdir()
    origin.touch()
    environ = {SETTINGS_VARIABLE: json.dumps({KEY: "hush"}), ORIGIN_VARIABLE: str(origin)}
    try:
        system.setProperty("spark.jars", f"{jars}file:{origin}")
        arrive(environ)
        conf = jvm.org.apache.spark.SparkConf()
        assert conf.get(KEY) == "hush"
        assert conf.get("spark.jars", "none") == (jars.rstrip(",") or "none")
    finally:
        system.clearProperty(KEY)
        system.clearProperty("spark.jars")
        if before is not None:
            system.setProperty("spark.jars", before)
    assert environ == {}
    assert not origin.parent.exists()


def test_elsewhere_nothing_is_set(tmp_path: Path) -> None:
    """YARN's spark-submit has given the JVM its settings."""
    origin = tmp_path / "job.py"
    origin.touch()
    arrive({ORIGIN_VARIABLE: str(origin)})
    assert not origin.exists()
