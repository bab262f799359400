"""Spark's streaming state, read, written and rewritten: no other package of flinkish is needed.

What most want:

- :func:`~flinkish.engine.rewrite.rewrite_checkpoint` makes a checkpoint of another one, as a Spark
  job: other state partitions, backend, formats, value schemas
  (:class:`~flinkish.engine.planning.TargetState`).
- :func:`~flinkish.engine.spark_frames.read_state` gives state as a DataFrame,
  :func:`~flinkish.engine.bootstrap_state.write_state` makes state of one.
- :func:`~flinkish.engine.evolution.resolve` tells whether rows of one schema become another's.

What these are made of needs no Spark:

- :class:`~flinkish.engine.files.StoreFiles` says where a state store's files are
  (:func:`~flinkish.engine.files.local_store`: in a local directory).
- :func:`~flinkish.engine.rows.read_store` gives every row of a version of it, in blocks;
  :func:`~flinkish.engine.rows.count_rows` counts them. Both check each row's structure against
  :func:`~flinkish.engine.encodings.family_shape`, where the schema is given.
- :func:`~flinkish.engine.encodings.split_key` and ``split_value`` take RocksDB's keys and values
  apart into rows, :func:`~flinkish.engine.unsafe_rows.check_unsafe_row` checks a single one.
- :func:`~flinkish.engine.rowcodec.compile_schema` and
  :func:`~flinkish.engine.keycodec.compile_key` give codecs between rows or keys and Arrow columns,
  :mod:`flinkish.engine.types` says which Arrow types; what did not change encodes to the bytes it
  was.
- :func:`~flinkish.engine.writers.write_records` (deltas and snapshots of HDFS-backed stores),
  :func:`~flinkish.engine.writers.write_changelog` and
  :func:`~flinkish.engine.rocksdb_writer.write_snapshot` write state files,
  ``write_schema_file`` and ``write_operator_metadata`` what Spark keeps beside them. Lists that
  were read from RocksDB go through :func:`~flinkish.engine.encodings.normal_value` first.
- :class:`~flinkish.engine.errors.StateFormatError` names the damaged, missing or foreign file.

Both backends of Spark 3.5 to 4.3 are read: HDFS-backed and RocksDB, with checkpoint format 1 and 2,
changelogs and column families. Refused with a clear error: row checksums, state encoded as Avro.
"""
