"""Faults in the engine: reading and writing state, hashing keys, evolving schemas."""

from __future__ import annotations

from tools.mutants.model import Mutant

_ROWS = ("tests/engine/rows/test_row_codec.py", "tests/engine/test_golden.py")
_EVOLUTION = ("tests/engine/migration/test_evolution.py",)

MUTANTS = (
    Mutant(
        "partition-hash-seed",
        "keys are put into partitions by a hash of another seed than Spark's",
        "flinkish/engine/rows/spark_hash.py",
        "SEED: Final = 42",
        "SEED: Final = 43",
        ("tests/engine/rows/test_spark_hash.py", "tests/engine/test_golden.py"),
    ),
    Mutant(
        "murmur-unsigned",
        "the last bytes of a string are hashed as unsigned numbers",
        "flinkish/engine/rows/spark_hash.py",
        "signed = data.view(np.int8)",
        "signed = data",
        ("tests/engine/rows/test_spark_hash.py", "tests/engine/test_golden.py"),
    ),
    Mutant(
        "interval-days-ignored",
        "the days of a calendar interval never count in its hash (Spark 4.3: they do)",
        "flinkish/engine/rows/spark_hash.py",
        "for part in ([day, months] if days else [months])]",
        "for part in [months]]",
        ("tests/engine/rows/test_spark_hash.py", "tests/engine/test_golden.py"),
    ),
    Mutant(
        "negative-zero-hashed",
        "0.0 and -0.0 are in different partitions",
        "flinkish/engine/rows/spark_hash.py",
        "np.where(absolute == 0, 0, bits)",
        "bits",
        ("tests/engine/rows/test_spark_hash.py",),
    ),
    Mutant(
        "short-decimal-sign",
        "negative decimals of up to 18 digits are read as positive ones",
        "flinkish/engine/rows/columns.py",
        "wide[:, 1] = wide[:, 0] >> 63",
        "wide[:, 1] = 0",
        _ROWS,
    ),
    Mutant(
        "long-decimal-sign",
        "negative decimals of more than 18 digits are read as positive ones",
        "flinkish/engine/rows/columns.py",
        "sign = np.where((first & 0x80 != 0) & ~slots.null, 0xFF, 0).astype(np.uint8)",
        "sign = np.where((first & 0x80 != 0) & ~slots.null, 0, 0).astype(np.uint8)",
        _ROWS,
    ),
    Mutant(
        "interval-fields-swapped",
        "the days of an interval are read as its months",
        "flinkish/engine/rows/columns.py",
        "zip(INTERVAL_ARROW, (0, 4, 8), strict=True)",
        "zip(INTERVAL_ARROW, (4, 0, 8), strict=True)",
        _ROWS,
    ),
    Mutant(
        "tombstones-ignored",
        "rows that were removed come back from a chain of changes",
        "flinkish/engine/stores/disk_spill.py",
        "((key, value) for key, value in self._held.items() if value is not None)",
        '((key, value or b"") for key, value in self._held.items())',
        ("tests/engine/stores/test_store_rows.py", "tests/engine/stores/test_disk_spill.py"),
    ),
    Mutant(
        "changed-rows-twice",
        "a row that was changed after the snapshot is read in both forms",
        "flinkish/engine/stores/disk_spill.py",
        "yield from (row for row in rows if row[0] not in held)",
        "yield from (row for row in rows if row[0] or held)",
        ("tests/engine/stores/test_store_rows.py", "tests/engine/stores/test_disk_spill.py"),
    ),
    Mutant(
        "chain-snapshot-too-new",
        "a snapshot later than the version is read",
        "flinkish/checkpoint/format/chains.py",
        "if kind == snapshot and v <= version), default=0)",
        "if kind == snapshot and v <= version + 1), default=0)",
        ("tests/engine/stores/test_chain.py",),
    ),
    Mutant(
        "chain-one-change-short",
        "the last change before the version is not read",
        "flinkish/checkpoint/format/chains.py",
        "for v in range(start + 1, version + 1):  # ends",
        "for v in range(start + 1, version):  # ends",
        ("tests/engine/stores/test_chain.py", "tests/engine/stores/test_store_rows.py"),
    ),
    Mutant(
        "merged-in-wrong-order",
        "what was appended to a list in RocksDB comes before what was there",
        "flinkish/engine/stores/rocksdb_store.py",
        "parts = [before, *parts] if before is not None else parts",
        "parts = [*parts, before] if before is not None else parts",
        ("tests/engine/stores/test_rocksdb_store.py", "tests/engine/test_recorded.py"),
    ),
    Mutant(
        "removed-keys-kept",
        "a key that a RocksDB changelog removes stays",
        "flinkish/engine/stores/rocksdb_store.py",
        "            batch.delete(key)\n",
        "            pass\n",
        ("tests/engine/stores/test_rocksdb_store.py", "tests/engine/test_recorded.py"),
    ),
    Mutant(
        "promotion-refused",
        "a number may not become a wider one (int to long)",
        "flinkish/engine/migration/evolution.py",
        "if _NUMBERS.index(written.name) > _NUMBERS.index(target.name):",
        "if _NUMBERS.index(written.name) != _NUMBERS.index(target.name):",
        _EVOLUTION,
    ),
    Mutant(
        "narrowing-allowed",
        "a number may become a narrower one (long to int)",
        "flinkish/engine/migration/evolution.py",
        "if _NUMBERS.index(written.name) > _NUMBERS.index(target.name):",
        "if _NUMBERS.index(written.name) > len(_NUMBERS):",
        _EVOLUTION,
    ),
    Mutant(
        "text-to-number-allowed",
        "a string may become a number",
        "flinkish/engine/migration/evolution.py",
        "    if not isinstance(written, Fixed) or not isinstance(target, Fixed):\n"
        "        return both\n",
        "    if not isinstance(written, Fixed) or not isinstance(target, Fixed):\n"
        "        return None\n",
        _EVOLUTION,
    ),
    Mutant(
        "default-not-filled",
        "a field that is added stays null although it has a default",
        "flinkish/engine/migration/evolution.py",
        "return FieldOrigin(path, target.type, None, Same(), default)",
        "return FieldOrigin(path, target.type, None, Same(), None)",
        _EVOLUTION,
    ),
    Mutant(
        "fields-by-position",
        "fields of an evolved schema are found by their places, not their names",
        "flinkish/engine/migration/evolution.py",
        "place = renamed.get(path, wanted if wanted in free else None)",
        "place = renamed.get(path, list(places)[len(origins)] if wanted in free else None)",
        _EVOLUTION,
    ),
)
