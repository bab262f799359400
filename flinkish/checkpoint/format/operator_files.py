"""Metadata of a stateful operator, and which of its files in ``state/<ordinal>`` count. Pure.

Metadata is a line with the format's version, then JSON (``OperatorStateMetadataV1``, ``V2``).
Version 2 has the paths of schema files, which are absolute, and the operator's own properties.

As in Spark, the stores are those of the operator's metadata (Spark 4), else the four of a join, or
one. A schema is where the metadata says, else in partition 0; Spark never looks for another in
``_stateSchema``. State is in the pinned number of partitions, or in one if rows have no key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flinkish.checkpoint.format.errors import CannotWrite, CheckpointFormatError
from flinkish.checkpoint.format.names import (
    DEFAULT_STORE,
    JOIN_STORES,
    METADATA_DIRECTORY,
    SCHEMA_DIRECTORY,
    STATE,
    is_plain,
    numbers_among,
)
from flinkish.checkpoint.format.pins import pinned_partitions
from flinkish.checkpoint.format.text import json_bytes, parse_object, split_version

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

    ``metadata`` is None for Spark 3.5; ``directories`` are the names in a partition's directory.
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

    The metadata records the absolute path at which it was written; only the last part counts.
    """
    listed = metadata.schema_file(store) if metadata else None
    if listed is not None:
        return f"{SCHEMA_DIRECTORY}/{store}/{listed}"
    return f"0/{store_directory(store)}{METADATA_DIRECTORY}/schema"


def expected_partitions(
    pins: Mapping[str, str], keys: Sequence[Mapping[str, Any]], on_disk: int
) -> int:
    """Return how many partitions the state of an operator must have.

    State is in the pinned number of partitions, but operators without a key have one partition:
    global limits (their key is of the null type) and aggregations without grouping.

    ``keys`` are the known key schemas of the operator's stores; if there are none, a single
    partition on disk counts as complete. ``on_disk`` is the number of partitions on disk.
    """
    columns = [column for schema in keys for column in schema.get("fields", ())]
    if all(str(each.get("type")) in _NULL_TYPES for each in columns) and (keys or on_disk == 1):
        return 1
    return pinned_partitions(pins) or on_disk


_STATE_MARK: Final = f"/{STATE}/"
_SCHEMA_KEY: Final = "stateSchemaFilePaths"


@dataclass(frozen=True)
class OperatorStore:
    """One store of an operator.

    ``prefix_columns`` is the number of key columns in the prefix for prefix scans; 0 without such
    scans. ``partitions`` is Spark's count, which may be higher than the number on disk.
    ``schema_paths`` are absolute locations of its schema files, oldest first; None in version 1.
    """

    name: str
    prefix_columns: int
    partitions: int
    schema_paths: tuple[str, ...] | None = None


@dataclass(frozen=True)
class OperatorMetadata:
    """Spark's metadata of an operator.

    ``properties`` is the operator's own JSON text (``operatorPropertiesJson``); None in version 1.
    """

    version: int
    operator_id: int
    name: str
    stores: tuple[OperatorStore, ...]
    properties: str | None = None

    @property
    def store_names(self) -> tuple[str, ...]:
        """The names of its stores."""
        return tuple(store.name for store in self.stores)

    def schema_file(self, store: str) -> str | None:
        """Return the name of a store's newest schema file below ``_stateSchema/<store>``, if any.

        The metadata's path is where the checkpoint was first written; only its last part is valid.
        """
        paths = next((s.schema_paths for s in self.stores if s.name == store), None)
        return paths[-1].rstrip("/").rpartition("/")[2] if paths else None


def parse_operator_metadata(data: bytes, name: str) -> OperatorMetadata:
    """Parse a metadata file.

    Raises UnsupportedCheckpointFormat for a newer version, and CheckpointFormatError for damage.
    """
    version, start = split_version(data, name, "operator metadata")
    parsed = parse_object(data[start:], name, start)
    try:
        info = parsed["operatorInfo"]
        stores = tuple(_store(item, version) for item in parsed["stateStoreInfo"])
        properties = str(parsed["operatorPropertiesJson"]) if version == 2 else None
        number, operator = int(info["operatorId"]), str(info["operatorName"])
    except (AttributeError, ValueError, TypeError, KeyError, OverflowError) as error:
        what = "is invalid:" if isinstance(error, ValueError) else "lacks"
        reason = f"operator metadata {what} {error}"
        raise CheckpointFormatError(name, start, reason) from error
    return OperatorMetadata(version, number, operator, stores, properties)


def _store(item: Mapping[str, Any], version: int) -> OperatorStore:
    # Version 1 needs no locations; where it has some, they must be valid, because they are moved.
    paths = _locations(item) if version == 2 or item.get(_SCHEMA_KEY) else None
    name, partitions = str(item["storeName"]), int(item["numPartitions"])
    if not is_plain(name):
        raise ValueError(f"the storeName {name[:100]!r} is not the name of a directory")
    schema_paths = paths if version == 2 else None
    return OperatorStore(name, int(item["numColsPrefixKey"]), partitions, schema_paths)


def _locations(item: Mapping[str, Any]) -> tuple[str, ...]:
    locations = item[_SCHEMA_KEY]
    if not isinstance(locations, list) or not all(isinstance(path, str) for path in locations):
        raise TypeError(f"a list of paths in {_SCHEMA_KEY}")
    return tuple(locations)


def write_operator_metadata(metadata: OperatorMetadata) -> bytes:
    """Return the bytes of a metadata file; parsed metadata gives the same bytes again.

    Raises CannotWrite if the version does not exist, or the content is not that of the version.
    """
    with_paths = [store.schema_paths is not None for store in metadata.stores]
    second = metadata.version == 2
    complete = all(flag == second for flag in (*with_paths, metadata.properties is not None))
    if metadata.version not in {1, 2} or not complete:
        reason = f"schema paths or properties do not fit metadata of version {metadata.version}"
        raise CannotWrite(reason)
    body: dict[str, Any] = {
        "operatorInfo": {"operatorId": metadata.operator_id, "operatorName": metadata.name},
        "stateStoreInfo": [_store_json(store) for store in metadata.stores],
    }
    if metadata.properties is not None:
        body["operatorPropertiesJson"] = metadata.properties
    return b"v%d\n" % metadata.version + json_bytes(body)


def _store_json(store: OperatorStore) -> dict[str, Any]:
    item: dict[str, Any] = {
        "storeName": store.name,
        "numColsPrefixKey": store.prefix_columns,
        "numPartitions": store.partitions,
    }
    if store.schema_paths is not None:
        item[_SCHEMA_KEY] = list(store.schema_paths)
    return item


def with_operator(
    data: bytes, name: str, *, root: str, ordinal: int, kind: str | None = None
) -> bytes | None:
    """Rewrite operator metadata for the operator ``ordinal`` of the checkpoint at ``root``.

    The recorded locations of schemas are absolute, and Spark would follow them back to the old
    checkpoint, so they are changed too. Their form (``file:/p``, ``file:///p`` or plain) stays as
    Spark wrote it, and so do unknown keys.

    Returns None if nothing changes. ``kind`` is the new ``operatorName``; None keeps it. Raises
    CheckpointFormatError if the metadata is damaged, or a location is not in a state directory.
    """
    changed = parse_operator_metadata(data, name).operator_id != ordinal
    head, _, body = data.partition(b"\n")
    content = parse_object(body, name, len(head) + 1)
    content["operatorInfo"]["operatorId"] = ordinal
    if kind is not None:
        changed = changed or content["operatorInfo"]["operatorName"] != kind
        content["operatorInfo"]["operatorName"] = kind
    for store in content["stateStoreInfo"]:
        locations = store.get(_SCHEMA_KEY)
        if locations:
            store[_SCHEMA_KEY] = [moved_location(old, name, root, ordinal) for old in locations]
            changed = True
    return head + b"\n" + json_bytes(content) if changed else None


def moved_location(location: str, name: str, root: str, ordinal: int) -> str:
    """Return the location that a state file gets in ``state/<ordinal>`` of the checkpoint ``root``.

    ``location`` is recorded in the file ``name``. ``root`` is a local path, or a URL as Spark names
    it. Raises CheckpointFormatError if the location is not in a state directory, or leads out of
    it, because the file may be from an untrusted savepoint, and Spark reads what the location has.
    """
    before, mark, after = location.rpartition(_STATE_MARK)
    _, slash, rest = after.partition("/")
    if not mark or not slash or not all(is_plain(part) for part in rest.split("/")):
        raise CheckpointFormatError(name, None, f"{location} is not in a state directory")
    moved = f"{root}{_STATE_MARK}{ordinal}/{rest}"
    scheme, colon, path = before.partition(":")
    if "://" in root or not colon or "/" in scheme:
        return moved
    if scheme != "file":  # from another storage
        return f"file:{moved}"
    return f"{scheme}:{'//' if path.startswith('//') else ''}{moved}"
