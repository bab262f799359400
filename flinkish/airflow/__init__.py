"""Operators, a sensor and triggers for Apache Airflow 3 (the extra ``airflow``).

:mod:`.operators` has FlinkishRunOperator, FlinkishSavepointOperator, FlinkishStopOperator and
FlinkishUpgradeOperator, :mod:`.sensors` has FlinkishJobSensor. Each calls :class:`flinkish.Client`
once. Where it waits it can be deferred: :mod:`.triggers` then look into the registry, so that a
task that waits for a job occupies no worker.
"""
