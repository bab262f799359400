"""Jobs that read and write Iceberg, each row counted in the real table.

The tables are read by pyiceberg, which shares no code with Iceberg's own classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from tests.support import table_jobs, venvs
from tests.support.cli.command import Flinkish
from tests.support.driver import iceberg
from tests.support.servers import jars
from tests.support.servers.kafka import KafkaServer
from tests.support.table_jobs import TABLE, TableJobs

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(1800)]

MakeJobs = Callable[[str], TableJobs]


def column_of(warehouse: Path, name: str, table: str) -> Counter[int]:
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
        return TableJobs(
            flinkish,
            tmp_path,
            options,
            "iceberg",
            target=lambda table: f"table:ice.db.{table}",
            column=lambda name, table: column_of(tmp_path / "wh", name, table),
        )

    return make


@pytest.mark.parametrize(
    ("spark", "kind"), [("3.5.9", "table"), ("4.0.5", "name"), ("4.1.4", "name")]
)
def test_stop_at_any_moment_and_go_on_changed(jobs_of: MakeJobs, spark: str, kind: str) -> None:
    jobs = jobs_of(spark)
    target = jobs.target(TABLE)
    if kind == "table":
        table_jobs.check_that_it_goes_on(jobs, target)
    else:  # `format("iceberg").start(name)` makes no table: it needs one
        table_jobs.check_that_it_goes_on(jobs, target.removeprefix("table:"), first=target)


@pytest.mark.parametrize(
    ("spark", "registry", "mode"),
    [
        ("3.5.9", "kept", "rebase"),
        ("4.1.4", "lost", "accept"),
        # By Iceberg's own classes, which are others on each Spark.
        ("3.5.9", "lost", "rollback"),
        ("4.1.4", "kept", "rollback"),
    ],
)
def test_an_older_savepoint(jobs_of: MakeJobs, spark: str, registry: str, mode: str) -> None:
    """Iceberg's sink computes the batches that it skips: state goes on with accept too."""
    table_jobs.check_an_older_savepoint(jobs_of(spark), mode, "--keys", registry=registry)


@pytest.mark.parametrize("spark", ["3.5.9", "4.1.4"])
def test_an_upgrade_that_fails_leaves_no_row_of_the_new_program(
    jobs_of: MakeJobs, spark: str
) -> None:
    table_jobs.check_an_upgrade_that_fails(jobs_of(spark))


@pytest.mark.parametrize("spark", ["3.5.9", "4.1.4"])
def test_iceberg_to_iceberg_and_a_fork(jobs_of: MakeJobs, spark: str) -> None:
    table_jobs.check_table_to_table(jobs_of(spark))


@pytest.mark.parametrize("spark", ["4.0.5"])
def test_tables_that_are_moved(jobs_of: MakeJobs, tmp_path: Path, spark: str) -> None:
    """As Iceberg itself moves them: its metadata has absolute paths."""
    jobs = jobs_of(spark)
    old, new = tmp_path / "wh", tmp_path / "new"

    def move() -> TableJobs:
        iceberg.move_tables(spark, old, new, ["db.first", f"db.{TABLE}"])
        return replace(
            jobs,
            options=("-pyexec", venvs.interpreter(spark), *iceberg.options(spark, new)),
            column=lambda name, table: column_of(new, name, table),
        )

    table_jobs.check_a_move(jobs, move, ("--map-path", f"{old}={new}"))


@pytest.mark.servers
@pytest.mark.parametrize("spark", ["3.5.9", "4.1.4"])
def test_from_kafka(jobs_of: MakeJobs, kafka: KafkaServer, spark: str) -> None:
    connectors = (*jars.iceberg(spark), *jars.kafka_connector(spark))
    table_jobs.check_from_kafka(jobs_of(spark), kafka, connectors)
