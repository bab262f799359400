"""Jobs that read and write Delta Lake, each row counted in the real table.

The tables are read by delta-rs, which shares no code with Delta's own classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tests.support import table_jobs, venvs
from tests.support.cli.command import Flinkish
from tests.support.servers import jars
from tests.support.servers.kafka import KafkaServer
from tests.support.table_jobs import TABLE, TableJobs

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(1800)]

SPARKS = ("3.5.9", "4.0.5")
MakeJobs = Callable[[str], TableJobs]


def column_of(table: Path, name: str) -> Counter[int]:
    """How often each value is in a column of a table; none where there is no table yet."""
    try:
        found = DeltaTable(str(table)).to_pyarrow_table(columns=[name])
    except TableNotFoundError:
        return Counter()
    return Counter(found[name].to_pylist())


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
        return TableJobs(
            flinkish,
            tmp_path,
            options,
            "delta",
            target=lambda table: str(tmp_path / table),
            column=lambda name, table: column_of(tmp_path / table, name),
        )

    return make


@pytest.mark.parametrize(("spark", "kind"), [("3.5.9", "path"), ("4.0.5", "table")])
def test_stop_at_any_moment_and_go_on_changed(
    jobs_of: MakeJobs, tmp_path: Path, spark: str, kind: str
) -> None:
    jobs = jobs_of(spark)
    target = jobs.target(TABLE)
    if kind == "table":
        target = f"table:{TABLE}"
        jobs.column = lambda name, table: column_of(tmp_path / "warehouse" / table, name)
        jobs.options = (*jobs.options, *lasting_catalog(tmp_path))
    table_jobs.check_that_it_goes_on(jobs, target)


@pytest.mark.parametrize(
    ("spark", "registry", "mode"),
    [
        ("3.5.9", "kept", "rebase"),
        ("4.0.5", "lost", "accept"),
        # By Delta's own classes, which are others on each Spark.
        ("3.5.9", "lost", "rollback"),
        ("4.0.5", "kept", "rollback"),
    ],
)
def test_an_older_savepoint(jobs_of: MakeJobs, spark: str, registry: str, mode: str) -> None:
    """With accept without state, which lacks the batches that Delta's sink skips."""
    words = () if mode == "accept" else ("--keys",)
    table_jobs.check_an_older_savepoint(jobs_of(spark), mode, *words, registry=registry)


@pytest.mark.parametrize("spark", SPARKS)
def test_a_table_that_others_have_written_to_does_not_go_back(
    jobs_of: MakeJobs, spark: str
) -> None:
    jobs = jobs_of(spark)
    target = jobs.target(TABLE)
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
    assert jobs.ids() == Counter([1, 2])


@pytest.mark.parametrize("spark", SPARKS)
def test_delta_to_delta_and_a_fork(jobs_of: MakeJobs, spark: str) -> None:
    table_jobs.check_table_to_table(jobs_of(spark))


@pytest.mark.parametrize("spark", ["4.0.5"])
def test_tables_that_are_moved(jobs_of: MakeJobs, tmp_path: Path, spark: str) -> None:
    jobs = jobs_of(spark)
    old, new = tmp_path / "old", tmp_path / "new place"

    def at(place: Path) -> TableJobs:
        place.mkdir(exist_ok=True)
        return replace(
            jobs,
            target=lambda table: str(place / table),
            column=lambda name, table: column_of(place / table, name),
        )

    def move() -> TableJobs:
        old.rename(new)
        return replace(at(new), written=there.written)

    there = at(old)
    table_jobs.check_a_move(there, move, ("--map-path", f"{old}={new}"))


@pytest.mark.servers
def test_from_kafka(jobs_of: MakeJobs, kafka: KafkaServer) -> None:
    """On Spark 3.5, for which both connectors can be had."""
    connectors = (*jars.delta("3.5.9"), *jars.kafka_connector("3.5.9"))
    table_jobs.check_from_kafka(jobs_of("3.5.9"), kafka, connectors)


@pytest.mark.parametrize("spark", SPARKS)
def test_an_upgrade_that_fails_leaves_no_row_of_the_new_program(
    jobs_of: MakeJobs, spark: str
) -> None:
    jobs = jobs_of(spark)
    table_jobs.check_an_upgrade_that_fails(jobs)
    history = DeltaTable(jobs.target(TABLE)).history()
    assert "RESTORE" in [commit["operation"] for commit in history]
