"""The files of an operator's new state other than rows: its schemas and Spark 4's metadata."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from flinkish.checkpoint.format.names import DEFAULT_STORE, STATE
from flinkish.checkpoint.format.operator_files import (
    OperatorMetadata,
    OperatorStore,
    write_operator_metadata,
)
from flinkish.checkpoint.format.schema_files import NO_USER_KEY, FamilySchemas, write_schema_file
from flinkish.checkpoint.format.text import spark_json
from flinkish.engine.migration.attempts import store_of
from flinkish.engine.migration.migration_plan import (
    FamilyMigration,
    OperatorMigration,
    store_directory,
)
from flinkish.engine.stores.checkpoints import StoreState
from flinkish.engine.stores.files import StateSource, read_bytes

#: What Spark writes for a join with one store (``SymmetricHashJoinStateManager``).
_JOIN_PROPERTIES: Final = '{"useVirtualColumnFamilies":true}'


def operator_files(
    source: StateSource, move: OperatorMigration, shuffle_partitions: int, root: str | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield the schema and metadata files of an operator's new state.

    Paths are relative to the checkpoint. ``shuffle_partitions`` is the query's setting, which
    Spark's metadata also records for operators with one partition. ``root`` is the new checkpoint's
    location as Spark will name it, for the paths in its metadata; None keeps the old paths, for
    callers that set their own later.
    """
    base = f"{STATE}/{move.ordinal}"
    paths: dict[str, str] = {}
    for name in move.targets:
        path, content = _schema(source, move, name)
        yield f"{base}/{path}", content
        paths[name] = path
    metadata = move.operator.metadata
    if metadata is None:
        return
    yield from _metadata(move, metadata, paths, shuffle_partitions, root)


def _schema(source: StateSource, move: OperatorMigration, name: str) -> tuple[str, bytes]:
    families = _families_of(move, name)
    old = _unmoved(move, name)
    if old is not None:
        same = tuple(f for _, f in families) == old.families
        path = f"{move.operator.directory}/{old.schema_path}"
        if same:
            return old.schema_path, read_bytes(source, path)
        return old.schema_path, write_schema_file([f for _, f in families], old.schema_version)
    if name == DEFAULT_STORE:  # several stores become one with families
        batch = move.operator.version - 1
        path = f"_stateSchema/{name}/{batch}_{uuid.uuid4()}"
        return path, write_schema_file([f for _, f in families], 3)
    path = f"0/{store_directory(name)}_metadata/schema"
    [(_, family)] = families
    return path, write_schema_file([replace(family, name="default")], 2)


def _unmoved(move: OperatorMigration, name: str) -> StoreState | None:
    if any(s.source != s.target for s in move.stores if s.target == name):
        return None
    return store_of(move.operator, name)


def _families_of(move: OperatorMigration, name: str) -> list[tuple[FamilyMigration, FamilySchemas]]:
    families = []
    for store in move.stores:
        if store.target != name:
            continue
        old = {f.name: f for f in store_of(move.operator, store.source).families}
        for family in store.families:
            schemas = replace(
                old[family.source],
                name=family.target,
                key=dict(family.after.key),
                value=dict(family.after.value),
            )
            if schemas.user_key != NO_USER_KEY and family.before.key != family.after.key:
                schemas = replace(schemas, user_key=_user_key(schemas))
            moved = schemas.encoder is None and store.source != store.target
            if family.after.encoder and (moved or family.regroup is not None):
                schemas = replace(schemas, encoder=dict(family.after.encoder))
            families.append((family, schemas))
    return families


def _user_key(schemas: FamilySchemas) -> str:
    """Return the schema of the user's key; map state records it twice: within the key and alone.

    See ``StateStoreColumnFamilySchemaUtils.getMapStateSchema``.
    """
    [_, user_key] = schemas.key["fields"]
    return spark_json(user_key["type"])


def _metadata(
    move: OperatorMigration,
    metadata: OperatorMetadata,
    paths: dict[str, str],
    shuffle_partitions: int,
    root: str | None,
) -> Iterator[tuple[str, bytes]]:
    base = f"{STATE}/{move.ordinal}"
    old = {store.name: store for store in metadata.stores}
    with_paths = any(path.startswith("_stateSchema/") for path in paths.values())
    prefix = max((store.prefix_columns for store in metadata.stores), default=0)
    stores = []
    for name, path in paths.items():
        schema_paths: tuple[str, ...] | None = None
        if with_paths:
            before = old[name].schema_paths if name in old else None
            schema_paths = (f"{root}/{base}/{path}",) if root or not before else before
        stores.append(OperatorStore(name, prefix, shuffle_partitions, schema_paths))
    properties = metadata.properties or _JOIN_PROPERTIES if with_paths else None
    written = OperatorMetadata(
        2 if with_paths else 1, move.ordinal, metadata.name, tuple(stores), properties
    )
    path = f"_metadata/v2/{move.operator.version - 1}" if with_paths else "_metadata/metadata"
    if with_paths and metadata.version == 2 and move.operator.metadata_path is not None:
        path = move.operator.metadata_path
    yield f"{base}/{path}", write_operator_metadata(written)
