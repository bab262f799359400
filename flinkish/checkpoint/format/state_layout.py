"""What counts in ``state/<ordinal>`` at a batch: metadata, stores, schemas, partitions. Pure.

As Spark has it: the stores are those of the operator's metadata (Spark 4), else the four of a join,
or one. A schema is where the metadata says, else in partition 0; Spark never looks for another in
``_stateSchema``. State is in the pinned number of partitions, or in one where rows have no key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from flinkish.checkpoint.format.names import (
    DEFAULT_STORE,
    JOIN_STORES,
    METADATA_DIRECTORY,
    SCHEMA_DIRECTORY,
    numbers_among,
)
from flinkish.checkpoint.format.operator_files import OperatorMetadata
from flinkish.checkpoint.format.pins import pinned_partitions

#: The names of Spark's NullType.
_NULL_TYPES: Final = frozenset({"void", "null"})


def metadata_path(v2: Iterable[str], batch: int) -> str:
    """Return the path of the metadata that is valid at a batch, below the operator's directory.

    ``v2`` has the names in ``_metadata/v2``.
    """
    usable = [number for number in numbers_among(v2) if number <= batch]
    return f"{METADATA_DIRECTORY}/" + (f"v2/{usable[-1]}" if usable else "metadata")


def store_names(metadata: OperatorMetadata | None, directories: Iterable[str]) -> tuple[str, ...]:
    """Return the names of an operator's stores, in Spark's order.

    ``metadata`` is None for Spark 3.5; ``directories`` are the names below its partitions.
    """
    if metadata is not None and metadata.stores:
        return tuple(sorted(set(metadata.store_names), key=_order))
    of_join = not set(JOIN_STORES).isdisjoint(directories)
    return JOIN_STORES if of_join else (DEFAULT_STORE,)


def _order(name: str) -> tuple[int, str]:
    return (JOIN_STORES.index(name) if name in JOIN_STORES else len(JOIN_STORES)), name


def store_directory(store: str) -> str:
    """Return a store's directory below a partition's: "", or with a slash at its end."""
    return "" if store == DEFAULT_STORE else f"{store}/"


def schema_path(metadata: OperatorMetadata | None, store: str) -> str:
    """Return the path of a store's schema, below the operator's directory.

    The metadata names it by a path that was absolute when written; only its last part counts.
    """
    listed = metadata.schema_file(store) if metadata else None
    if listed is not None:
        return f"{SCHEMA_DIRECTORY}/{store}/{listed}"
    return f"0/{store_directory(store)}{METADATA_DIRECTORY}/schema"


def expected_partitions(
    pins: Mapping[str, str], keys: Sequence[Mapping[str, Any]], on_disk: int
) -> int:
    """Return how many partitions the state of an operator must have.

    State is in the pinned number of partitions, but for operators without a key, which have one:
    global limits (their key is of the null type) and aggregations without grouping.

    ``keys`` are the known key schemas of the operator's stores; without any, a single partition may
    be complete. ``on_disk`` is the number of partitions on disk.
    """
    columns = [column for schema in keys for column in schema.get("fields", ())]
    if all(str(each.get("type")) in _NULL_TYPES for each in columns) and (keys or on_disk == 1):
        return 1
    return pinned_partitions(pins) or on_disk
