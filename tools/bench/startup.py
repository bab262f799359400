"""The start-up of commands, as multiples of that of Python itself; the budget of ``list`` is 4."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry, new_job_id
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import process_ref
from flinkish.savepoint.format.contents import QuerySource
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tools.bench.local import JOB
from tools.bench.measure import alternate, show

#: The jobs in the registry.
JOBS = 200
#: The savepoints in the directory that is listed.
SAVEPOINTS = 1000


def startup(
    directory: Path,
    runs: int,
    *,
    jobs: int = JOBS,
    ended: int = 0,
    savepoints: int = SAVEPOINTS,
) -> dict[str, list[float]]:
    """Wall time of commands beside that of Python itself, with jobs in the registry.

    ``jobs`` of them run, and ``ended`` are finished.
    """
    url = f"sqlite:///{directory}/state/flinkish/registry.db"
    with Registry.open(url) as registry:
        for number in range(jobs + ended):
            job_id = new_job_id()
            launch = Launch(application="/app.py")
            registry.add_job(
                JobRecord(job_id, f"job {number}", JobState.INITIALIZING, time.time(), launch)
            )
            registry.transition(job_id, JobState.CREATED)
            registry.transition(job_id, JobState.RUNNING)
            registry.update_job(job_id, driver=process_ref(os.getpid()))
            if number >= jobs:
                registry.transition(job_id, JobState.FINISHED, "program ended")
    listed = _many_savepoints(directory, savepoints)
    script = str(Path(sys.executable).with_name("flinkish"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FLINKISH_")}
    environment["XDG_STATE_HOME"] = str(directory / "state")

    def start(*words: str) -> Callable[[], None]:
        def run() -> None:
            subprocess.run(
                words, env=environment, cwd=directory, check=True, stdout=subprocess.DEVNULL
            )

        return run

    times = alternate(
        {
            "python -c pass": start(sys.executable, "-c", "pass"),
            "flinkish list": start(script, "list"),
            "flinkish --help": start(script, "--help"),
            "flinkish status": start(script, "status", "job 1"),
            "savepoint list": start(script, "savepoint", "list", str(listed)),
        },
        runs,
    )
    show(f"start-up, {runs} runs each", times, "python -c pass")
    return times


def _many_savepoints(directory: Path, count: int) -> Path:
    """A directory with savepoints of one small checkpoint."""
    CheckpointLikeness(directory / "checkpoint").run_to(2)
    target = directory / "savepoints"
    query = QuerySource("query", str(directory / "checkpoint"))
    for _ in range(count):
        write_savepoint(
            str(target), JOB, [query], trigger="savepoint", reporter=SilentSavepointReporter()
        )
    return target
