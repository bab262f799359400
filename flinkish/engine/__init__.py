"""Read, write and rewrite Spark's streaming state.

Apart from the package's errors and annotations, the engine needs only
:mod:`flinkish.checkpoint.format`, which parses and writes Spark's logs and schemas,
:mod:`flinkish.avro` and :mod:`flinkish.storage`.

The main entry points are names of this package, which are imported on first use. A checkpoint
may be at a local path or at any URL that fsspec supports:

- :func:`~flinkish.engine.api.migrate_checkpoint` rewrites a checkpoint as a new one by Spark
  jobs, with other state partitions, backend, formats or schemas
  (:class:`~flinkish.engine.migration.migration_planner.TargetState`).
- :func:`~flinkish.engine.api.read_state` returns state as a DataFrame;
  :func:`~flinkish.engine.api.write_state` writes state from one.
- :func:`~flinkish.engine.migration.evolution.resolve` decides whether, and how, rows of one schema
  become rows of another.

Building blocks, which need no Spark:

- :class:`~flinkish.engine.stores.files.StoreFiles` locates the files of a state store
  (:func:`~flinkish.engine.stores.files.local_store`: in a local directory).
- :func:`~flinkish.engine.stores.store_rows.read_store` yields every row of one version of a store,
  in blocks; :func:`~flinkish.engine.stores.store_rows.count_rows` counts them. Both check the
  rows of a column family if its :func:`~flinkish.engine.rows.encodings.family_shape` is given.
- :func:`~flinkish.engine.rows.encodings.split_key` and ``split_value`` split RocksDB's keys and
  values into rows; :func:`~flinkish.engine.rows.unsafe_rows.check_unsafe_row` checks a single row.
- :func:`~flinkish.engine.rows.row_codec.compile_schema` and
  :func:`~flinkish.engine.rows.row_codec.compile_key` return codecs between rows or keys and Arrow
  columns; :mod:`.rows.types` defines the Arrow types. Unchanged values encode to the same bytes.
- :func:`~flinkish.engine.stores.writers.write_records` (deltas and snapshots of HDFS-backed
  stores), :func:`~flinkish.engine.stores.writers.write_changelog` and
  :func:`~flinkish.engine.stores.rocksdb_writer.write_snapshot` write state files;
  :mod:`flinkish.checkpoint.format` writes the files that Spark keeps with them. Lists that were
  read from RocksDB go through :func:`~flinkish.engine.rows.encodings.normal_value` first.
- :class:`~.errors.StateFormatError` names a file that is damaged, missing or not Spark's.

The engine reads both backends of Spark 3.5 to 4.3: HDFS-backed and RocksDB, with checkpoint formats
1 and 2, changelogs and column families. It refuses row checksums, and state that Spark encoded as
Avro, with a clear error.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers recognise the name; importing typing costs start-up time
if TYPE_CHECKING:
    from flinkish.engine.api import (
        directory,
        migrate_checkpoint,
        read_state,
        write_state,
    )
    from flinkish.engine.errors import CannotMigrate, EngineError, StateFormatError
    from flinkish.engine.migration.checkpoint_migration import Rewritten
    from flinkish.engine.migration.evolution import resolve
    from flinkish.engine.migration.migration_planner import TargetState
    from flinkish.engine.rows import types
    from flinkish.engine.stores.checkpoints import OperatorState, read_checkpoint
    from flinkish.engine.stores.files import LocalDirectory
    from flinkish.storage.directory import StorageDirectory

__all__ = [
    "CannotMigrate",
    "EngineError",
    "LocalDirectory",
    "OperatorState",
    "Rewritten",
    "StateFormatError",
    "StorageDirectory",
    "TargetState",
    "directory",
    "migrate_checkpoint",
    "read_checkpoint",
    "read_state",
    "resolve",
    "types",
    "write_state",
]

_HOMES = {
    "CannotMigrate": "migration.migration_planner",
    "EngineError": "errors",
    "LocalDirectory": "stores.files",
    "OperatorState": "stores.checkpoints",
    "Rewritten": "migration.checkpoint_migration",
    "StateFormatError": "errors",
    "StorageDirectory": "stores.files",
    "TargetState": "migration.migration_planner",
    "directory": "api",
    "migrate_checkpoint": "api",
    "read_checkpoint": "stores.checkpoints",
    "read_state": "api",
    "resolve": "migration.evolution",
    "write_state": "api",
}


if not TYPE_CHECKING:  # otherwise type checkers accept any name of this package

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _HOMES:
            return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        if name == "types":
            return import_module(f"{__name__}.rows.types")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
