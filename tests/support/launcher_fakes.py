"""Stand-ins for Spark and Java as far as a launcher sees them, and cleaning up after launches."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import is_alive


def make_spark(home: Path, script: str, version: str = "4.3.0") -> Path:
    """A Spark as far as a launcher can tell, whose spark-submit is a shell script."""
    (home / "bin").mkdir(parents=True)
    (home / "jars").mkdir()
    (home / "jars" / f"spark-core_2.13-{version}.jar").touch()
    submit = home / "bin" / "spark-submit"
    submit.write_text("#!/bin/sh\n" + script)
    submit.chmod(0o755)
    return home


def make_java(home: Path, version: str = "17.0.2") -> Path:
    """A Java as far as a launcher can tell."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def kill_processes(job: JobRecord) -> None:
    """SIGKILL to what is left of a job that a test started; never to this process's own group."""
    for ref in (job.supervisor, job.driver):
        if ref is None or not is_alive(ref):
            continue
        try:
            group = os.getpgid(ref.pid)
        except ProcessLookupError:
            continue
        if group > 1 and group != os.getpgid(0):
            os.killpg(group, signal.SIGKILL)
