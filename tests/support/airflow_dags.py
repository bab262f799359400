"""An installed Airflow: DAGs run by ``dag.test()`` in its environment, with a private home.

As a program (``airflow_dags.py FILE DAG CONF``) it runs there, and prints what became of the tasks.
"""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
_PATIENCE = 900.0
_RESULT = "RESULT "


@dataclass(frozen=True)
class TaskResult:
    """How a task ended, and its XCom."""

    state: str
    value: Any


class Airflow:
    """Runs DAGs by the Python ``python``, with a database of its own in ``home``."""

    def __init__(self, python: str, home: Path, environ: dict[str, str]) -> None:
        self.python = python
        self._home = home
        self._dags = home / "dags"
        self._dags.mkdir()
        self.environ = {
            **environ,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self._dags),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
            "PYTHONPATH": str(CHECKOUT),
        }
        subprocess.run(
            [python, "-m", "airflow", "db", "migrate"],
            env=self.environ,
            cwd=home,
            check=True,
            capture_output=True,
            timeout=_PATIENCE,
        )

    def start(self, file: Path, dag: str, conf: dict[str, Any], **environ: str) -> Running:
        """Begin to run a DAG of a file."""
        shutil.copy(file, self._dags)
        log = self._home / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [self.python, "-P", __file__, str(self._dags / file.name), dag, json.dumps(conf)],
                env={**self.environ, **environ},
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return Running(process, log)

    def run(self, file: Path, dag: str, conf: dict[str, Any], **environ: str) -> Running:
        """Run a DAG to its end."""
        running = self.start(file, dag, conf, **environ)
        running.process.wait(_PATIENCE)
        return running


@dataclass(frozen=True)
class Running:
    """A DAG that runs, or has."""

    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def results(self) -> dict[str, TaskResult]:
        """How each task ended."""
        self.process.wait(_PATIENCE)
        lines = [line for line in self.text().splitlines() if line.startswith(_RESULT)]
        assert lines, self.text()
        tasks = json.loads(lines[-1].removeprefix(_RESULT))
        return {name: TaskResult(**task) for name, task in tasks.items()}


def main(file: str, name: str, conf: str) -> None:
    """Run a DAG of a file, and print the result of each task."""
    dags = runpy.run_path(file).values()
    (dag,) = (each for each in dags if type(each).__name__ == "DAG" and each.dag_id == name)
    run = dag.test(run_conf=json.loads(conf))
    tasks = {
        task.task_id: {
            "state": str(task.state),
            "value": task.xcom_pull(task_ids=task.task_id),
        }
        for task in run.get_task_instances()
    }
    print(_RESULT + json.dumps(tasks), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
