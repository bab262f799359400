"""What an offset log's pins say, and what it means where one is absent."""

from __future__ import annotations

import pytest

from flinkish.checkpoint.format import pins as names
from flinkish.checkpoint.format.errors import UnsupportedCheckpointFormat
from flinkish.checkpoint.format.pins import backend_of, known_backend, pinned, pinned_partitions


def test_backend_and_partitions() -> None:
    rocks = {"spark.sql.streaming.stateStore.providerClass": "a.RocksDBStateStoreProvider"}
    assert backend_of(rocks) == "rocksdb"
    assert backend_of({}) is None
    assert pinned_partitions({"spark.sql.shuffle.partitions": "8"}) == 8
    both = {
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.streaming.internal.stateStore.partitions": "3",
    }
    assert pinned_partitions(both) == 3
    assert pinned_partitions({}) is None
    assert pinned_partitions({"spark.sql.shuffle.partitions": "eight"}) is None


@pytest.mark.parametrize(
    ("provider", "backend"),
    [
        ("org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider", "hdfs"),
        ("org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider", "rocksdb"),
        ("shaded.org.apache.spark.RocksDBStateStoreProvider", "rocksdb"),
        ("RocksDBStateStoreProvider", "rocksdb"),
        # The cut said "rocksdb" and the engine refused it: its files may be anything.
        ("com.acme.TunedRocksDBStateStoreProviderV2", None),
        ("com.acme.RocksDBStateStoreProviderV2", None),
        ("com.acme.TunedHDFSBackedStateStoreProvider", None),
        ("com.acme.HDFSBackedStore", None),
    ],
)
def test_only_sparks_own_providers_are_known(provider: str, backend: str | None) -> None:
    pins = {names.PIN_PROVIDER: provider}
    assert backend_of(pins) == backend
    if backend is not None:
        assert known_backend(pins, "offsets/1") == backend
    else:
        with pytest.raises(UnsupportedCheckpointFormat, match=f"offsets/1: .*{provider}"):
            known_backend(pins, "offsets/1")


def test_without_a_provider_it_is_sparks_default() -> None:
    assert known_backend({}, "offsets/1") == "hdfs"


def test_an_absent_setting_is_what_spark_takes_it_for() -> None:
    """``OffsetSeqMetadata.relevantSQLConfDefaultValues``: not the default of a new query, 2."""
    for setting in (names.PIN_JOIN_FORMAT, names.PIN_AGGREGATION_FORMAT, names.PIN_GROUP_FORMAT):
        assert pinned({}, setting) == "1"
        assert pinned({setting: "3"}, setting) == "3"
    assert pinned({}, names.PIN_MERGE_OPERATOR) == "1"
    assert pinned({}, names.PIN_CODEC) == "lz4"
    assert pinned({}, names.PIN_SHUFFLE_PARTITIONS) == ""
