"""Operators, a sensor and triggers for Apache Airflow 3 (the extra ``airflow``).

:mod:`.operators` has FlinkishRunOperator, FlinkishSavepointOperator, FlinkishStopOperator and
FlinkishUpgradeOperator, :mod:`.sensors` has FlinkishJobSensor. Each does what one command of
flinkish does. All but an upgrade can be deferred where they wait: :mod:`.triggers` then look into
the registry, so that a task that waits for a job occupies no worker.
"""
