"""What a migration is asked for, from Python; the real one is in tests/e2e/test_migrate.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish import Client
from flinkish.client.migration import Changes, migration_for, new_schema, plan_migration
from flinkish.errors import LaunchFailed, UsageError
from flinkish.savepoint.format.reader import open_savepoint
from tests.cli.commands.test_state import save


def test_changes_are_planned(private: Path) -> None:
    opened = open_savepoint(save(private, "rocksdb-tws", "hdfs-agg"))
    schema = {"type": "record", "name": "value", "fields": []}
    asked = new_schema(opened, "rocksdb-tws/count", lambda: schema)
    assert (asked.state, asked.schema, asked.name) == ("count", schema, "rocksdb-tws/count")
    changes = Changes(partitions=5, join_format=2, aggregation_format=1, group_format=2)
    migration = migration_for(opened, "/new", changes, [asked])
    assert migration.formats == {
        "spark.sql.streaming.join.stateFormatVersion": "2",
        "spark.sql.streaming.aggregation.stateFormatVersion": "1",
        "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "2",
    }
    assert (migration.partitions, migration.backend, migration.schemas) == (5, None, (asked,))
    planned = plan_migration(opened, migration_for(opened, "/new", Changes(partitions=5)))
    assert [each.partitions for each in planned] == [(2, 5), (2, 5)]
    with pytest.raises(UsageError, match="no operator 'nobody'"):
        new_schema(opened, "nobody", lambda: pytest.fail("it is read for nothing"))


def test_what_cannot_be_is_refused(private: Path) -> None:
    path = save(private, "hdfs-agg")
    with Client() as client:
        with pytest.raises(UsageError, match="has no backend"):
            client.migrate(path, "new", Changes(type="canonical", backend="hdfs"))
        with pytest.raises(LaunchFailed, match="is not a Spark"):
            client.migrate(path, "new", Changes(partitions=5), spark_home=str(private))
    assert not (private / "new").exists()
