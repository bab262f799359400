"""Spark's metadata of a stateful operator: ``state/<operator>/_metadata/metadata`` and ``v2/<n>``.

A first line with the format's version, then JSON (``OperatorStateMetadataV1`` and ``V2``). Format
v2 has the paths of schema files, which are absolute, and the operator's own properties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish.engine.bounds import parse_json
from flinkish.engine.errors import EngineError, StateFormatError, UnsupportedState
from flinkish.engine.schema_files import spark_json


@dataclass(frozen=True)
class StoreInfo:
    """One store of an operator; ``schema_paths`` is None in format v1, which has none."""

    name: str
    prefix_columns: int
    partitions: int
    schema_paths: tuple[str, ...] | None = None


@dataclass(frozen=True)
class OperatorMetadata:
    """What Spark keeps of an operator.

    ``properties`` is the operator's own JSON text (``operatorPropertiesJson``): None in format v1.
    """

    version: int
    operator_id: int
    name: str
    stores: tuple[StoreInfo, ...]
    properties: str | None = None


def parse_operator_metadata(data: bytes, name: str) -> OperatorMetadata:
    """Parse a metadata file; ``name`` is the file's in errors.

    Raises StateFormatError when it is damaged, UnsupportedState when its version is not known.
    """
    first, _, body = data.partition(b"\n")
    if first not in {b"v1", b"v2"}:
        text = first[:20].decode("utf-8", "replace")
        raise UnsupportedState(name, 0, f"operator metadata of version {text!r}")
    version = int(first[1:])
    try:
        parsed = parse_json(body)
        info = parsed["operatorInfo"]
        stores = tuple(_store(item, version) for item in parsed["stateStoreInfo"])
        properties = str(parsed["operatorPropertiesJson"]) if version == 2 else None
        number, operator = int(info["operatorId"]), str(info["operatorName"])
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise StateFormatError(name, len(first) + 1, "damaged operator metadata") from error
    return OperatorMetadata(version, number, operator, stores, properties)


def _store(item: dict[str, Any], version: int) -> StoreInfo:
    paths = tuple(map(str, item["stateSchemaFilePaths"])) if version == 2 else None
    name, partitions = str(item["storeName"]), int(item["numPartitions"])
    return StoreInfo(name, int(item["numColsPrefixKey"]), partitions, paths)


def write_operator_metadata(metadata: OperatorMetadata) -> bytes:
    """The bytes of a metadata file; for what was parsed, the same again.

    Raises EngineError when the version does not exist, or what it needs is missing.
    """
    with_paths = [store.schema_paths is not None for store in metadata.stores]
    second = metadata.version == 2
    complete = all(flag == second for flag in (*with_paths, metadata.properties is not None))
    if metadata.version not in {1, 2} or not complete:
        reason = f"not operator metadata of version {metadata.version}: schema paths, properties"
        raise EngineError(reason)
    body: dict[str, Any] = {
        "operatorInfo": {"operatorId": metadata.operator_id, "operatorName": metadata.name},
        "stateStoreInfo": [_store_json(store) for store in metadata.stores],
    }
    if metadata.properties is not None:
        body["operatorPropertiesJson"] = metadata.properties
    return f"v{metadata.version}\n{spark_json(body)}".encode()


def _store_json(store: StoreInfo) -> dict[str, Any]:
    item: dict[str, Any] = {
        "storeName": store.name,
        "numColsPrefixKey": store.prefix_columns,
        "numPartitions": store.partitions,
    }
    if store.schema_paths is not None:
        item["stateSchemaFilePaths"] = list(store.schema_paths)
    return item
