"""The whole lifecycle on another Spark than the installed one, and from one to the other.

``make test-matrix`` makes the second virtual environment and names its interpreter in
``FLINKISH_SPARK35_PYTHON``. That environment holds neither flinkish nor its dependencies.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_lifecycle import expected_counts, final_counts, write_files
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish

pytestmark = [pytest.mark.spark, pytest.mark.matrix]


@pytest.fixture(scope="module")
def spark35() -> str:
    """The interpreter of the environment with Spark 3.5.9."""
    python = os.environ.get("FLINKISH_SPARK35_PYTHON")
    if not python:
        pytest.skip("needs FLINKISH_SPARK35_PYTHON: run this through make test-matrix")
    return python


@pytest.fixture(params=["interpreter", "spark-home"])
def on35(request: pytest.FixtureRequest, spark35: str) -> tuple[str, ...]:
    """Two ways to choose the other Spark."""
    if request.param == "interpreter":
        return ("-pyexec", spark35)
    find = "import pyspark, os; print(os.path.dirname(pyspark.__file__))"
    home = subprocess.run([spark35, "-c", find], capture_output=True, text=True, check=True)
    return ("--spark-home", home.stdout.strip())


def test_the_whole_lifecycle_on_35(
    flinkish: Flinkish, tmp_path: Path, on35: tuple[str, ...]
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    write_files(source, 0, 3)
    job = flinkish.run("counts.py", str(source), str(out), options=on35)
    record = flinkish.wait_for_batch(job, 1)
    assert record["spark_version"].startswith("3.5.")
    listed = flinkish.ok("list", "--json").json()["jobs"]
    assert [j["state"] for j in listed] == ["RUNNING"]
    flinkish.ok("savepoint", job, str(tmp_path / "sp"))
    # A stop that fails leaves the job running on this Spark too.
    (tmp_path / "file").write_text("in the way")
    assert flinkish("stop", "-p", str(tmp_path / "file" / "sp"), job).code == 16
    assert flinkish.job(job)["state"] == "RUNNING"
    path = flinkish.ok("stop", "-q", "-p", str(tmp_path / "sp"), job).out.strip()
    assert flinkish.job(job)["state"] == "FINISHED"
    write_files(source, 3, 5)
    again = flinkish.run("counts.py", str(source), str(out), "--now", options=(*on35, "-s", path))
    record = flinkish.wait(again, lambda r: r["state"] in ("FINISHED", "FAILED"))
    assert record["state"] == "FINISHED"
    assert final_counts(out) == expected_counts(5)
    last = flinkish.run("rate.py", options=on35)
    flinkish.wait_for_batch(last, 0)
    flinkish.ok("cancel", "-s", str(tmp_path / "sp"), last)
    assert flinkish.job(last)["state"] == "CANCELED"


def test_up_to_the_installed_spark_and_down_again(
    flinkish: Flinkish, tmp_path: Path, spark35: str
) -> None:
    source, out, target = tmp_path / "in", tmp_path / "out", str(tmp_path / "sp")
    ways = (("-pyexec", spark35), (), ("-pyexec", spark35))
    versions: list[str] = []
    restore: tuple[str, ...] = ()
    for step, way in enumerate(ways):
        write_files(source, step * 2, step * 2 + 2)
        if restore:
            words = ("-m", "local[2]", *LIGHT, *way, *restore, str(PROGRAMS / "counts.py"))
            plan = flinkish.ok("check", "--json", *words, str(source), str(out)).json()
            assert (plan["verdict"], plan["version"]["verdict"]) == ("ok", "ok")
            assert plan["version"]["from"] == versions[-1] != plan["version"]["to"]
        job = flinkish.run("counts.py", str(source), str(out), options=(*way, *restore))
        flinkish.wait_for_batch(job, step * 2 + 1)
        versions.append(flinkish.job(job)["spark_version"])
        restore = ("-s", flinkish.ok("stop", "-q", "-p", target, job).out.strip())
    assert versions[0] == versions[2] != versions[1]
    assert final_counts(out) == expected_counts(6)
