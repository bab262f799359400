"""The registries of ``tests/registry``, and jobs whose ``spark-submit`` is a script of the test."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish.launch.launcher import launch_job, new_job
from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from tests.registry.conftest import cluster as cluster
from tests.registry.conftest import make_job as make_job
from tests.registry.conftest import registry as registry
from tests.registry.conftest import registry_url as registry_url
from tests.registry.conftest import sqlite_registry as sqlite_registry
from tests.support.launcher_fakes import kill_processes, make_java, make_spark

Run = Callable[..., JobRecord]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A client's environment with a Java, state below the test's directory."""
    java = make_java(tmp_path / "java")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    return {**kept, "JAVA_HOME": str(java), "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def run(registry_url: str, tmp_path: Path, environ: dict[str, str]) -> Any:
    """Launch a job whose spark-submit is ``script``; what is left of it is killed at the end."""
    started: list[JobRecord] = []

    def launch(script: str, **fields: Any) -> JobRecord:
        home = make_spark(tmp_path / f"spark{len(started)}", script)
        spec = Launch(
            application=fields.pop("application", "/app.py"),
            spark_home=str(home),
            working_directory=str(tmp_path),
            **fields,
        )
        with Registry.open(registry_url) as registry:
            job = new_job(
                "test", spec, checkpoints=str(tmp_path / "cp"), environ=environ, now=time.time()
            )
            started.append(job)
            launch_job(registry, registry_url, job, environ)
        return job

    yield launch
    with Registry.open(registry_url) as registry:
        for job in started:
            kill_processes(registry.job(job.job_id))


def wait(registry: Registry, job: JobRecord, condition: Callable[[JobRecord], Any]) -> JobRecord:
    deadline = time.monotonic() + 60
    while True:
        current = registry.job(job.job_id)
        if condition(current):
            return current
        assert time.monotonic() < deadline, current
        time.sleep(0.02)


def ended(job: JobRecord) -> bool:
    return job.state.is_final and job.exit_status is not None
