"""What a migration is asked for, from Python; the real one is in tests/e2e/test_migrate.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish import Client
from flinkish.client.context import Context
from flinkish.client.migration import Changes, plan_migration
from flinkish.client.program import own_application
from flinkish.config import Config
from flinkish.errors import LaunchFailed, UsageError
from flinkish.messages.launch import Program
from tests.cli.conftest import Command
from tests.support.checkpoints.saved import save


def test_changes_are_planned(private: Path) -> None:
    path = save(private, "rocksdb-tws", "hdfs-agg")
    schema = {"type": "record", "name": "value", "fields": []}
    with Context(Config.load()) as context:
        plan = plan_migration(context, path, "/new", Changes(partitions=5))
        assert (plan.savepoint, plan.migration.partitions) == (path, 5)
        assert [each.partitions for each in plan.operators] == [(2, 5), (2, 5)]
        changes = Changes(join_format=2, aggregation_format=1, group_format=2)
        migration = plan_migration(context, path, "/new", changes).migration
        assert migration.formats == {
            "spark.sql.streaming.join.stateFormatVersion": "2",
            "spark.sql.streaming.aggregation.stateFormatVersion": "1",
            "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "2",
        }
        with pytest.raises(UsageError, match="no operator 'nobody'"):
            plan_migration(context, path, "/new", Changes(), [("nobody", schema)])


def test_what_cannot_be_is_refused(private: Path) -> None:
    path = save(private, "hdfs-agg")
    with Client() as client:
        with pytest.raises(UsageError, match="has no backend"):
            client.migrate(path, "new", Changes(type="canonical", backend="hdfs"))
        with pytest.raises(LaunchFailed, match="is not a Spark"):
            client.migrate(path, "new", Changes(partitions=5), spark_home=str(private))
    assert not (private / "new").exists()


def test_an_application_of_flinkish_gets_the_configured_settings_of_spark(cli: Command) -> None:
    configured = {"spark.driver.memory": "4g", "spark.master": "local[1]"}
    config = Config.load(flags={**configured, "client.timeout": "5 s"})
    program = Program(spark_home=str(cli.spark_home), conf={"spark.driver.memory": "8g"})
    launch, _ = own_application(program, config)
    assert launch.conf["spark.driver.memory"] == "8g"
    assert launch.conf["spark.master"] == "local[1]"
    assert "client.timeout" not in launch.conf
