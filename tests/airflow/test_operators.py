"""The operators, the sensor and the triggers in an installed Airflow, on real jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.airflow_dags import CHECKOUT, Airflow
from tests.support.cli.command import PROGRAMS, Flinkish

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(1800)]

EXAMPLE = CHECKOUT / "flinkish" / "examples" / "airflow_dag.py"
#: The module of the example, of which the operators, the sensor and the triggers are all part.
MODULE = "flinkish.examples.airflow_dag"
#: A DAG with one task.
ONE = """
from airflow.sdk import DAG

from flinkish.airflow.operators import *
from flinkish.airflow.sensors import FlinkishJobSensor

with DAG("one", schedule=None, default_args={{"poll_interval": 1.0}}) as dag:
    {task}
"""


def one(airflow: Airflow, directory: Path, task: str) -> tuple[str, object, str]:
    """Run a DAG with one task; returns its state, its XCom and the log."""
    file = directory / "one.py"
    file.write_text(ONE.format(task=task))
    running = airflow.run(file, "one", {})
    (result,) = running.results().values()
    return result.state, result.value, running.text()


def test_the_example(airflow: Airflow, flinkish: Flinkish, tmp_path: Path) -> None:
    program = str(PROGRAMS / "rate.py")
    conf = {
        "name": "rides",
        "program": program,
        "new_program": program,
        "savepoints": str(tmp_path / "sp"),
    }
    results = airflow.run(EXAMPLE, "flinkish_job", conf).results()
    assert {name: each.state for name, each in results.items()} == dict.fromkeys(
        ("run", "works", "save", "upgrade", "stop"), "success"
    )
    first, second = results["run"].value, results["upgrade"].value
    assert results["works"].value == {"job_id": first, "name": "rides", "state": "RUNNING"}
    assert first != second
    assert flinkish.job(first)["state"] == flinkish.job(second)["state"] == "FINISHED"
    for task in ("save", "stop"):
        flinkish.ok("savepoint", "verify", results[task].value)
    assert [s["path"] for s in flinkish.job(second)["savepoints"]] == [results["stop"].value]


def test_a_task_fails_with_the_error_of_the_job(
    airflow: Airflow, flinkish: Flinkish, tmp_path: Path
) -> None:
    program = tmp_path / "broken.py"
    program.write_text("raise ValueError('as was asked for')")
    for deferrable in (False, True):
        task = (
            f"FlinkishRunOperator(task_id='t', program={str(program)!r}, deferrable={deferrable})"
        )
        state, value, log = one(airflow, tmp_path, task)
        assert (state, value) == ("failed", None)
        assert "ProgramFailed" in log
        assert "as was asked for" in log
    task = "FlinkishStopOperator(task_id='t', job='nobody', directory='/tmp/sp')"
    assert "JobNotFound" in one(airflow, tmp_path, task)[2]
    # A sensor waits for a job that is not there yet, as long as its timeout.
    task = "FlinkishJobSensor(task_id='t', job='nobody', poke_interval=1, timeout=3)"
    state, _, log = one(airflow, tmp_path, task)
    assert state == "failed"
    assert "AirflowSensorTimeout" in log


def test_a_retry_takes_what_runs_already(
    airflow: Airflow, flinkish: Flinkish, tmp_path: Path
) -> None:
    job = flinkish.run("rate.py", options=("--name", "rides"))
    flinkish.wait_for_state(job, "RUNNING")
    program = str(PROGRAMS / "rate.py")
    task = f"FlinkishRunOperator(task_id='t', program={program!r}, name='rides', until='batch=1')"
    assert one(airflow, tmp_path, task)[:2] == ("success", job)
    path = flinkish.ok("stop", "-q", job, "-p", str(tmp_path / "sp")).out.strip()
    stop = f"FlinkishStopOperator(task_id='t', job={job!r}, directory='{tmp_path}/sp'"
    assert one(airflow, tmp_path, f"{stop})")[0] == "failed"
    # Airflow tries it a second time, which finds what the first may have done.
    state, value, _ = one(airflow, tmp_path, f"{stop}, retries=1, retry_delay=0.1)")
    assert (state, value) == ("success", path)
