"""``flinkish.attach()`` in a Jupyter kernel: what people do in its cells, and see from outside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flinkish.savepoint.format.reader import open_savepoint
from tests.support.cli.command import LIGHT, PATIENCE, Flinkish, wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.deep,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("default"),  # Jupyter's own
]

ROOT = Path(__file__).resolve().parents[2]
QUERIES = """
import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()


def start(name, kept):
    counts = rows.selectExpr("value % 7 as k").groupBy("k").count()
    writer = counts.writeStream.queryName(name).outputMode("complete").format("noop")
    if kept:
        writer = writer.option("checkpointLocation", f"{DIRECTORY}/{name}")
    return writer.trigger(processingTime="300 milliseconds").start()
"""


class Notebook:
    """A kernel of its own; a cell returns what it prints."""

    def __init__(self, environ: dict[str, str], directory: Path) -> None:
        from jupyter_client.manager import start_new_kernel

        conf = " ".join(["--master local[2]", *LIGHT, "pyspark-shell"]).replace(
            "--conf=", "--conf "
        )
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.manager, self.client = start_new_kernel(
            startup_timeout=PATIENCE,
            kernel_name="python3",
            env={
                **environ,
                "IPYTHONDIR": str(directory / "ipython"),
                "PYTHONPATH": path,
                "PYSPARK_SUBMIT_ARGS": conf,
            },
            cwd=str(directory),
        )
        self(f"DIRECTORY = {str(directory)!r}\n{QUERIES}")

    def run(self, cell: str) -> tuple[str, str]:
        """What a cell prints, and its error."""
        output: list[str] = []

        def take(message: Any) -> None:
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                output.append(message["content"]["text"])

        reply = self.client.execute_interactive(cell, timeout=PATIENCE, output_hook=take)
        content = reply["content"]
        return "".join(output), f"{content.get('ename', '')}: {content.get('evalue', '')}"

    def __call__(self, cell: str) -> str:
        output, error = self.run(cell)
        assert error == ": ", error
        return output.strip()

    def kill(self) -> None:
        self.manager.signal_kernel(9)

    def close(self) -> None:
        self.client.stop_channels()
        with suppress(RuntimeError):  # it is gone already
            self.manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(
    flinkish: Flinkish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Notebook]:
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    for package in ("ipykernel", "jupyter_client"):
        pytest.importorskip(package, reason=f"needs {package} (pip install ipykernel)")
    notebook = Notebook(flinkish.environ, tmp_path)
    yield notebook
    notebook.close()


def test_a_session_that_has_queries_already(
    flinkish: Flinkish, notebook: Notebook, tmp_path: Path
) -> None:
    notebook("kept, shown = start('kept', True), start('shown', False)")
    notebook("while kept.lastProgress is None or shown.lastProgress is None: time.sleep(0.1)")
    notebook("import flinkish\njob = flinkish.attach('explore')")
    said = notebook("print(job.job_id, job.adopted, [*job.left])")
    first = flinkish.wait_for_state("explore", "RUNNING")
    assert said == f"{first['job_id']} ('kept',) ['shown']"
    assert first["external_launcher"]["name"] == "notebook"
    notebook("later = start('later', True)")
    flinkish.wait(first["job_id"], lambda now: len(now["queries"]) == 2)
    flinkish.wait_for_batch(first["job_id"], 1)
    flinkish.ok("savepoint", "-q", "explore", str(tmp_path / "sp"))
    stopped = flinkish.ok("stop", "explore", "-p", str(tmp_path / "sp"), "--json").json()
    assert flinkish.job(first["job_id"])["state"] == "FINISHED"

    # The kernel runs on, with what flinkish has left alone.
    active = "print(kept.isActive, later.isActive, shown.isActive, spark.range(3).count())"
    assert notebook(active) == "False False True 3"
    _, error = notebook.run("flinkish.attach('again', savepoint=DIRECTORY + '/nothing')")
    assert error.startswith("SavepointNotFound: "), "an error of the cell, not the kernel's end"
    path = stopped["savepoint"]["path"]
    notebook(f"again = flinkish.attach('again', savepoint={path!r})\nprint(again.job_id)")
    notebook("kept, later = start('kept', True), start('later', True)")
    second = flinkish.wait_for_state("again", "RUNNING")
    rows = (query["plan"]["queries"][0] for query in second["queries"])
    saved = {query.name: query.batch_id for query in open_savepoint(path).queries}
    assert {row["name"]: row["batch_id"] for row in rows} == saved
    assert set(saved) == {"kept", "later"}
    notebook("again.detach()")
    assert flinkish.job(second["job_id"])["state"] == "FINISHED"
    assert notebook(active) == "True True True 3"


def test_a_kernel_that_is_killed(flinkish: Flinkish, notebook: Notebook) -> None:
    notebook("import flinkish\njob = flinkish.attach('explore')\nkept = start('kept', True)")
    flinkish.wait_for_state("explore", "RUNNING")
    notebook.kill()
    lost = flinkish.wait_for_state("explore", "FAILED")
    assert lost["failure"]["id"] == "driver-lost"
    wait_until(lambda: not flinkish.processes())
