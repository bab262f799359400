"""Which partition a row of state belongs to: what Spark partitions each operator's state by.

Spark puts a row into partition ``pmod(Murmur3Hash(grouping key), n)``
(``StatefulOperatorPartitioning``). Which columns of a state key are the grouping key depends on
what else the key has:

- a prefix scan (session windows, map state, timers by key): the prefix;
- a range scan (timers by time, time to live): what is not ordered by; of the time to live of a map
  that is ``elementKey.key``, since ``elementKey`` has the map's own key as well;
- joins: all but the index or the timestamp at the end;
- everything else: the whole key. A key without columns, or of type void, has one partition only,
  whatever the number of partitions is (global limits, aggregates without keys).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from flinkish.checkpoint.format.schema_files import FamilySchemas
from flinkish.engine.rows.encodings import (
    PREFIX_SCAN,
    RANGE_SCAN,
    TIMESTAMP_POSTFIX,
    TIMESTAMP_PREFIX,
)
from flinkish.engine.rows.key_codec import prefix_encoder
from flinkish.engine.stores.checkpoints import OperatorState, StoreState

TTL_PREFIX: Final = "$ttl_"
#: The last column of session windows' keys (``StreamingSessionWindowStateManagerImplV1``).
SESSION_START: Final = "sessionStartTime"
JOIN_ROWS: Final = "keyWithIndexToValue"

#: A column of a key, by its place; a second number is the place in that struct.
Path = tuple[int, ...]


def partition_paths(
    operator: OperatorState, store: StoreState, family: FamilySchemas
) -> tuple[Path, ...]:
    """The columns of a family's key that Spark partitions by; () where there is one partition.

    Pure. A key that is a void column alone has none either.
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
    """How RocksDB's keys of a family are encoded, as schema files of format v3 have it.

    Older schema files do not say; of them only session windows have keys with a prefix. Spark 4
    tells it in the operator's metadata, of Spark 3.5 the name of the last column does.
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
    """Whether Spark keeps all of the operator's state in one partition, whatever the setting."""
    return not any(
        partition_paths(operator, store, family)
        for store in operator.stores
        for family in store.families
    )


def is_internal(family: str) -> bool:
    """Whether a column family is Spark's own by its name, so that its rows are not counted."""
    return family.startswith("$") or family.endswith(("keyToNumValues", "tsWithKey"))
