"""The registry: jobs, claims, requests and their results, savepoints, upgrades.

A lost job has no state of its own: :mod:`.liveness` detects it, and records the failure
``driver-lost``, which ``flinkish recover`` looks for.
"""
