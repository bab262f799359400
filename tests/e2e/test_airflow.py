"""A program that Airflow's ``SparkSubmitOperator`` starts, and that attaches itself."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.airflow.conftest import airflow as airflow
from tests.support.airflow_dags import Airflow
from tests.support.cli.command import PATIENCE, PROGRAMS, Flinkish, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(900)]

DAG = """
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

with DAG("submit", schedule=None) as dag:
    SparkSubmitOperator(
        task_id="rides",
        application={application!r},
        application_args={arguments!r},
        conf={{"spark.flinkish.name": "rides", "spark.ui.enabled": "false"}},
        env_vars={{"FLINKISH_REGISTRY": {registry!r}, "PYSPARK_PYTHON": {python!r}}},
    )
"""


def test_listed_saved_and_stopped(airflow: Airflow, flinkish: Flinkish, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    url = f"sqlite:///{tmp_path}/registry.db"
    flinkish.environ["FLINKISH_REGISTRY"] = url
    file = tmp_path / "dag.py"
    file.write_text(
        DAG.format(
            application=str(PROGRAMS / "attached.py"),
            arguments=[str(tmp_path / "checkpoint"), str(out)],
            registry=url,
            python=sys.executable,
        )
    )
    running = airflow.start(
        file,
        "submit",
        {},
        # The installed Spark, not that of Airflow's environment.
        PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": "local[2]"}),
    )
    try:
        wait_until(lambda: (out / "1.json").exists() or running.process.poll() is not None)
        assert running.process.poll() is None, running.text()
        record = flinkish.wait_for_state("rides", "RUNNING")
        assert record["external_launcher"]["name"] == "spark-submit"
        (listed,) = flinkish.ok("list", "--json").json()["jobs"]
        assert (listed["name"], listed["state"]) == ("rides", "RUNNING")
        saved = flinkish.ok("savepoint", "-q", "rides", str(tmp_path / "sp")).out.strip()
        flinkish.ok("stop", "rides", "-p", str(tmp_path / "sp"))
        running.process.wait(PATIENCE)
    finally:
        running.process.kill()
    assert running.results()["rides"].state == "success"
    assert flinkish.job(record["job_id"])["state"] == "FINISHED"
    flinkish.ok("savepoint", "verify", saved)
