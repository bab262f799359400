"""The registry: jobs, requests and their results, savepoints.

No job state says that a job is lost: :mod:`.liveness` decides it, and records the failure
``driver-lost``, which ``flinkish recover`` looks for.
"""
