"""Jobs that read and write Iceberg, each row counted in the real table.

The tables are read by pyiceberg, which shares no code with Iceberg's own classes.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from tests.support import venvs
from tests.support.cli.command import PROGRAMS, Flinkish
from tests.support.driver import iceberg
from tests.support.servers import jars
from tests.support.servers.kafka import KafkaServer
from tests.support.table_jobs import PROGRAM, TableJobs, check_from_kafka, saved_sink

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(1800)]

SPARKS = ("3.5.9", "4.0.5", "4.1.4")
#: The table that the jobs write to.
TABLE = "table:ice.db.t"
MakeJobs = Callable[[str], TableJobs]


def column_of(warehouse: Path, name: str, table: str = "t") -> Counter[int]:
    """How often each value is in a column of a table; none where there is no table yet."""
    versions = (warehouse / "db" / table / "metadata").glob("v*.metadata.json")
    newest = max(versions, key=lambda path: int(path.name[1:].split(".")[0]), default=None)
    if newest is None:
        return Counter()
    rows = StaticTable.from_metadata(str(newest)).scan(selected_fields=(name,)).to_arrow()
    return Counter(rows[name].to_pylist())


@pytest.fixture
def jobs_of(flinkish: Flinkish, tmp_path: Path) -> MakeJobs:
    def make(spark: str) -> TableJobs:
        try:
            python = venvs.interpreter(spark)
            options = ("-pyexec", python, *iceberg.options(spark, tmp_path / "wh"))
        except jars.Unavailable as why:
            pytest.skip(f"needs {why}")
        ids = lambda: column_of(tmp_path / "wh", "id")  # noqa: E731
        return TableJobs(flinkish, tmp_path, options, "iceberg", ids)

    return make


@pytest.mark.parametrize("spark", SPARKS)
@pytest.mark.parametrize("kind", ["table", "name"])
def test_stop_at_any_moment_and_go_on_changed(jobs_of: MakeJobs, spark: str, kind: str) -> None:
    jobs = jobs_of(spark)
    jobs.feed(3)
    job = jobs.run(TABLE, "--keys")
    jobs.wait_for_ids(job, 3)
    if kind == "name":  # `format("iceberg").start(name)` makes no table: it needs one
        path = jobs.stop(job)
        jobs.feed(1)
        target = TABLE.removeprefix("table:")
        job = jobs.run(target, "--keys", restore=("-s", path))
    else:
        target = TABLE
    with jobs.fed(9):
        jobs.wait_for_ids(job, 4)
        taken = jobs.savepoint(job)
        jobs.wait_for_ids(job, random.randint(5, 9))
        path = jobs.stop(job)
    sink = saved_sink(jobs.flinkish, taken)
    assert type(sink["table_version"]) is int, sink
    assert sink["table_id"]

    resumed = jobs.run(target, "--keys", "--version", "2", restore=("-s", path))
    jobs.feed(2)
    jobs.wait_for_ids(resumed, jobs.written)
    jobs.check_all_once()


@pytest.mark.parametrize(("spark", "registry"), [("3.5.9", "kept"), ("4.1.4", "lost")])
@pytest.mark.parametrize("mode", ["rebase", "accept", "rollback"])
def test_an_older_savepoint(
    jobs_of: MakeJobs, tmp_path: Path, spark: str, registry: str, mode: str
) -> None:
    """With the registry, the query gets a new id, else it keeps the savepoint's.

    Unlike other sinks, Iceberg's computes the batches that it skips: state goes on with accept too.
    """
    jobs = jobs_of(spark)
    jobs.feed(3)
    job = jobs.run(TABLE, "--keys")
    jobs.wait_for_ids(job, 3)
    older = jobs.savepoint(job)
    jobs.feed(4)
    jobs.wait_for_ids(job, 7)
    jobs.stop(job)
    if registry == "lost":
        jobs.flinkish.environ["XDG_STATE_HOME"] = str(tmp_path / "another")

    asked = jobs.check(TABLE, "--keys", restore=("-s", older))
    assert asked.code == 5, asked
    (sink,) = asked.json()["sinks"]
    assert (sink["verdict"], sink["newest_batch"]) == ("ahead", 6)
    assert "--sink-ahead rollback" in sink["advice"]
    plan = jobs.check(TABLE, "--keys", restore=("-s", older, "--sink-ahead", mode)).json()
    assert plan["sinks"][0]["verdict"] == mode, plan
    assert jobs.ids() == Counter(range(7)), "a check has changed the table"

    again = jobs.run(TABLE, "--keys", restore=("-s", older, "--sink-ahead", mode))
    jobs.feed(2)
    jobs.wait_for_ids(again, 9)
    jobs.stop(again)
    twice = {3, 4, 5, 6} if mode == "rebase" else set()
    assert jobs.ids() == Counter(range(9)) + Counter(twice)


@pytest.mark.parametrize("spark", ["3.5.9", "4.1.4"])
def test_an_upgrade_that_fails_leaves_no_row_of_the_new_program(
    jobs_of: MakeJobs, tmp_path: Path, spark: str
) -> None:
    jobs = jobs_of(spark)
    jobs.feed(3)
    job = jobs.run(TABLE, "--keys")
    jobs.wait_for_ids(job, 3)
    bad = (str(PROGRAMS / PROGRAM), "--", "iceberg", jobs.source, TABLE, "--keys", "--version", "2")
    command = ("upgrade", "in-place", "rows", "--savepointPath", str(tmp_path / "sp"))
    health = ("--sink-ahead", "rollback", "--health-batches", "4", "--health-timeout", "10m")
    with ThreadPoolExecutor() as pool:
        upgrade = pool.submit(
            jobs.flinkish, *command, *health, "--to", *bad, "--fail-after", "4", timeout=900
        )
        new = jobs.successor_of(job, upgrade)
        jobs.flinkish.wait_for_state(new, "RUNNING")
        jobs.feed(3)  # two of its batches are right
        failed = upgrade.result()
    assert failed.code == 1, failed
    assert "5 is too much" in failed.err
    again = jobs.flinkish.ok("list", "-q", "--name", "rows").out.strip()
    jobs.feed(1)
    jobs.wait_for_ids(again, 7)
    jobs.check_all_once()
    assert set(column_of(tmp_path / "wh", "version")) == {1}


@pytest.mark.parametrize("spark", ["3.5.9", "4.1.4"])
def test_iceberg_to_iceberg_and_a_fork(jobs_of: MakeJobs, tmp_path: Path, spark: str) -> None:
    jobs = jobs_of(spark)

    def ids_of(table: str) -> Callable[[], Counter[int]]:
        return lambda: column_of(tmp_path / "wh", "id", table)

    jobs.feed(3)
    feeder = jobs.run("table:ice.db.first")
    words = ("iceberg", "iceberg:ice.db.first")
    options = ("--name", "second", *jobs.options)
    jobs.wait_for_ids(feeder, 3, ids_of("first"))
    second = jobs.flinkish.run(PROGRAM, *words, TABLE, "--keys", options=options)
    jobs.wait_for_ids(second, 3)
    path = jobs.savepoint(second)
    jobs.feed(3)
    jobs.wait_for_ids(second, 6)

    forked = ("--name", "fork", *jobs.options, "-s", path, "--fork")
    fork = jobs.flinkish.run(PROGRAM, *words, "table:ice.db.other", "--keys", options=forked)
    jobs.wait_for_ids(fork, 3, ids_of("other"))
    assert ids_of("other")() == Counter(range(3, 6))
    jobs.stop(fork)

    stopped = jobs.stop(second)
    jobs.feed(2)
    resumed = jobs.flinkish.run(
        PROGRAM, *words, TABLE, "--keys", "--version", "2", options=(*options, "-s", stopped)
    )
    jobs.wait_for_ids(resumed, 8)
    jobs.check_all_once()


@pytest.mark.servers
@pytest.mark.parametrize("spark", ["3.5.9", "4.1.4"])
def test_from_kafka(jobs_of: MakeJobs, kafka: KafkaServer, spark: str) -> None:
    jobs = jobs_of(spark)
    name = f"to_iceberg_{uuid.uuid4().hex}"
    kafka.make_topic(name)
    jobs.topic = kafka, name
    paths = (*jars.iceberg(spark), *jars.kafka_connector(spark))
    jobs.options = (*jobs.options, "--conf=spark.jars=" + ",".join(map(str, paths)))
    check_from_kafka(jobs, TABLE)
