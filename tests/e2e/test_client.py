"""The README's Python program, run as it stands there: run, savepoint, check, stop, run, state."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_lifecycle import expected_counts, final_counts, write_files
from tests.support.cli.command import LIGHT, PATIENCE, Flinkish

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
#: The user's program; the second version has another mapping above the aggregation.
PROGRAM = """
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from flinkish import uid

spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.schema("id long, k int").option("maxFilesPerTrigger", 1).json(sys.argv[1])
counts = lines.groupBy("k").count().transform(uid("counts")){more}


def write(frame, batch):
    frame.coalesce(1).write.mode("overwrite").parquet(f"{sys.argv[2]}/batch={batch}")


counts.writeStream.queryName("counts").outputMode("update").foreachBatch(write).start()
spark.streams.awaitAnyTermination()
"""


def readme_program() -> str:
    """The one Python block of the README that uses the client."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (block,) = [block for block in blocks if "from flinkish import Client" in block]
    return str(block)


def test_the_program_of_the_readme(flinkish: Flinkish, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 0, 2)
    (tmp_path / "counts.py").write_text(PROGRAM.replace("{more}", ""))
    version_2 = PROGRAM.replace("{more}", '.withColumn("version", lit(2))')
    (tmp_path / "counts_v2.py").write_text(version_2)
    light = (setting.removeprefix("--conf=").partition("=") for setting in LIGHT)
    lines = [f'"{key}" = "{value}"' for key, _, value in light]
    (tmp_path / "flinkish.toml").write_text("\n".join(lines) + "\n")
    (tmp_path / "script.py").write_text(readme_program())
    # As in an activated virtual environment: Spark's workers are the python3 of the PATH.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**flinkish.environ, "PYTHONPATH": str(ROOT), "PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    first, *plan = ran.stdout.splitlines()
    assert re.fullmatch(rf"{tmp_path}/savepoints/savepoint-\S+: \d+ files, whole: True", first)
    assert any(re.match(r"counts +counts +stateStoreSave +as-is", line) for line in plan)
    assert "verdict: ok: the savepoint can be restored" in plan
    assert "counts_v2 is RUNNING" in plan
    table = ran.stdout.partition("counts_v2 is RUNNING")[2]
    state = {int(k): int(n) for k, n in re.findall(r"\|\s*(\d+)\|\s*(\d+)\|", table)}

    with flinkish.registry() as registry:
        jobs = {each.name: each for each in registry.jobs()}
        savepoints = registry.savepoints(jobs["counts"].job_id)
    assert jobs["counts"].state.value == "FINISHED"
    (stopped,) = [record for record in savepoints if record.trigger == "stop"]
    assert state == expected_counts(stopped.queries[0].batch_id + 1)
    restored = jobs["counts_v2"]
    assert restored.launch.restore is not None
    assert restored.launch.restore.path == stopped.path
    write_files(tmp_path / "in", 2, 3)
    flinkish.wait_for_batch(restored.job_id, 2)
    assert final_counts(tmp_path / "out") == expected_counts(3)
