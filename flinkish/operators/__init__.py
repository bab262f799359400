"""Operator identity: uids, the operator graph, Flink's hasher v2, flinkish's v3, uid coverage.

Pure Python that does not import Spark: :mod:`.tagging` names operators through the DataFrame, and
the driver converts a query's plan to an :class:`~.graph.OperatorGraph`, on which hashers and
coverage work. Import the modules, not this package: it stays empty so that ``python -m
flinkish.operators.hasher`` runs a module that nothing has imported before.
"""
