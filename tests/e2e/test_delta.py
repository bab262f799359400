"""Jobs that read and write Delta Lake, each row counted in the real table.

The tables are read by delta-rs, which shares no code with Delta's own classes.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tests.support import venvs
from tests.support.cli.command import PROGRAMS, Flinkish
from tests.support.servers import jars
from tests.support.servers.kafka import KafkaServer
from tests.support.table_jobs import PROGRAM, TableJobs, check_from_kafka, saved_sink

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(1800)]

SPARKS = ("3.5.9", "4.0.5")
MakeJobs = Callable[[str], TableJobs]


def ids_in(table: Path) -> Counter[int]:
    """How often each id is in a table; none where there is no table yet."""
    try:
        found = DeltaTable(str(table)).to_pyarrow_table(columns=["id"])
    except TableNotFoundError:
        return Counter()
    return Counter(found["id"].to_pylist())


def options_for(spark: str, root: Path) -> tuple[str, ...]:
    paths = ",".join(str(jar) for jar in jars.delta(spark))
    settings = {
        "spark.jars": paths,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
    }
    pairs = (f"--conf={key}={value}" for key, value in settings.items())
    return ("-pyexec", venvs.interpreter(spark), *pairs)


def lasting_catalog(root: Path) -> tuple[str, ...]:
    """A catalog that later drivers have too, one at a time: Hive's, in Derby."""
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:;create=true;databaseName="
        + str(root / "catalog"),
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
    }
    return tuple(f"--conf={key}={value}" for key, value in settings.items())


@pytest.fixture
def jobs_of(flinkish: Flinkish, tmp_path: Path) -> MakeJobs:
    def make(spark: str) -> TableJobs:
        try:
            options = options_for(spark, tmp_path)
        except jars.Unavailable as why:
            pytest.skip(f"needs {why}")
        return TableJobs(flinkish, tmp_path, options, "delta", lambda: ids_in(tmp_path / "t"))

    return make


@pytest.mark.parametrize("spark", SPARKS)
@pytest.mark.parametrize("kind", ["path", "table"])
def test_stop_at_any_moment_and_go_on_changed(
    jobs_of: MakeJobs, tmp_path: Path, spark: str, kind: str
) -> None:
    jobs = jobs_of(spark)
    target = str(tmp_path / "t")
    if kind == "table":
        target = "table:t"
        jobs.ids = lambda: ids_in(tmp_path / "warehouse" / "t")
        jobs.options = (*jobs.options, *lasting_catalog(tmp_path))
    jobs.feed(3)
    job = jobs.run(target, "--keys")
    with jobs.fed(8):
        jobs.wait_for_ids(job, 3)
        taken = jobs.savepoint(job)
        jobs.wait_for_ids(job, random.randint(4, 8))
        path = jobs.stop(job)
    sink = saved_sink(jobs.flinkish, taken)
    assert type(sink["table_version"]) is int, sink
    assert sink["table_id"]

    resumed = jobs.run(target, "--keys", "--version", "2", restore=("-s", path))
    jobs.feed(2)
    jobs.wait_for_ids(resumed, jobs.written)
    jobs.check_all_once()


@pytest.mark.parametrize(("spark", "registry"), [("3.5.9", "kept"), ("4.0.5", "lost")])
@pytest.mark.parametrize("mode", ["rebase", "accept", "rollback"])
def test_an_older_savepoint(
    jobs_of: MakeJobs, tmp_path: Path, spark: str, registry: str, mode: str
) -> None:
    """With the registry, the query gets a new id, else it keeps the savepoint's."""
    jobs = jobs_of(spark)
    target = str(tmp_path / "t")
    words = () if mode == "accept" else ("--keys",)
    jobs.feed(3)
    job = jobs.run(target, *words)
    jobs.wait_for_ids(job, 3)
    older = jobs.savepoint(job)
    jobs.feed(4)
    jobs.wait_for_ids(job, 7)
    jobs.stop(job)
    if registry == "lost":
        jobs.flinkish.environ["XDG_STATE_HOME"] = str(tmp_path / "another")

    asked = jobs.check(target, *words, restore=("-s", older))
    assert asked.code == 5, asked
    (sink,) = asked.json()["sinks"]
    assert (sink["verdict"], sink["newest_batch"]) == ("ahead", 6)
    assert "--sink-ahead rollback" in sink["advice"]
    plan = jobs.check(target, *words, restore=("-s", older, "--sink-ahead", mode)).json()
    assert plan["sinks"][0]["verdict"] == mode, plan
    assert ids_in(tmp_path / "t") == Counter(range(7)), "a check has changed the table"

    again = jobs.run(target, *words, restore=("-s", older, "--sink-ahead", mode))
    jobs.feed(2)
    jobs.wait_for_ids(again, 9)
    jobs.stop(again)
    twice = {3, 4, 5, 6} if mode == "rebase" else set()
    assert ids_in(tmp_path / "t") == Counter(range(9)) + Counter(twice)


@pytest.mark.parametrize("spark", SPARKS)
def test_a_table_that_others_have_written_to_does_not_go_back(
    jobs_of: MakeJobs, tmp_path: Path, spark: str
) -> None:
    jobs = jobs_of(spark)
    target = str(tmp_path / "t")
    jobs.feed(2)
    job = jobs.run(target)
    jobs.wait_for_ids(job, 2)
    older = jobs.savepoint(job)
    jobs.feed(1)
    jobs.wait_for_ids(job, 3)
    jobs.stop(job)
    DeltaTable(target).delete("id = 0")
    refused = jobs.check(target, restore=("-s", older, "--sink-ahead", "rollback"))
    assert refused.code == 5
    assert "others have written to it since" in refused.json()["sinks"][0]["text"]
    assert ids_in(tmp_path / "t") == Counter([1, 2])


@pytest.mark.parametrize("spark", SPARKS)
def test_delta_to_delta_and_a_fork(jobs_of: MakeJobs, tmp_path: Path, spark: str) -> None:
    jobs = jobs_of(spark)
    first, target, other = (str(tmp_path / name) for name in ("first", "t", "other"))
    jobs.feed(3)
    feeder = jobs.run(first)
    words = ("delta", f"delta:{first}")
    options = ("--name", "second", *jobs.options)
    jobs.wait_for_ids(feeder, 3, lambda: ids_in(Path(first)))
    second = jobs.flinkish.run(PROGRAM, *words, target, "--keys", options=options)
    jobs.wait_for_ids(second, 3)
    path = jobs.savepoint(second)
    jobs.feed(3)
    jobs.wait_for_ids(second, 6)

    forked = ("--name", "fork", *jobs.options, "-s", path, "--fork")
    fork = jobs.flinkish.run(PROGRAM, *words, other, "--keys", options=forked)
    jobs.wait_for_ids(fork, 3, lambda: ids_in(Path(other)))
    assert ids_in(Path(other)) == Counter(range(3, 6))
    jobs.stop(fork)

    stopped = jobs.stop(second)
    jobs.feed(2)
    resumed = jobs.flinkish.run(
        PROGRAM, *words, target, "--keys", "--version", "2", options=(*options, "-s", stopped)
    )
    jobs.wait_for_ids(resumed, 8)
    jobs.check_all_once()


@pytest.mark.servers
def test_from_kafka(jobs_of: MakeJobs, tmp_path: Path, kafka: KafkaServer) -> None:
    """On Spark 3.5, for which both connectors can be had."""
    jobs = jobs_of("3.5.9")
    name = f"to_delta_{uuid.uuid4().hex}"
    kafka.make_topic(name)
    jobs.topic = kafka, name
    paths = (*jars.delta("3.5.9"), *jars.kafka_connector("3.5.9"))
    jobs.options = (*jobs.options, "--conf=spark.jars=" + ",".join(map(str, paths)))
    check_from_kafka(jobs, str(tmp_path / "t"))


@pytest.mark.parametrize("spark", SPARKS)
def test_an_upgrade_that_fails_leaves_no_row_of_the_new_program(
    jobs_of: MakeJobs, tmp_path: Path, spark: str
) -> None:
    jobs = jobs_of(spark)
    target = str(tmp_path / "t")
    jobs.feed(3)
    job = jobs.run(target, "--keys")
    jobs.wait_for_ids(job, 3)
    bad = (str(PROGRAMS / PROGRAM), "--", "delta", jobs.source, target, "--keys", "--version", "2")
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
    table = DeltaTable(target)
    found = table.to_pyarrow_table(columns=["version"])
    assert set(found["version"].to_pylist()) == {1}
    assert "RESTORE" in [commit["operation"] for commit in table.history()]
