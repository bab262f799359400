"""The offset and commit log of a checkpoint whose state was rewritten.

The settings that an entry of the offset log pins (backend, partitions, formats) win over the
session's at a restart, so they have to say what the state is now (``OffsetSeqMetadata``); in
checkpoint format 2 the commit log has the unique ids of the state's files (``CommitMetadata``).
What is not to change stays as Spark wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from flinkish.engine.avro_container import COMPRESS
from flinkish.engine.checkpoints import (
    MERGE_PIN,
    PARTITIONS_PIN,
    PROVIDER_PIN,
    STORE_PIN,
    parse_pins,
    parse_state_ids,
)
from flinkish.engine.files import CANONICAL, HDFS
from flinkish.engine.planning import TargetState
from flinkish.engine.schema_files import spark_json

_PROVIDERS: Final = "org.apache.spark.sql.execution.streaming.state."
#: Spark 4 writes the number of partitions under this name too, in some versions.
_STATE_PARTITIONS: Final = "spark.sql.streaming.internal.stateStore.partitions"

StateIds = Mapping[int, tuple[tuple[str, ...], ...]]


def target_pins(wanted: TargetState, pins: Mapping[str, str]) -> dict[str, str]:
    """The pins that change for what is wanted of all operators of a query. Pure.

    Canonical state changes neither the backend nor the codec: pins keep those it came from.

    Args:
        wanted: what the state shall be.
        pins: those of the old state.
    """
    found = dict(wanted.formats)
    if wanted.partitions is not None:
        found[PARTITIONS_PIN] = str(wanted.partitions)
        if _STATE_PARTITIONS in pins:
            found[_STATE_PARTITIONS] = str(wanted.partitions)
    if wanted.backend is not None and wanted.backend != CANONICAL:
        name = "HDFSBacked" if wanted.backend == HDFS else "RocksDB"
        provider = f"{_PROVIDERS}{name}StateStoreProvider"
        if provider.rpartition(".")[2] != pins.get(PROVIDER_PIN, "").rpartition(".")[2]:
            found[PROVIDER_PIN] = provider
    if wanted.spark is not None and wanted.spark < (4, 2) and pins.get(MERGE_PIN) == "2":
        found[MERGE_PIN] = "1"  # which is all that these know
    if wanted.compression is not None and wanted.compression not in COMPRESS:
        found[f"{STORE_PIN}compression.codec"] = wanted.compression
    return {key: value for key, value in found.items() if pins.get(key) != value}


def with_pins(data: bytes, pins: Mapping[str, str], name: str) -> bytes:
    """An entry of the offset log with other pins; StateFormatError when it is damaged."""
    parse_pins(data, name)
    if not pins:
        return data
    head, header, *lines = data.split(b"\n")
    content: dict[str, Any] = json.loads(header)
    content["conf"] = {**content.get("conf", {}), **pins}
    return b"\n".join([head, spark_json(content).encode(), *lines])


def with_state_ids(data: bytes, ids: StateIds | None, name: str) -> bytes:
    """An entry of the commit log with the unique ids of new state files.

    ``ids`` is None for state of checkpoint format 1, which has none: the entry becomes one of
    format 1, where it was not. StateFormatError when it is damaged.
    """
    parse_state_ids(data, name)
    head, _, body = data.partition(b"\n")
    content: dict[str, Any] = json.loads(body) if body else {}
    if ids is None:
        content.pop("stateUniqueIds", None)
        return b"v1\n" + spark_json(content).encode() if head != b"v1" else data
    content["stateUniqueIds"] = {str(op): [list(p) for p in ids[op]] for op in sorted(ids)}
    return b"v2\n" + spark_json(content).encode()
