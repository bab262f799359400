"""State stores and schemas of an operator that has only been planned.

Spark 4.x writes them to the checkpoint directory with which it plans. Spark 3.5 does not, so on 3.5
they come from the physical operator, as its ``doExecute`` passes them to the state stores.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from flinkish import storage as fs
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.names import DEFAULT_STORE, METADATA_DIRECTORY, SCHEMA_DIRECTORY
from flinkish.checkpoint.format.operator_files import OperatorMetadata, parse_operator_metadata
from flinkish.checkpoint.format.schema_files import StoreInfo, parse_schema_file
from flinkish.checkpoint.operators import store_info
from flinkish.errors import Incompatible

_STATE = "org.apache.spark.sql.execution.streaming.state"
_EMPTY_ROW = ("__dummy__", "void", True)


def stores_in_files(directory: str) -> tuple[StoreInfo, ...]:
    """Return the stores that planning wrote to ``state/<ordinal>``, one for each column family.

    Raises Incompatible if the metadata or a schema is missing or of unknown form (a newer Spark).
    """
    metadata_dir = os.path.join(directory, METADATA_DIRECTORY)
    path = os.path.join(metadata_dir, "metadata")
    if not os.path.isfile(path):
        path = os.path.join(metadata_dir, "v2", "0")
    try:
        metadata = parse_operator_metadata(fs.read_bytes(path), path)
        infos: list[StoreInfo] = []
        for store in metadata.store_names:
            file = _schema_file(directory, store, metadata)
            for family in parse_schema_file(fs.read_bytes(file), file):
                infos.append(store_info(store, family))
    except (OSError, CheckpointFormatError) as error:
        raise Incompatible(
            f"this Spark writes its state metadata in an unknown form: {error}",
            hint="see which versions of Spark flinkish supports: flinkish compat",
        ) from error
    return tuple(infos)


def files_below(directory: str) -> dict[str, bytes]:
    """Return the files that planning wrote below ``state/<ordinal>``, by relative path.

    Hadoop's checksum files are left out. Metadata of version 2 (transformWithState) contains the
    path to which Spark wrote it.
    """
    files: dict[str, bytes] = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            if name.startswith(".") and name.endswith(".crc"):
                continue
            path = os.path.join(parent, name)
            files[os.path.relpath(path, directory).replace(os.sep, "/")] = fs.read_bytes(path)
    return dict(sorted(files.items()))


def _schema_file(directory: str, store: str, metadata: OperatorMetadata) -> str:
    listed = metadata.schema_file(store)
    if listed is not None:
        return os.path.join(directory, SCHEMA_DIRECTORY, store, listed)
    below = "0" if store == DEFAULT_STORE else os.path.join("0", store)
    return os.path.join(directory, below, METADATA_DIRECTORY, "schema")


def stores_of_node(jvm: Any, kind: str, node: Any) -> tuple[StoreInfo, ...]:
    """Return the stores of a physical operator of Spark 3.5; none for an unknown kind."""
    read = _READERS.get(kind)
    return read(jvm, node) if read is not None else ()


def _aggregate(_jvm: Any, node: Any) -> tuple[StoreInfo, ...]:
    value = _struct_type(node.stateManager().getStateValueSchema())
    return _default(_attributes(node.keyExpressions()), value)


def _session_window(jvm: Any, node: Any) -> tuple[StoreInfo, ...]:
    manager = getattr(jvm, f"{_STATE}.StreamingSessionWindowStateManager").createStateManager(
        node.keyWithoutSessionExpressions(),
        node.sessionExpression(),
        node.child().output(),
        node.stateFormatVersion(),
    )
    return _default(
        _struct_type(manager.getStateKeySchema()), _struct_type(manager.getStateValueSchema())
    )


def _dedupe(_jvm: Any, node: Any) -> tuple[StoreInfo, ...]:
    return _default(_attributes(node.keyExpressions()), _struct(_EMPTY_ROW))


def _dedupe_within(_jvm: Any, node: Any) -> tuple[StoreInfo, ...]:
    value = _struct(("expiresAtMicros", "long", False))
    return _default(_attributes(node.keyExpressions()), value)


def _limit(_jvm: Any, _node: Any) -> tuple[StoreInfo, ...]:
    return _default(_struct(("key", "void", True)), _struct(("value", "long", True)))


def _pandas_with_state(_jvm: Any, node: Any) -> tuple[StoreInfo, ...]:
    value = _struct_type(node.stateManager().stateSchema())
    return _default(_attributes(node.groupingAttributes()), value)


def _join(_jvm: Any, node: Any) -> tuple[StoreInfo, ...]:
    """Return the four stores of a join (``SymmetricHashJoinStateManager``, formats 1 and 2)."""
    stores = []
    for side, keys, child in (
        ("left", node.leftKeys(), node.left()),
        ("right", node.rightKeys(), node.right()),
    ):
        expressions = [keys.apply(i) for i in range(keys.size())]
        key = [
            _field(f"field{i}", json.loads(str(e.dataType().json())), bool(e.nullable()))
            for i, e in enumerate(expressions)
        ]
        value = list(_attributes(child.output())["fields"])
        if node.stateFormatVersion() >= 2:
            value.append(_field("matched", "boolean", True))
        index = _field("index", "long", True)
        count = _field("value", "long", True)
        stores.append(StoreInfo(f"{side}-keyToNumValues", _fields(key), _fields([count])))
        stores.append(
            StoreInfo(f"{side}-keyWithIndexToValue", _fields([*key, index]), _fields(value))
        )
    return tuple(stores)


_READERS: dict[str, Callable[[Any, Any], tuple[StoreInfo, ...]]] = {
    "stateStoreSave": _aggregate,
    "sessionWindowStateStoreSaveExec": _session_window,
    "dedupe": _dedupe,
    "dedupeWithinWatermark": _dedupe_within,
    "globalLimit": _limit,
    "applyInPandasWithState": _pandas_with_state,
    "symmetricHashJoin": _join,
}


def _default(key: dict[str, Any], value: dict[str, Any]) -> tuple[StoreInfo, ...]:
    return (StoreInfo(DEFAULT_STORE, key, value),)


def _struct_type(struct_type: Any) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(str(struct_type.json()))
    return parsed


def _attributes(attributes: Any) -> dict[str, Any]:
    """Return the schema of a sequence of attributes, as ``toStructType`` makes it."""
    return _fields(
        [
            _field(
                str(a.name()),
                json.loads(str(a.dataType().json())),
                bool(a.nullable()),
                json.loads(str(a.metadata().json())),
            )
            for a in (attributes.apply(i) for i in range(attributes.size()))
        ]
    )


def _struct(*columns: tuple[str, str, bool]) -> dict[str, Any]:
    return _fields([_field(*column) for column in columns])


def _field(
    name: str, type_: Any, nullable: bool, metadata: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": nullable, "metadata": metadata or {}}


def _fields(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "struct", "fields": fields}
