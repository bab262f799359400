"""An Airflow of its own, and jobs that its tasks start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import flinkish as flinkish
from tests.support import venvs
from tests.support.airflow_dags import Airflow
from tests.support.cli.command import Flinkish


@pytest.fixture
def airflow(flinkish: Flinkish, tmp_path: Path) -> Airflow:
    try:
        python = venvs.airflow()
    except venvs.Unavailable as error:
        pytest.skip(f"needs airflow: {error}")
    home = tmp_path / "airflow"
    home.mkdir()
    # Its provider brings a PySpark without Spark.
    spark = str(venvs.spark_home(sys.executable))
    return Airflow(python, home, {**flinkish.environ, "SPARK_HOME": spark})
