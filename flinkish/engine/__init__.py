"""Spark's streaming state, read, written and rewritten: of flinkish only
:mod:`flinkish.checkpoint.format` is needed, which parses and writes Spark's logs and schemas.

What most want, as names of this package (imported when they are first used), for local paths and
for all URLs that fsspec knows:

- :func:`~flinkish.engine.api.migrate_checkpoint` makes a checkpoint of another one, as a Spark
  job: other state partitions, backend, formats, value schemas
  (:class:`~flinkish.engine.migration.migration_planner.TargetState`).
- :func:`~flinkish.engine.api.read_state` gives state as a DataFrame,
  :func:`~flinkish.engine.api.write_state` makes state of one.
- :func:`~flinkish.engine.migration.evolution.resolve` tells whether rows of one schema become
  another's.

What these are made of needs no Spark:

- :class:`~flinkish.engine.stores.files.StoreFiles` says where a state store's files are
  (:func:`~flinkish.engine.stores.files.local_store`: in a local directory).
- :func:`~flinkish.engine.stores.store_rows.read_store` gives every row of a version of it, in
  blocks; :func:`~flinkish.engine.stores.store_rows.count_rows` counts them. Both check each row's
  structure against :func:`~flinkish.engine.rows.encodings.family_shape`, where the schema is given.
- :func:`~flinkish.engine.rows.encodings.split_key` and ``split_value`` take RocksDB's keys and
  values apart into rows, :func:`~flinkish.engine.rows.unsafe_rows.check_unsafe_row` checks a single
  one.
- :func:`~flinkish.engine.rows.row_codec.compile_schema` and
  :func:`~flinkish.engine.rows.key_codec.compile_key` give codecs between rows or keys and Arrow
  columns, :mod:`flinkish.engine.rows.types` says which Arrow types; what did not change encodes to
  the bytes it was.
- :func:`~flinkish.engine.stores.writers.write_records` (deltas and snapshots of HDFS-backed
  stores), :func:`~flinkish.engine.stores.writers.write_changelog` and
  :func:`~flinkish.engine.stores.rocksdb_writer.write_snapshot` write state files, and
  :mod:`flinkish.checkpoint.format` what Spark keeps beside them. Lists that were read from RocksDB
  go through :func:`~flinkish.engine.rows.encodings.normal_value` first.
- :class:`~flinkish.engine.errors.StateFormatError` names the damaged, missing or foreign file.

Both backends of Spark 3.5 to 4.3 are read: HDFS-backed and RocksDB, with checkpoint format 1 and 2,
changelogs and column families. Refused with a clear error: row checksums, state encoded as Avro.
"""

from __future__ import annotations

TYPE_CHECKING = False  # of this name, so that type checkers know it; typing costs start-up time
if TYPE_CHECKING:
    from flinkish.engine.api import (
        UrlDirectory,
        directory,
        migrate_checkpoint,
        read_state,
        write_state,
    )
    from flinkish.engine.errors import EngineError, StateFormatError
    from flinkish.engine.migration.checkpoint_migration import Rewritten
    from flinkish.engine.migration.evolution import resolve
    from flinkish.engine.migration.migration_planner import CannotMigrate, TargetState
    from flinkish.engine.rows import types
    from flinkish.engine.stores.checkpoints import OperatorState, read_checkpoint
    from flinkish.engine.stores.directories import LocalDirectory

__all__ = [
    "CannotMigrate",
    "EngineError",
    "LocalDirectory",
    "OperatorState",
    "Rewritten",
    "StateFormatError",
    "TargetState",
    "UrlDirectory",
    "directory",
    "migrate_checkpoint",
    "read_checkpoint",
    "read_state",
    "resolve",
    "types",
    "write_state",
]

_HOMES = {
    "CannotMigrate": "planning",
    "EngineError": "errors",
    "LocalDirectory": "directories",
    "OperatorState": "checkpoints",
    "Rewritten": "rewrite",
    "StateFormatError": "errors",
    "TargetState": "planning",
    "UrlDirectory": "api",
    "directory": "api",
    "migrate_checkpoint": "api",
    "read_checkpoint": "checkpoints",
    "read_state": "api",
    "resolve": "evolution",
    "write_state": "api",
}


if not TYPE_CHECKING:  # else type checkers would take any name for one of this package

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _HOMES:
            return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        if name == "types":
            return import_module(f"{__name__}.types")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
