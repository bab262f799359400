"""Operator identity: uids, the operator graph, Flink's hasher v2, flinkish's v3, uid coverage.

Pure Python without Spark: the driver converts a query's plan to an :class:`~.graph.OperatorGraph`,
and everything here works on that graph. Import the modules, not this package: it stays empty so
that ``python -m flinkish.operators.hasher`` runs a module that nothing has imported before.
"""
