"""The pinned settings of a checkpoint whose state is rewritten.

The settings that an entry of the offset log pins (backend, partitions, formats) override the
session's at a restart, so they must describe the new state (``OffsetSeqMetadata``).
"""

from __future__ import annotations

from collections.abc import Mapping

from flinkish.avro.container import COMPRESS
from flinkish.checkpoint.format.names import CANONICAL, HDFS, ROCKSDB
from flinkish.checkpoint.format.pins import (
    PIN_CODEC,
    PIN_MERGE_OPERATOR,
    PIN_PROVIDER,
    PIN_SHUFFLE_PARTITIONS,
    PIN_STATE_PARTITIONS,
    PROVIDER_PACKAGE,
    PROVIDERS,
    backend_of,
)
from flinkish.engine.migration.migration_planner import TargetState


def target_pins(target_state: TargetState, pins: Mapping[str, str]) -> dict[str, str]:
    """Return the pins that change for a target state of all operators of a query. Pure.

    Canonical state changes neither the backend nor the codec: the pins keep those of its source.

    ``pins`` are those of the old state.
    """
    new_pins = dict(target_state.formats)
    if target_state.partitions is not None:
        new_pins[PIN_SHUFFLE_PARTITIONS] = str(target_state.partitions)
        if PIN_STATE_PARTITIONS in pins:
            new_pins[PIN_STATE_PARTITIONS] = str(target_state.partitions)
    if target_state.backend is not None and target_state.backend != CANONICAL:
        backend = HDFS if target_state.backend == HDFS else ROCKSDB
        if backend_of(pins) != backend:
            new_pins[PIN_PROVIDER] = PROVIDER_PACKAGE + PROVIDERS[backend]
    if (
        target_state.spark is not None
        and target_state.spark < (4, 2)
        and pins.get(PIN_MERGE_OPERATOR) == "2"
    ):
        new_pins[PIN_MERGE_OPERATOR] = "1"  # the only version that these support
    if target_state.compression is not None and target_state.compression not in COMPRESS:
        new_pins[PIN_CODEC] = target_state.compression
    return {key: value for key, value in new_pins.items() if pins.get(key) != value}
