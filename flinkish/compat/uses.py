"""The operators, backends and formats that a saved query uses, in the table's names. Pure.

The offset log pins the formats of operators' state. A setting that is not pinned had the value
that Spark used then, not today's default (:func:`~flinkish.checkpoint.format.pins.pinned`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinkish.checkpoint.format.names import ROCKSDB
from flinkish.checkpoint.format.pins import (
    PIN_AGGREGATION_FORMAT,
    PIN_CHANGELOG,
    PIN_ENCODING,
    PIN_GROUP_FORMAT,
    PIN_JOIN_FORMAT,
    PIN_ROW_CHECKSUM,
    pinned,
)
from flinkish.compat.lookup import UNKNOWN_OPERATOR, Use
from flinkish.compat.model import NO_BACKEND, STATELESS

#: The backend of a state store provider that is not Spark's: no cell has it.
OTHER_BACKEND = "other"

#: Operator -> the pin of its format version, and the name of the format. The default is 2.
_VERSIONED = {
    "symmetricHashJoin": (PIN_JOIN_FORMAT, "join"),
    "stateStoreSave": (PIN_AGGREGATION_FORMAT, "aggregation"),
    "applyInPandasWithState": (PIN_GROUP_FORMAT, "pandas-state"),
}
_DEFAULT_VERSION = "2"
_AVRO_OPERATORS = "transformWithState"  # the common prefix of their names


def uses_of(
    pins: Mapping[str, str],
    *,
    backend: str | None,
    kinds: Sequence[str | None],
    checkpoint_format: int = 1,
    offset_log_version: int = 1,
    changelog: bool | None = None,
) -> tuple[Use, ...]:
    """Return what one saved query uses, each use once.

    ``pins`` is the configuration in its offset log. ``backend`` is ``hdfs``, ``rocksdb``, or None
    for a foreign state store provider. ``kinds`` are Spark's names of its stateful operators, None
    if the checkpoint has none. ``checkpoint_format`` (``stateStore.checkpointFormatVersion``) is
    not pinned: it is 2 for a commit log with unique ids of state files. ``changelog`` says whether
    RocksDB wrote changelogs, as the files show; None takes the pinned setting.
    """
    query = {"offset-log-v2"} if offset_log_version >= 2 else set()
    if not kinds:
        return (Use(STATELESS, NO_BACKEND, frozenset(query)),)
    if changelog is None:
        changelog = _true(pins, PIN_CHANGELOG)
    common = set(query)
    if backend == ROCKSDB and changelog:
        common.add("changelog")
    if backend == ROCKSDB and checkpoint_format >= 2:
        common.add("checkpoint-v2")
    if _true(pins, PIN_ROW_CHECKSUM):
        common.add("row-checksum")
    uses = [
        Use(
            kind or UNKNOWN_OPERATOR,
            backend or OTHER_BACKEND,
            frozenset(common | _formats_of(kind, pins)),
        )
        for kind in kinds
    ]
    return tuple(dict.fromkeys(uses))


def _formats_of(kind: str | None, pins: Mapping[str, str]) -> set[str]:
    """Return the formats that only this kind of operator has."""
    if kind is None:
        return set()
    if kind.startswith(_AVRO_OPERATORS):
        return {"avro"} if pinned(pins, PIN_ENCODING).lower() == "avro" else set()
    if kind not in _VERSIONED:
        return set()
    pin, name = _VERSIONED[kind]
    version = pinned(pins, pin)
    return set() if version == _DEFAULT_VERSION else {f"{name}-v{version}"}


def _true(pins: Mapping[str, str], key: str) -> bool:
    return pins.get(key, "").lower() == "true"
