"""An Airflow DAG that starts a job, waits for its batches, saves it, upgrades it and stops it.

Copy this file into Airflow's folder of DAGs. Airflow asks for the parameters at each trigger.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from flinkish.airflow.operators import (
    FlinkishRunOperator,
    FlinkishSavepointOperator,
    FlinkishStopOperator,
    FlinkishUpgradeOperator,
)
from flinkish.airflow.sensors import FlinkishJobSensor

with DAG(
    "flinkish_job",
    schedule=None,
    catchup=False,
    default_args={"poll_interval": 2.0},
    params={
        "name": Param("rides", type="string"),
        "program": Param("/srv/rides.py", type="string"),
        "new_program": Param("/srv/rides_v2.py", type="string"),
        "savepoints": Param("/srv/savepoints", type="string"),
    },
) as dag:
    run = FlinkishRunOperator(
        task_id="run",
        program="{{ params.program }}",
        name="{{ params.name }}",
        resume=True,  # from where the newest job with this name ended
        deferrable=True,
    )
    works = FlinkishJobSensor(
        task_id="works", job=run.output, until="batch=2", poke_interval=2.0, deferrable=True
    )
    save = FlinkishSavepointOperator(
        task_id="save", job=run.output, directory="{{ params.savepoints }}", deferrable=True
    )
    upgrade = FlinkishUpgradeOperator(
        task_id="upgrade",
        job=run.output,
        program="{{ params.new_program }}",
        directory="{{ params.savepoints }}",
    )
    stop = FlinkishStopOperator(
        task_id="stop", job=upgrade.output, directory="{{ params.savepoints }}"
    )
    run >> works >> save >> upgrade >> stop
