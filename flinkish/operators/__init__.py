"""Operator identity: uids, the operator graph, Flink's hasher v2 and our v3, uid coverage.

Pure Python without Spark: the driver reads a query's plan into an :class:`~.graph.OperatorGraph`,
everything here is decided on that. Import the modules, not this package: it stays empty so that
``python -m flinkish.operators.hasher`` runs a module that nothing has imported before.
"""
