"""Fixtures for driver tests: one Spark session for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.launch import detached
from flinkish.registry.job_registry import Registry
from tests.support.driver.in_process_job import InProcessJob
from tests.support.driver.operator_programs import write_input


def _start_without_python_after_fork(command: list[str], **options: Any) -> Any:
    """Popen, but nothing of Python runs between fork and exec.

    PySpark gives Popen a `preexec_fn` (against Ctrl-C). What runs there, and the at-fork handlers
    of every library loaded by then, hangs for ever when a thread of an earlier test held a lock
    at that moment. A session of its own keeps Ctrl-C away as well.
    """
    del options["preexec_fn"]
    java = subprocess.Popen(command, start_new_session=True, **options)
    detached.leave(java)  # it ends after this process, when its standard input is closed
    return java


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark import java_gateway
    from pyspark.sql import SparkSession

    # Python workers run what the tests run; without this, whatever python3 is on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("flinkish-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.streaming.pollingDelay", "10ms")
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "1s")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(java_gateway, "Popen", _start_without_python_after_fork)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def input_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The common input, written once."""
    directory = tmp_path_factory.mktemp("input")
    write_input(str(directory))
    return str(directory)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry.open(f"sqlite:///{tmp_path}/registry.db") as registry:
        yield registry


@pytest.fixture
def new_job(
    spark: Any, registry: Registry, tmp_path: Path
) -> Iterator[Callable[..., InProcessJob]]:
    """Make in-process jobs; the last one is cleaned up whatever the test does."""
    jobs: list[InProcessJob] = []

    def make(**kwargs: Any) -> InProcessJob:
        if jobs:
            jobs[-1].close()
        # A fresh driver knows of no ended query; this shared session would.
        spark.streams.resetTerminated()
        jobs.append(InProcessJob(registry, str(tmp_path / "checkpoints"), **kwargs))
        return jobs[-1]

    yield make
    if jobs:
        jobs[-1].close()
        for query in spark.streams.active:
            query.stop()
