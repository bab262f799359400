"""Operators, a sensor and triggers for Apache Airflow 3 (the extra ``airflow``).

:mod:`.operators` has FlinkishRunOperator, FlinkishSavepointOperator, FlinkishStopOperator and
FlinkishUpgradeOperator, :mod:`.sensors` has FlinkishJobSensor. Each does what one command of
flinkish does. All but an upgrade can be deferred while they wait: a trigger of :mod:`.triggers`
then looks into the registry, so that a task that waits for a job occupies no worker.
"""
