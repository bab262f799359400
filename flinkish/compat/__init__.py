"""Which version can resume what another version has saved: the tables, their lookup, the gate.

The tables are data (``data/*.json``): Spark's is measured, Flink's is that of its documentation.
Nothing here starts a JVM or touches a savepoint; callers say in plain values what one contains.
"""
