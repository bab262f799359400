"""Measures which connectors work with which Spark, and go on with whose checkpoints.

See ``__main__`` of the package above (``make compat-matrix ARGS="--connectors"``).
"""
