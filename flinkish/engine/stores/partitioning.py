"""The columns of a state key by which Spark assigns the rows of each operator to partitions.

A row's partition is ``pmod(Murmur3Hash(grouping key), n)`` (``StatefulOperatorPartitioning``).
Which columns of a state key are the grouping key depends on its kind:

- keys with a prefix scan (session windows, map state, timers by key): the prefix;
- keys with a range scan (timers by time, time to live): the columns that are not ordering columns.
  For the time to live of a map this is ``elementKey.key``, because ``elementKey`` also contains the
  user's map key;
- joins: all columns except the index or the timestamp at the end;
- all other keys: the whole key. A key without columns, or of type void, is always in a single
  partition (global limits, aggregates without keys).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from flinkish.checkpoint.format.schema_files import SESSION_START, FamilySchemas
from flinkish.engine.rows.encodings import (
    PREFIX_SCAN,
    RANGE_SCAN,
    TIMESTAMP_POSTFIX,
    TIMESTAMP_PREFIX,
)
from flinkish.engine.rows.row_codec import prefix_encoder
from flinkish.engine.stores.checkpoints import OperatorState, StoreState

TTL_PREFIX: Final = "$ttl_"
JOIN_ROWS: Final = "keyWithIndexToValue"

#: The index of a key column; a second number is the index of a field in that struct column.
Path = tuple[int, ...]


def partition_paths(
    operator: OperatorState, store: StoreState, family: FamilySchemas
) -> tuple[Path, ...]:
    """Return the key columns of a family that Spark partitions by.

    The result is () if there is only one partition, as for a key whose grouping columns are all of
    type void. No I/O is done.
    """
    fields: Sequence[Mapping[str, Any]] = family.key["fields"]
    encoder = key_encoder(operator, store, family)
    chosen = _columns(store, family, encoder, len(fields))
    if all(fields[path[0]]["type"] in ("void", "null") for path in chosen):
        return ()
    return chosen


def _columns(
    store: StoreState, family: FamilySchemas, encoder: Mapping[str, Any] | None, width: int
) -> tuple[Path, ...]:
    kind = encoder["keyStateEncoderType"] if encoder else None
    if kind == PREFIX_SCAN and encoder is not None:
        return _places(int(encoder["numColsPrefixKey"]))
    if kind == RANGE_SCAN and encoder is not None:
        ordered = {int(ordinal) for ordinal in encoder["orderingOrdinals"]}
        inner: Path = (0,) if _is_ttl_of_map(store, family) else ()
        return tuple((i, *inner) for i in range(width) if i not in ordered)
    index_last = store.name.endswith(JOIN_ROWS) or family.name.endswith(JOIN_ROWS)
    if kind in {TIMESTAMP_PREFIX, TIMESTAMP_POSTFIX} or index_last:
        return _places(width - 1)
    if family.key["fields"] and family.key["fields"][-1]["name"] == SESSION_START:
        return _places(width - 1)
    return _places(width)


def _places(count: int) -> tuple[Path, ...]:
    return tuple((i,) for i in range(count))


def _is_ttl_of_map(store: StoreState, family: FamilySchemas) -> bool:
    variable = family.name.removeprefix(TTL_PREFIX)
    if variable == family.name:
        return False
    encoders = {f.name: f.encoder for f in store.families}
    encoder = encoders.get(variable)
    return bool(encoder and encoder["keyStateEncoderType"] == PREFIX_SCAN)


def key_encoder(
    operator: OperatorState, store: StoreState, family: FamilySchemas
) -> dict[str, Any] | None:
    """Return the JSON of a family's key encoder in RocksDB, as in schema files of format v3.

    Older schema files do not record it; where they are used, only the keys of session windows have
    a prefix. Spark 4 records the prefix in the operator's metadata; for Spark 3.5 the name of the
    last column shows it.
    """
    if family.encoder is not None or store.schema_version == 3:
        return family.encoder
    if operator.prefix_columns:
        return prefix_encoder(operator.prefix_columns)
    names = [field["name"] for field in family.key["fields"]]
    if operator.metadata is None and len(names) > 1 and names[-1] == SESSION_START:
        return prefix_encoder(len(names) - 1)
    return None


def has_one_partition(operator: OperatorState) -> bool:
    """Return whether Spark always keeps all of the operator's state in one partition."""
    return not any(
        partition_paths(operator, store, family)
        for store in operator.stores
        for family in store.families
    )


def is_internal(family: str) -> bool:
    """Return whether a family's name marks it as internal to Spark, and so counted separately."""
    return family.startswith("$") or family.endswith(("keyToNumValues", "tsWithKey"))
