"""The flights job upgraded in place with its state: 3.5.9 to the installed Spark and back, and
from 4.0 line by line to the installed one; and a whole cluster exchanged."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flinkish.examples import flights
from flinkish.examples.flights import check, data
from flinkish.examples.flights.demo import ALL_THROUGH
from tests.e2e.test_matrix import spark35 as spark35
from tests.e2e.test_restarts import check_counted
from tests.support import venvs
from tests.support.cli.command import Flinkish
from tests.support.driver.operator_programs import BACKENDS

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(1200)]

HERE = Path(flights.__file__).parent
#: The program's arguments of the last job, which has to read the rest.
FASTER = ("flights", "results", "--files-per-trigger", "16", "--every", "1 second")


@pytest.mark.parametrize("backend", ["hdfs", "rocksdb"])
def test_up_with_another_program_and_back(
    flinkish: Flinkish, tmp_path: Path, spark35: str, backend: str
) -> None:
    """Both ways once by a handover; the output equals that of a batch over all flights."""
    data.prepare(tmp_path / "flights")
    for name in ("delays_v1.py", "delays_v2.py"):
        shutil.copy(HERE / name, tmp_path)
    conf = tuple(f"--conf={key}={value}" for key, value in BACKENDS[backend].items())
    # Slow enough that there is input until the last upgrade is through.
    words = ("flights", "results", "--files-per-trigger", "7", "--every", "4 seconds")
    old = flinkish.run(
        tmp_path / "delays_v1.py", *words, options=("--name", "rides", "-pyexec", spark35, *conf)
    )
    assert flinkish.wait_for_batch(old, 2)["spark_version"].startswith("3.5.")

    handover = {"hdfs": (("--handover",), ()), "rocksdb": ((), ("--handover",))}[backend]
    upgrade = ("upgrade", "in-place", "rides", "--savepointPath", "sp", "--json")
    new = (*upgrade, "--to", "delays_v2.py", "-pyexec", sys.executable)
    up = flinkish.ok(*new, *handover[0]).json()
    assert up["state"] == "UPGRADED"
    assert not flinkish.job(up["new_job_id"])["spark_version"].startswith("3.")

    # The engine's packages are not in that environment: refused before the job is stopped.
    refused = flinkish(*upgrade, "-pyexec", spark35, "-p", "5")
    assert refused.code == 4
    assert "flinkish[engine]" in refused.out + refused.err
    assert flinkish.job(up["new_job_id"])["state"] == "RUNNING"

    back = (*upgrade, "-pyexec", spark35, *handover[1], "--", *FASTER)
    down = flinkish.ok(*back).json()
    assert down["state"] == "UPGRADED"
    job = down["new_job_id"]
    assert flinkish.job(job)["spark_version"].startswith("3.5.")
    check_all_through(flinkish, tmp_path, job, last_of_v1=up["savepoint"])


@pytest.mark.parametrize("backend", ["hdfs", "rocksdb"])
def test_from_line_to_line(flinkish: Flinkish, tmp_path: Path, backend: str) -> None:
    """4.0 to 4.1 to 4.2 to the installed Spark, there with the next program; one by a handover."""
    oldest, *lines = (spark for spark in venvs.ENVIRONMENTS if spark > "4")
    data.prepare(tmp_path / "flights")
    for name in ("delays_v1.py", "delays_v2.py"):
        shutil.copy(HERE / name, tmp_path)
    conf = tuple(f"--conf={key}={value}" for key, value in BACKENDS[backend].items())
    # As above.
    words = ("flights", "results", "--files-per-trigger", "4", "--every", "4 seconds")
    first = ("--name", "rides", "-pyexec", venvs.interpreter(oldest), *conf)
    job = flinkish.run(tmp_path / "delays_v1.py", *words, options=first)
    assert flinkish.wait_for_batch(job, 2)["spark_version"] == oldest

    handover = {"hdfs": lines[0], "rocksdb": lines[1]}[backend]
    for spark in lines:
        changes = ["-pyexec", venvs.interpreter(spark), "--savepointPath", "sp", "--json"]
        changes += ["--handover"] if spark == handover else []
        changes += ["--to", "delays_v2.py", "--", *FASTER] if spark == lines[-1] else []
        done = flinkish.ok("upgrade", "in-place", "rides", *changes).json()
        assert (done["state"], done["job_id"]) == ("UPGRADED", job)
        job = done["new_job_id"]
        assert flinkish.job(job)["spark_version"] == spark
        assert (flinkish.job(job)["queries"][0]["watermark"] or "") < ALL_THROUGH, "input is left"
    check_all_through(flinkish, tmp_path, job, last_of_v1=done["savepoint"])


def check_all_through(flinkish: Flinkish, directory: Path, job: str, last_of_v1: str) -> None:
    """Let a job read the rest, and compare all output with a batch over all flights.

    ``last_of_v1`` is the savepoint from which the second program went on.
    """
    flinkish.wait(
        job, lambda found: (found["queries"][0]["watermark"] or "") >= ALL_THROUGH, timeout=600.0
    )
    flinkish.ok("cancel", "rides")
    saved = flinkish.ok("savepoint", "show", last_of_v1, "--json").json()["savepoint"]
    batch = str(saved["queries"][0]["batch_id"])
    compared = subprocess.run(
        [sys.executable, "-m", check.__name__, "flights", "results", batch],
        cwd=directory,
        capture_output=True,
        text=True,
    )
    assert compared.returncode == 0, compared.stdout + compared.stderr


def test_a_cluster_is_exchanged(flinkish: Flinkish, tmp_path: Path, spark35: str) -> None:
    """Two jobs stopped together on 3.5 and started together on the installed Spark."""
    outs = {"a": tmp_path / "a", "b": tmp_path / "b"}
    for name, out in outs.items():
        out.mkdir()
        job = flinkish.run("counted.py", str(out), options=("--name", name, "-pyexec", spark35))
        assert flinkish.wait_for_batch(job, 1)["spark_version"].startswith("3.5.")
    assert len(flinkish.ok("stop", "--all", "-p", "sp", "--json").json()["savepoints"]) == 2
    started = flinkish.ok("restart", "--all", "-pyexec", sys.executable, "--json").json()
    assert [each["name"] for each in started["restarted"]] == ["a", "b"]
    for each in started["restarted"]:
        ended = check_counted(outs[each["name"]])
        new = flinkish.wait_for_batch(each["new_job_id"], ended + 2)
        assert not new["spark_version"].startswith("3.")
        flinkish.ok("cancel", each["new_job_id"])
        check_counted(outs[each["name"]])
