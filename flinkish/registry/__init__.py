"""The registry: jobs, requests and their results, savepoints.

A lost job has no state of its own: :mod:`.liveness` detects it, and records the failure
``driver-lost``, which ``flinkish recover`` looks for.
"""
