"""The settings that an offset log pins, and what Spark assumes where a setting is absent.

The ``relevantSQLConfs`` of Spark's ``OffsetSeqMetadata`` are written into each entry of the offset
log, and override the session's settings at a restart (``setSessionConf``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flinkish.checkpoint.format.errors import UnsupportedCheckpointFormat
from flinkish.checkpoint.format.names import HDFS, ROCKSDB, parse_number

_STREAMING: Final = "spark.sql.streaming."
PIN_STORE: Final = f"{_STREAMING}stateStore."
PIN_PROVIDER: Final = f"{PIN_STORE}providerClass"
PIN_SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
#: From 4.1: the number of state partitions where it differs from the shuffle's.
PIN_STATE_PARTITIONS: Final = f"{_STREAMING}internal.stateStore.partitions"
PIN_WATERMARK_POLICY: Final = f"{_STREAMING}multipleWatermarkPolicy"
PIN_DEDUP_ORDER: Final = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"
PIN_JOIN_FORMAT: Final = f"{_STREAMING}join.stateFormatVersion"
PIN_AGGREGATION_FORMAT: Final = f"{_STREAMING}aggregation.stateFormatVersion"
PIN_GROUP_FORMAT: Final = f"{_STREAMING}flatMapGroupsWithState.stateFormatVersion"
PIN_STRICT_DISTRIBUTION: Final = f"{_STREAMING}statefulOperator.useStrictDistribution"
PIN_CODEC: Final = f"{PIN_STORE}compression.codec"
PIN_ENCODING: Final = f"{PIN_STORE}encodingFormat"
PIN_ROW_CHECKSUM: Final = f"{PIN_STORE}rowChecksum.enabled"
PIN_CHANGELOG: Final = f"{PIN_STORE}rocksdb.changelogCheckpointing.enabled"
#: Delimiter between the records of a list: 1 is ",", 2 is none.
PIN_MERGE_OPERATOR: Final = f"{PIN_STORE}rocksdb.mergeOperatorVersion"
#: Not pinned, although Spark before 4.3 needs it set again for a checkpoint written with 2.
SETTING_CHECKPOINT_FORMAT: Final = f"{PIN_STORE}checkpointFormatVersion"

PROVIDER_PACKAGE: Final = "org.apache.spark.sql.execution.streaming.state."
PROVIDERS: Final = {
    HDFS: "HDFSBackedStateStoreProvider",
    ROCKSDB: "RocksDBStateStoreProvider",
}
_BACKENDS: Final = {name: backend for backend, name in PROVIDERS.items()}
#: Meaning of an entry without the setting: ``OffsetSeqMetadata.relevantSQLConfDefaultValues`` of
#: 4.3.0, where the formats of state are each manager's ``legacyVersion``, 1 (for joins
#: ``SymmetricHashJoinStateManager.legacyVersion``). These are not today's defaults, which are 2.
_ABSENT: Final = {
    PIN_JOIN_FORMAT: "1",
    PIN_AGGREGATION_FORMAT: "1",
    PIN_GROUP_FORMAT: "1",
    PIN_WATERMARK_POLICY: "min",
    PIN_CODEC: "lz4",
    PIN_ENCODING: "unsaferow",
    PIN_ROW_CHECKSUM: "false",
    PIN_MERGE_OPERATOR: "1",
    PIN_STRICT_DISTRIBUTION: "false",
    PIN_DEDUP_ORDER: "false",
    # If it is absent, the session decides; this is Spark's default.
    PIN_PROVIDER: f"{PROVIDER_PACKAGE}{PROVIDERS[HDFS]}",
}


def pinned(pins: Mapping[str, str], setting: str) -> str:
    """Return a pinned setting (``PIN_``), or Spark's meaning of its absence ("" if it has none)."""
    return pins.get(setting, _ABSENT.get(setting, ""))


def short_codec(codec: str) -> str:
    """Return Spark's short name for a codec, such as ``lz4``, given that name or its class."""
    simple = codec.rpartition(".")[2]
    return simple.removesuffix("CompressionCodec").lower()


def backend_of(pins: Mapping[str, str]) -> str | None:
    """Return the backend of the pinned state store provider; None if it is unknown or not pinned.

    Spark's own two classes are recognised by simple names, for builds that relocate its packages.
    """
    return _BACKENDS.get(pins.get(PIN_PROVIDER, "").rpartition(".")[2])


def known_backend(pins: Mapping[str, str], name: str) -> str:
    """Return the backend of a query's state, Spark's default where no provider is pinned.

    ``name`` is for errors. Raises UnsupportedCheckpointFormat if the provider is not Spark's.
    """
    provider = pinned(pins, PIN_PROVIDER)
    backend = _BACKENDS.get(provider.rpartition(".")[2])
    if backend is None:
        reason = f"the state store provider {provider[:200]!r} is not known"
        raise UnsupportedCheckpointFormat(name, None, reason)
    return backend


def pinned_partitions(pins: Mapping[str, str]) -> int | None:
    """Return the number of state partitions pinned at the query's first start, if recorded."""
    for key in (PIN_STATE_PARTITIONS, PIN_SHUFFLE_PARTITIONS):
        number = parse_number(pins.get(key, ""))
        if number is not None:
            return number
    return None
