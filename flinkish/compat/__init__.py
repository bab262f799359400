"""Version compatibility: which version can resume what another version has saved.

The tables are data (``data/*.json``): Spark's is measured, Flink's comes from its documentation.
This package loads the tables, looks versions up in them and decides about a restore. It starts no
JVM and reads no savepoint; callers pass the savepoint's contents as plain values.
"""
