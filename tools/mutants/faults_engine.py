"""Faults in the engine: reading and writing state, hashing keys, evolving schemas."""

from __future__ import annotations

from tools.mutants.model import Mutant
from tools.mutants.operators import Assign, Choose, Compare, DropCall, Replace, Return

_ROWS = ("tests/engine/rows/test_row_codec.py", "tests/engine/test_golden.py")
_EVOLUTION = ("tests/engine/migration/test_evolution.py",)

MUTANTS = (
    Mutant(
        "partition-hash-seed",
        "keys are put into partitions by a hash of another seed than Spark's",
        "engine.rows.spark_hash:SEED",
        Replace("42", "43"),
        ("tests/engine/rows/test_spark_hash.py", "tests/engine/test_golden.py"),
    ),
    Mutant(
        "murmur-unsigned",
        "the last bytes of a string are hashed as unsigned numbers",
        "_pieces_mixer",
        Assign("signed", "data"),
        ("tests/engine/rows/test_spark_hash.py", "tests/engine/test_golden.py"),
    ),
    Mutant(
        "interval-days-ignored",
        "the days of a calendar interval never count in its hash (Spark 4.3: they do)",
        "_flat",
        Choose("days", always=False),
        ("tests/engine/rows/test_spark_hash.py", "tests/engine/test_golden.py"),
    ),
    Mutant(
        "negative-zero-hashed",
        "0.0 and -0.0 are in different partitions",
        "engine.rows.spark_hash:_fixed",
        Replace("np.where(absolute == 0, 0, bits)", "bits"),
        ("tests/engine/rows/test_spark_hash.py",),
    ),
    Mutant(
        "short-decimal-sign",
        "negative decimals of up to 18 digits are read as positive ones",
        "_long_decimals",
        Assign("wide[:, 1]", "0"),
        _ROWS,
    ),
    Mutant(
        "long-decimal-sign",
        "negative decimals of more than 18 digits are read as positive ones",
        "engine.rows.columns:decimal_words",
        Replace("0xFF", "0"),
        _ROWS,
    ),
    Mutant(
        "interval-fields-swapped",
        "the days of an interval are read as its months",
        "engine.rows.columns:_intervals",
        Replace("(0, 4, 8)", "(4, 0, 8)"),
        _ROWS,
    ),
    Mutant(
        "tombstones-ignored",
        "rows that were removed come back from a chain of changes",
        "LastChanges.rows",
        Replace(
            "((key, value) for key, value in self._held.items() if value is not None)",
            "((key, value or b'') for key, value in self._held.items())",
        ),
        ("tests/engine/stores/test_store_rows.py", "tests/engine/stores/test_hdfs_store.py"),
    ),
    Mutant(
        "changed-rows-twice",
        "a row that was changed after the snapshot is read in both forms",
        "LastChanges.unchanged",
        Replace("row[0] not in held", "row[0] or held"),
        ("tests/engine/stores/test_store_rows.py", "tests/engine/stores/test_hdfs_store.py"),
    ),
    Mutant(
        "chain-snapshot-too-new",
        "a snapshot later than the version is read",
        "checkpoint.format.chains:_plain",
        Replace("v <= version", "v <= version + 1"),
        ("tests/engine/stores/test_files.py",),
    ),
    Mutant(
        "chain-one-change-short",
        "the last change before the version is not read",
        "checkpoint.format.chains:_plain",
        Replace("range(start + 1, version + 1)", "range(start + 1, version)"),
        ("tests/engine/stores/test_files.py", "tests/engine/stores/test_store_rows.py"),
    ),
    Mutant(
        "merged-in-wrong-order",
        "what was appended to a list in RocksDB comes before what was there",
        "engine.stores.rocksdb_store:_write",
        Replace("[before, *parts]", "[*parts, before]"),
        ("tests/engine/stores/test_rocksdb_store.py", "tests/engine/test_recorded.py"),
    ),
    Mutant(
        "removed-keys-kept",
        "a key that a RocksDB changelog removes stays",
        "engine.stores.rocksdb_store:_write",
        DropCall("batch.delete"),
        ("tests/engine/stores/test_rocksdb_store.py", "tests/engine/test_recorded.py"),
    ),
    Mutant(
        "promotion-refused",
        "a number may not become a wider one (int to long)",
        "engine.migration.evolution:_refused",
        Compare("_NUMBERS.index(written.name)", ">", "!="),
        _EVOLUTION,
    ),
    Mutant(
        "narrowing-allowed",
        "a number may become a narrower one (long to int)",
        "engine.migration.evolution:_refused",
        Replace("_NUMBERS.index(target.name)", "len(_NUMBERS)"),
        _EVOLUTION,
    ),
    Mutant(
        "text-to-number-allowed",
        "a string may become a number",
        "engine.migration.evolution:_refused",
        Return("None", when="not isinstance(written, Fixed) or not isinstance(target, Fixed)"),
        _EVOLUTION,
    ),
    Mutant(
        "default-not-filled",
        "a field that is added stays null although it has a default",
        "_Resolver._added",
        Replace(
            "FieldOrigin(path, target.type, None, Same(), default)",
            "FieldOrigin(path, target.type, None, Same(), None)",
        ),
        _EVOLUTION,
    ),
    Mutant(
        "fields-by-position",
        "fields of an evolved schema are found by their places, not their names",
        "_Resolver._origins",
        Replace(
            "wanted if wanted in free else None",
            "list(places)[len(origins)] if wanted in free else None",
        ),
        _EVOLUTION,
    ),
)
