"""How the failure of a Spark job that rewrites state is told."""

from __future__ import annotations

from flinkish.driver.migration.savepoint_migration import told_by_spark
from flinkish.errors import FlinkishError, StorageError

WORKER = """Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/worker.py", line 1247, in main
    process()
  File "/x/flinkish/engine/canonical.py", line 226, in write_canonical
    with create(COUNTS) as file:
OSError: [Errno 28] No space left on device
"""
JAVA = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 8.0 failed
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:1)
"""


def test_what_a_python_worker_says_is_the_reason() -> None:
    python = f"\n  An exception was thrown from the Python worker:\n{WORKER}"
    java = JAVA.replace(
        "failed\n", f"failed: org.apache.spark.api.python.PythonException: {WORKER}"
    )
    for text in (python, java):
        error = told_by_spark("counts", text)
        assert type(error) is StorageError
        assert error.message == (
            "query counts: its state could not be rewritten: "
            "OSError: [Errno 28] No space left on device"
        )


def test_without_one_it_is_sparks_own() -> None:
    error = told_by_spark("counts", JAVA)
    assert type(error) is FlinkishError
    assert error.message.endswith(
        "rewritten: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in "
        "stage 8.0 failed"
    )
    assert told_by_spark("counts", "odd\nmore").message.endswith("rewritten: odd")


def test_a_refusal_of_the_storage_is_told_before_its_cause() -> None:
    error = told_by_spark(
        "counts",
        WORKER.replace("OSError: [Errno 28]", "Exception: IO error:")
        + """
The above exception was the direct cause of the following exception:

Traceback (most recent call last):
flinkish.errors.StorageError: disk full: cannot use RocksDB's files
""",
    )
    assert type(error) is StorageError
    assert error.message.endswith("StorageError: disk full: cannot use RocksDB's files")
