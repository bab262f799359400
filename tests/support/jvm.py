"""The JVM profile of the tests: fast to start, for JVMs that do not live long.

Spark's JVMs take two environment variables without a word in their output (``bin/spark-class``):
``SPARK_SUBMIT_OPTS`` for the driver in client mode, ``SPARK_LAUNCHER_OPTS`` for the small JVM that
only builds the driver's command line. The profile sets

* the C1 compiler alone and the serial collector: a test ends before C2 pays off;
* a dynamic class-data archive (JEP 350) of the classes that Spark loads for a streaming query,
  made once for each installation of PySpark and Java and kept in ``.cache/jvm``. A JVM with another
  class path ignores it;
* children by ``vfork``, without the JVM's own helper in between: where Hadoop's native library is
  missing, Spark runs ``chmod`` for each file of a local checkpoint and ``readlink`` for each
  rename, a hundred a second in these tests, and the helper doubles what each costs.

Users' jobs never get this profile: it lives in the environment of the test run alone.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "jvm"
TRAINING = Path(__file__).with_name("jvm_training.py")
#: Start-up first. The log is off because the JVM prints warnings about archives on stdout.
FAST_START = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xlog:disable",
    "-Djdk.lang.Process.launchMechanism=VFORK",
)
#: For JVMs of other programs (servers) that tests start.
SERVER_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx512m",
    "-Djava.net.preferIPv4Stack=true",
)
#: Seconds; making an archive takes 20 on an idle machine.
PATIENCE = 300


def use() -> None:
    """Give every Spark that this process and its children start the profile of the tests.

    An operator's own ``SPARK_SUBMIT_OPTS`` wins: whoever sets it measures something.
    """
    if "SPARK_SUBMIT_OPTS" in os.environ:
        return
    options = list(FAST_START)
    archive = _archive()
    if archive is not None:
        options.append(f"-XX:SharedArchiveFile={archive}")
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(options)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(FAST_START))


@functools.cache
def _archive() -> Path | None:
    """Return the class-data archive of the installed Spark; make it when it is missing.

    None where it cannot be made (no Java, no PySpark, a JVM that knows no archives): tests are
    slower then, nothing else.
    """
    installation = _installation()
    if installation is None:
        return None
    archive = CACHE / f"spark-{installation}.jsa"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker makes it, the others wait for it
        if not archive.exists():
            _make(archive)
    return archive if archive.stat().st_size else None


def _make(archive: Path) -> None:
    """Run the training program in a JVM that writes its classes at its end.

    An empty file stands for an attempt that failed, so that it is not tried by every run.
    """
    made = archive.with_suffix(".new")
    options = [*FAST_START, f"-XX:ArchiveClassesAtExit={made}"]
    try:
        done = subprocess.run(
            [sys.executable, str(TRAINING)],
            env={**os.environ, "SPARK_SUBMIT_OPTS": " ".join(options)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        done = None
    if done is not None and done.returncode == 0 and made.exists():
        made.rename(archive)
    else:
        archive.touch()


def _installation() -> str | None:
    """Return a digest of what an archive is bound to: the JVM, Spark's jars and their times."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return None
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    try:
        version = subprocess.run([java, "-version"], capture_output=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return None
    digest = hashlib.sha256(version + TRAINING.read_bytes())
    jars = Path(next(iter(spec.submodule_search_locations)), "jars")
    for jar in sorted(jars.glob("*.jar")):
        state = jar.stat()
        digest.update(f"{jar} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
