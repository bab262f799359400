"""Operators, a sensor and triggers for Apache Airflow 3 (the extra ``airflow``).

:mod:`.operators` has FlinkishRunOperator, FlinkishSavepointOperator, FlinkishStopOperator and
FlinkishUpgradeOperator, and :mod:`.sensors` has FlinkishJobSensor. Each of these classes does what
one command of flinkish does. All except FlinkishUpgradeOperator can be deferred while they wait: a
trigger of :mod:`.triggers` then looks into the registry, and the task occupies no worker.
"""
