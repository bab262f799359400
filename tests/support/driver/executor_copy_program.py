"""A driver on a cluster that copies a checkpoint into a savepoint by its executors.

``carrying.py JSON``, run in a process of its own; prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import astuple
from typing import Any

from pyspark.sql import SparkSession

from flinkish import storage
from flinkish.checkpoint.cut import read_cut
from flinkish.driver.migration import file_transfer
from flinkish.driver.migration.file_transfer import AUTO_BYTES, SparkTransferer
from flinkish.errors import FlinkishError
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.transfer import FileTransferer, ThreadedTransferer
from flinkish.savepoint.write.writer import write_savepoint

#: Files for executors that try in vain, which takes its time.
FEW = 3
JOB = SavepointJob("0" * 32, "carried", "4.3.0", "3.11", "0")


def session(request: dict[str, Any], **environ: str) -> Any:
    builder = SparkSession.builder.master(request["master"]).appName("carrying")
    builder = builder.config("spark.ui.enabled", "false").config("spark.cores.max", "2")
    builder = builder.config("spark.executor.memory", "512m").config("spark.driver.memory", "512m")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    for name, value in environ.items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    return builder.getOrCreate()


def transfers(checkpoint: str, target: str) -> list[storage.Placing]:
    found = []
    for path, entry in storage.walk_files(checkpoint):
        new = storage.join(target, path)
        storage.make_directory(storage.parent(new))
        found.append(
            storage.Placing(storage.join(checkpoint, path), new, entry.stamp(), entry.size())
        )
    return found


def outcomes(
    transferer: FileTransferer,
    checkpoint: str,
    target: str,
    size: int = 0,
    first: int | None = None,
) -> list[Any]:
    done = transferer.carry(transfers(checkpoint, target)[:first], total_bytes=size)
    return [astuple(outcome) for outcome in done]


def main() -> None:
    request = json.loads(sys.argv[1])
    checkpoint, target = request["checkpoint"], request["target"]
    spark = session(request)
    file_transfer.WAVE, file_transfer._PIECE = 8, 3  # several waves of several tasks each
    info = write_savepoint(
        f"{target}/s",
        JOB,
        [QuerySource("counts", checkpoint)],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
        transferer=SparkTransferer(spark, "true"),
    )
    # From which flinkish a task runs: this one is installed where the executors run, too.
    home = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("flinkish").__file__)
    found: dict[str, Any] = {
        "savepoint": info.path,
        "files": len(read_cut(checkpoint).files),
        "flinkish": home.first(),
        "threads": outcomes(ThreadedTransferer(), checkpoint, f"{target}/threads"),
        "executors": outcomes(SparkTransferer(spark, "true"), checkpoint, f"{target}/executors"),
        "auto": outcomes(SparkTransferer(spark, "auto"), checkpoint, f"{target}/auto", AUTO_BYTES),
    }
    spark.stop()

    # Executors that cannot reach the storage: the driver can.
    spark = session(request, AWS_ENDPOINT_URL_S3="http://127.0.0.1:9")
    transferer = SparkTransferer(spark, "auto")
    found["alone"] = outcomes(transferer, checkpoint, f"{target}/alone", AUTO_BYTES, FEW)
    try:
        outcomes(SparkTransferer(spark, "true"), checkpoint, f"{target}/refused", first=FEW)
    except FlinkishError as error:
        found["refused"] = error.to_record()
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
