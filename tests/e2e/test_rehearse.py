"""``rehearse`` and ``upgrade in-place --rehearse`` on real Spark, beside a job that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish import Client, Program
from tests.e2e.test_lifecycle import write_files
from tests.e2e.test_restarts import check_counted
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(600)]

#: Fails in the batch in which it meets a number that it does not expect.
STRICT = """
rows = rows.where("assert_true(value < LIMIT, 'unexpected number') is null")

query ="""


def test_beside_a_job(flinkish: Flinkish, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    good, bad = PROGRAMS / "counted.py", tmp_path / "bad.py"
    job = flinkish.run("counted.py", str(out), options=("--name", "rides"))
    flinkish.wait_for_batch(job, 1)
    strict = STRICT.replace("LIMIT", str(10 * check_counted(out)))  # the job is further
    bad.write_text(good.read_text().replace("query =", strict, 1))
    words = ("-m", "local[2]", *LIGHT)

    refused = flinkish("rehearse", *words, "rides", str(good), str(out))
    assert refused.code == 2
    assert "query 'counted' writes to a foreachBatch sink" in refused.err

    done = flinkish.ok("rehearse", *words, "--sink", "noop", "--json", "rides", str(good), str(out))
    (query,) = done.json()["queries"]
    assert query["restored_batch"] >= 1
    assert [each["input_rows"] for each in query["batches"]][:3] == [10, 10, 10]
    assert query["error"] is None

    upgrade = ("upgrade", "in-place", "rides", "--to", str(bad), "--savepointPath", "sp")
    failed = flinkish(*upgrade, "--rehearse")
    assert failed.code == 1
    assert "the rehearsal failed: query 'counted', batch " in failed.err
    assert flinkish.job(job)["state"] == "RUNNING"
    assert flinkish.job(job)["upgrades"] == []
    assert not (tmp_path / "sp").exists()
    check_counted(out)
    left = [path.name for path in Path(flinkish.job(job)["checkpoint_dir"]).parent.iterdir()]
    assert left == [job], "nothing of the rehearsals is left"
    flinkish.ok("cancel", "rides")


def test_the_python_api(
    flinkish: Flinkish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", flinkish.environ["XDG_STATE_HOME"])
    source, out = tmp_path / "in", tmp_path / "out"
    write_files(source, 0, 4)
    job = flinkish.run("counts.py", str(source), str(out), options=("--name", "counts"))
    flinkish.wait_for_batch(job, 3)
    path = flinkish.ok("stop", "-q", "-p", "sp", job).out.strip()
    write_files(source, 4, 9)
    before = sorted(out.rglob("*"))
    conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    with Client() as client:
        done = client.rehearse(
            path,
            Program(
                str(PROGRAMS / "counts.py"), (str(source), str(out)), master="local[2]", conf=conf
            ),
            max_rows=200,
            batches=10,
            drop_output=True,
        )
    assert done.ok
    assert done.error() is None
    (query,) = done.queries
    assert query.restored_batch == 3
    assert query.input_rows in (200, 300), "a file has 100; the next batch may have run by then"
    assert sorted(out.rglob("*")) == before
