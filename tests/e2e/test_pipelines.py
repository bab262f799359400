"""Declarative pipelines: by ``flinkish run pipeline.yml``, and by ``spark-pipelines run``.

What the rows are is in the input, and what must come of them is worked out in Python.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.support import venvs
from tests.support.cli.command import LIGHT, PATIENCE, PROGRAMS, Flinkish, Result, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
FLOWS = ("spark_catalog.default.counts", "spark_catalog.default.seen")
#: The input's first moment, in seconds since the epoch; a file is ten minutes.
_FIRST = 1_700_000_100 // 300 * 300


class Rides:
    """The input of both programs, and what must come of it in two directories of ``out``."""

    def __init__(self, directory: Path, out: Path) -> None:
        self.source, self.out = directory / "in", out
        self.files = 0
        self.source.mkdir()

    def more(self, files: int) -> None:
        """Files of rows every ten seconds or so, every tenth of them twice."""
        for number in range(self.files, self.files + files):
            hidden, path = self.source / f".{number}.json", self.source / f"{number}.json"
            rows = [
                {"id": number * 100 + i, "k": i % 3, "t": _stamp(number * 600 + i * 19)}
                for i in range(30)
            ]
            rows += rows[::10]
            hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(hidden, (1_700_000_000 + number,) * 2)
            hidden.rename(path)
        self.files += files

    def check_output(self) -> None:
        """The rows are those of a batch over the input; windows before the watermark are there."""
        rows = [
            json.loads(line)
            for path in self.source.glob("*.json")
            for line in path.read_text().splitlines()
        ]
        times = [(r["k"], int(datetime.datetime.fromisoformat(r["t"]).timestamp())) for r in rows]
        seen = [row["id"] for row in self.written("seen")]
        assert sorted(seen) == sorted({row["id"] for row in rows})
        counted = [(row["start"], row["k"], row["n"]) for row in self.written("counts")]
        windows = {(start, k): n for start, k, n in counted}
        assert len(windows) == len(counted), "no window twice"
        expected = Counter((t // 300 * 300, k) for k, t in times)
        assert windows == {each: n for each, n in expected.items() if each in windows}
        closed = max(t for _, t in times) - 3600 - 600
        assert set(windows) >= {each for each in expected if each[0] + 300 <= closed}

    def written(self, table: str) -> list[dict[str, int]]:
        """The rows of the files that the log of a table's file sink names."""
        entries = [
            json.loads(line)
            for path in (self.out / table / "_spark_metadata").iterdir()
            if not path.name.startswith(".")
            for line in path.read_text().splitlines()[1:]
        ]
        paths = {str(entry["path"]).removeprefix("file://") for entry in entries}
        return [row for path in paths for row in pyarrow.parquet.read_table(path).to_pylist()]


class Pipeline(Rides):
    """A project of two flows; its tables are in a catalog on disk, as a pipeline needs them."""

    def __init__(self, flinkish: Flinkish, directory: Path) -> None:
        super().__init__(directory, directory / "warehouse")
        self.flinkish, self.directory = flinkish, directory
        self.spec, self.storage = directory / "rides" / "spark-pipeline.yml", directory / "storage"
        (self.spec.parent / "transformations").mkdir(parents=True)
        definitions = (PROGRAMS / "pipeline" / "flows.py").read_text("utf-8")
        (self.spec.parent / "transformations" / "flows.py").write_text(definitions)
        self.spec.write_text(
            f"name: rides\nstorage: file://{self.storage}\n"
            "libraries:\n  - glob:\n      include: transformations/**\n"
        )
        self.conf = (
            *LIGHT,
            "--conf=spark.sql.catalogImplementation=hive",
            f"--conf=spark.sql.warehouse.dir={directory}/warehouse",
            derby(directory / "metastore"),
        )
        # spark-pipelines keeps the settings of its command line from a server of its own.
        self.defaults = directory / "conf" / "spark-defaults.conf"
        self.defaults.parent.mkdir()
        settings = (word.removeprefix("--conf=").split("=", 1) for word in self.conf)
        self.defaults.write_text("".join(f"{key} {value}\n" for key, value in settings))
        self.environ = {"PIPELINE_INPUT": str(self.source)}
        self.changed = {**self.environ, "PIPELINE_CHANGED": "1"}
        self.processes: list[subprocess.Popen[bytes]] = []

    def run(self, *words: str, **environ: str) -> str:
        """``flinkish run -d``; returns the job id."""
        command = ("run", "-d", "-q", "-m", "local[2]", *self.conf, *words, str(self.spec))
        return self.flinkish.ok(*command, **(environ or self.environ)).out.strip()

    def wait_for_end(self, job: str) -> dict[str, Any]:
        """The record of a finished job; only one process at a time opens a metastore of Derby."""
        record: dict[str, Any] = self.flinkish.wait_for_state(job, "FINISHED")
        wait_until(lambda: not self.flinkish.processes())
        return record

    def is_registered(self) -> bool:
        """Whether a program that attaches itself has begun its job."""
        with self.flinkish.registry() as registry:
            return any(job.name == "rides" for job in registry.jobs())

    def call(self, *words: str, changed: bool = False) -> Result:
        """Any command, with the pipeline's own environment."""
        version = "1" if changed else ""
        source = str(self.source)
        return self.flinkish(*words, PIPELINE_INPUT=source, PIPELINE_CHANGED=version)

    def spark_pipelines(self, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        """``spark-pipelines run``, in a process whose output is a log of its own."""
        script = venvs.spark_home(sys.executable) / "bin" / "spark-pipelines"
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        with (self.directory / f"log-{len(self.processes)}").open("wb") as log:
            process = subprocess.Popen(
                [str(script), "run", "--remote", "local[2]", "--spec", str(self.spec), *words],
                env={
                    **self.flinkish.environ,
                    "SPARK_CONF_DIR": str(self.defaults.parent),
                    "PYSPARK_PYTHON": sys.executable,
                    "PYTHONPATH": path,
                    **environ,
                },
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def log(self) -> str:
        path = self.directory / f"log-{len(self.processes) - 1}"
        return path.read_text(errors="replace")[-6000:]

    def checkpoint(self, flow: str) -> Path:
        """The directory of a flow's checkpoints, by their numbers."""
        return self.storage / "_checkpoints" / "spark_catalog" / "default" / flow / flow

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()


def derby(directory: Path) -> str:
    url = f"jdbc:derby:;databaseName={directory};create=true"
    return f"--conf=spark.hadoop.javax.jdo.option.ConnectionURL={url}"


def _stamp(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(_FIRST + seconds, datetime.timezone.utc).isoformat()


@pytest.fixture
def pipeline(flinkish: Flinkish, tmp_path: Path) -> Iterator[Pipeline]:
    pipeline = Pipeline(flinkish, tmp_path)
    yield pipeline
    pipeline.close()


def test_saved_stopped_changed_and_restored(
    flinkish: Flinkish, pipeline: Pipeline, tmp_path: Path
) -> None:
    """The judged scenario; then Spark's own command goes on with what was restored."""
    pipeline.more(25)
    job = pipeline.run()
    running = flinkish.wait_for_batch(job, 2)
    assert (running["name"], running["state"]) == ("rides", "RUNNING")
    assert {query["name"] for query in running["queries"]} == set(FLOWS)
    target = str(tmp_path / "sp")
    first = flinkish.ok("savepoint", job, target, "--json").json()["savepoint"]
    stopped = flinkish.ok("stop", job, "-p", target, "--json").json()["savepoint"]
    ended = pipeline.wait_for_end(job)
    batches = [query["batch_id"] for query in ended["queries"]]
    assert all(2 <= batch < 24 for batch in batches), "neither has read all"
    assert sorted(q["name"] for q in stopped["queries"]) == sorted(FLOWS)
    assert first["path"] != stopped["path"]

    changed = pipeline.changed
    words = (*pipeline.conf, stopped["path"], str(pipeline.spec))
    plan = pipeline.call("check", "--json", *words, changed=True)
    assert plan.code == 0, plan.err
    pipeline.more(5)
    again = pipeline.run("-s", stopped["path"], **changed)
    pipeline.wait_for_end(again)
    pipeline.check_output()
    assert sorted(path.name for path in pipeline.checkpoint("counts").iterdir()) == ["0", "1"]

    pipeline.more(5)
    assert pipeline.spark_pipelines(**changed).wait(PATIENCE) == 0, pipeline.log()
    pipeline.check_output()


def test_attached_under_spark_pipelines(
    flinkish: Flinkish, pipeline: Pipeline, tmp_path: Path
) -> None:
    """``flinkish.attach()`` in its definitions; Spark alone cannot go on with the changed flow."""
    pipeline.more(25)
    attached = {"PIPELINE_ATTACHED": "1"}
    first = pipeline.spark_pipelines(**pipeline.environ, **attached)
    wait_until(lambda: pipeline.is_registered())
    flinkish.wait_for_batch("rides", 1)
    stopped = flinkish.ok("stop", "rides", "-p", str(tmp_path / "sp"), "--json").json()
    assert first.wait(PATIENCE) == 0, pipeline.log()
    assert flinkish.job("rides")["state"] == "FINISHED"
    alone = pipeline.spark_pipelines("--refresh", FLOWS[0], **pipeline.changed)
    assert alone.wait(PATIENCE) != 0
    assert "STATE_STORE" in pipeline.log(), "its state has another schema"

    savepoint = {"FLINKISH_FROM_SAVEPOINT": stopped["savepoint"]["path"]}
    again = pipeline.spark_pipelines(**pipeline.changed, **attached, **savepoint)
    assert again.wait(PATIENCE) == 0, pipeline.log()
    pipeline.check_output()


def test_exported_in_place_of_a_flow(
    flinkish: Flinkish, pipeline: Pipeline, tmp_path: Path
) -> None:
    """A stopped flow whose code has changed is rewritten in its place, for Spark's own command."""
    pipeline.more(25)
    job = pipeline.run()
    flinkish.wait_for_batch(job, 2)
    target = str(tmp_path / "sp")
    saved = flinkish.ok("stop", job, "-p", target, "--json").json()["savepoint"]
    pipeline.wait_for_end(job)
    place = pipeline.checkpoint("counts") / "0"
    words = ("--query", FLOWS[0], "--in-place-of", str(place), str(pipeline.spec))
    flinkish.ok("export", *pipeline.conf, saved["path"], *words, **pipeline.changed)
    assert pipeline.spark_pipelines(**pipeline.changed).wait(PATIENCE) == 0, pipeline.log()
    pipeline.check_output()


def test_a_storage_that_was_lost(flinkish: Flinkish, pipeline: Pipeline, tmp_path: Path) -> None:
    """Saved offline between two runs without flinkish, and brought back by a restore."""
    pipeline.more(4)
    assert pipeline.spark_pipelines(**pipeline.environ).wait(PATIENCE) == 0, pipeline.log()
    words = ("--from-checkpoint", str(pipeline.storage), str(tmp_path / "sp"), "--yes", "--json")
    saved = flinkish.ok("savepoint", *words).json()["savepoint"]
    assert sorted(query["name"] for query in saved["queries"]) == sorted(FLOWS)
    shutil.rmtree(pipeline.storage)
    pipeline.more(4)
    pipeline.wait_for_end(pipeline.run("-s", saved["path"]))
    pipeline.check_output()


def test_a_flow_whose_turn_has_not_come(
    flinkish: Flinkish, pipeline: Pipeline, tmp_path: Path
) -> None:
    """One that reads another's table: saved with the others, as its last run has left it."""
    dependent = {**pipeline.environ, "PIPELINE_DEPENDENT": "1"}
    pipeline.more(4)
    first = pipeline.run(**dependent)
    pipeline.wait_for_end(first)
    log = flinkish.ok("logs", first).out
    assert "which this run of the pipeline creates" in log, "its tables are not there yet"

    pipeline.more(25)
    job = pipeline.run(**dependent)
    flinkish.wait_for_state(job, "RUNNING")
    own = dict.fromkeys(FLOWS, 6)
    flinkish.wait(job, lambda r: all(q["batch_id"] >= own.get(q["name"], 0) for q in r["queries"]))
    stopped = flinkish.ok("stop", job, "-p", str(tmp_path / "sp"), "--json").json()["savepoint"]
    pipeline.wait_for_end(job)
    assert {query["name"] for query in stopped["queries"]} == {
        *FLOWS,
        "spark_catalog.default.again",
    }
    again = {row["id"] for row in pipeline.written("again")}
    assert again < {row["id"] for row in pipeline.written("seen")}, "no flow starts after a stop"

    pipeline.wait_for_end(pipeline.run("-s", stopped["path"], **dependent))
    pipeline.check_output()
    rows = sorted(row["id"] for row in pipeline.written("again"))
    assert rows == sorted(row["id"] for row in pipeline.written("seen"))


def test_bad_input(flinkish: Flinkish, pipeline: Pipeline, tmp_path: Path) -> None:
    """A refused restore leaves no checkpoint behind, and the pipeline goes on as it was."""
    missing = flinkish("run", "--json", str(tmp_path / "none.yml"))
    assert missing.code == 2
    assert "does not exist" in missing.err
    pipeline.more(2)
    pipeline.wait_for_end(pipeline.run())
    words = ("--from-checkpoint", str(pipeline.storage), str(tmp_path / "sp"), "--yes", "--json")
    saved = flinkish.ok("savepoint", *words).json()["savepoint"]["path"]
    restore = ("run", "-m", "local[2]", *pipeline.conf, "-s", saved, str(pipeline.spec))
    refresh = pipeline.call(*restore, "--full-refresh-all")
    assert refresh.code == 2, refresh.err
    assert "full refresh" in refresh.err
    definitions = pipeline.spec.parent / "transformations" / "flows.py"
    text = definitions.read_text("utf-8")
    definitions.write_text(
        text[: text.index("@dp.table")] + text[text.index("@dp.table\ndef seen") :]
    )
    lacking = pipeline.call(*restore)
    assert lacking.code == 5, "the state of a flow that is gone has no owner"
    for flow in ("counts", "seen"):
        assert [path.name for path in pipeline.checkpoint(flow).iterdir()] == ["0"]
    definitions.write_text(text)
    pipeline.more(60)
    job = pipeline.run()
    flinkish.wait_for_batch(job, 2)
    other = derby(tmp_path / "other")  # one process at a time opens a metastore of Derby
    twice = pipeline.call("run", "-m", "local[2]", *pipeline.conf, other, str(pipeline.spec))
    assert twice.code == 5, "another job is at work in its checkpoints"
    pipeline.wait_for_end(job)
    pipeline.check_output()


def test_a_session_of_connect_with_its_own_server(flinkish: Flinkish, tmp_path: Path) -> None:
    """As a classic program: saved, stopped with a savepoint, restored when it has changed."""
    rides = Rides(tmp_path, tmp_path / "out")
    rides.more(3)
    words = (str(rides.source), str(rides.out))
    job = flinkish.run("connected.py", *words)
    flinkish.wait_for_batch(job, 2)
    assert [each["name"] for each in flinkish.ok("list", "--json").json()["jobs"]] == ["connected"]
    assert flinkish.ok("savepoint", job, str(tmp_path / "sp"), "--json").json()["savepoint"]
    rides.more(3)
    stopped = flinkish.ok("stop", job, "-p", str(tmp_path / "sp"), "--json").json()["savepoint"]
    assert flinkish.job(job)["state"] == "FINISHED"
    program = (str(PROGRAMS / "connected.py"), *words, "changed")
    plan = flinkish("check", "--json", "-m", "local[2]", *LIGHT, stopped["path"], *program)
    assert plan.code == 0, plan.err
    again = flinkish.run("connected.py", *words, "changed", options=("-s", stopped["path"]))
    rides.more(2)
    restored = flinkish.wait_for_batch(again, 7)
    assert [op["uid"] for q in restored["queries"] for op in q["operators"] if op["uid"]] == [
        "windows"
    ]
    flinkish.ok("cancel", again)
    rides.check_output()
