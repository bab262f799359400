"""A program that is attached for a block of batches, then not, and so on.

Usage: agent_program.py DIRECTORY PAIRS BATCHES [SAVEPOINTS]. Prints a JSON object for each block:
the milliseconds of its batches, the agent's calls to the JVM, and the seconds of processor time
that Python and the JVM took meanwhile. With a directory for them, another process takes a savepoint
in each attached block.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

import flinkish

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
_WARM_UP = 60
_calls = {"agent": 0}


def main(directory: str, pairs: str, batches: str, savepoints: str | None = None) -> None:
    builder = SparkSession.builder.master("local[2]")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    count_calls()
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).load()
    query = (
        rows.selectExpr("value % 100 as k")
        .groupBy("k")
        .count()
        .writeStream.queryName("counts")
        .outputMode("update")
        .format("noop")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .start()
    )
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.proc.pid
    newest = wait_for(query, _WARM_UP)
    for pair in range(int(pairs)):
        # In turn, so that batches that grow slower with the checkpoint weigh on both.
        for is_attached in (False, True) if pair % 2 == 0 else (True, False):
            job = flinkish.attach("bench") if is_attached else None
            newest = wait_for(query, newest + 1)  # the batch that ran meanwhile
            begun, first = _calls["agent"], newest + 1
            python, java = time.process_time(), seconds_of(jvm)
            taken = None
            if job is not None and savepoints is not None:
                command = ["flinkish", "savepoint", "-q", str(job.job_id), savepoints]
                taken = subprocess.Popen(
                    [sys.executable, "-m", *command], stdout=subprocess.DEVNULL
                )
            newest = wait_for(query, newest + int(batches))
            if taken is not None and taken.wait() != 0:
                raise SystemExit("the savepoint failed")
            python, java = time.process_time() - python, seconds_of(jvm) - java
            durations = [
                progress["durationMs"]["triggerExecution"]
                for progress in map(json.loads, (p.json for p in query.recentProgress))
                if first <= progress["batchId"] <= newest
            ]
            block = {
                "attached": is_attached,
                "batches": durations,
                "calls": _calls["agent"] - begun,
                "seconds": {"python": python, "java": java},
            }
            print(json.dumps(block), flush=True)
            if job is not None:
                job.detach()
    query.stop()
    spark.stop()


def wait_for(query: Any, batch: int) -> int:
    """Wait until a batch is committed, and return the newest by then."""
    while True:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] >= batch:
            return int(progress["batchId"])
        time.sleep(0.5)


def seconds_of(process: int) -> float:
    """Return the processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def count_calls() -> None:
    """Count the commands that threads of the agent send to the JVM."""
    send = ClientServerConnection.send_command

    def counted(connection: Any, command: str) -> Any:
        if threading.current_thread().name.startswith("flinkish-"):
            _calls["agent"] += 1
        return send(connection, command)

    ClientServerConnection.send_command = counted


if __name__ == "__main__":
    main(*sys.argv[1:])
