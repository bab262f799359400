"""The JVM profile of the tests: fast to start, for JVMs that do not live long.

Spark's JVMs take two environment variables without a word in their output (``bin/spark-class``):
``SPARK_SUBMIT_OPTS`` for the driver in client mode, ``SPARK_LAUNCHER_OPTS`` for the small JVM that
only builds the driver's command line. The profile sets

* the C1 compiler alone and the serial collector: a test ends before C2 pays off;
* a dynamic class-data archive (JEP 350) of the classes that Spark loads for a streaming query,
  made once for each installation of PySpark and Java, beside the first tests, and kept in
  ``.cache/jvm``. A JVM whose class path begins otherwise ignores it;
* children by ``vfork``, without the JVM's own helper in between, which doubles what each costs.

A third variable, ``SPARK_DIST_CLASSPATH``, brings a jar with local files that start no processes
(``LocalFiles.java``): where Hadoop's native library is missing, Spark runs ``chmod`` for each file
of a local checkpoint and ``readlink`` for each rename, 200 a second in these tests. The jobs of
some files of the deep tier go without it, so that Hadoop's own file system has its proof too.

Users' jobs never get this profile: it lives in the environment of the test run alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from flinkish.launch import detached

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "jvm"
TRAINING = Path(__file__).with_name("jvm_training.py")
LOCAL_FILES = Path(__file__).with_name("LocalFiles.java")
#: Hadoop takes the first of these on the class path, so that a cluster's own one wins.
_CORE_SITE = """\
<configuration>
  <property>
    <name>fs.file.impl</name><value>flinkish.tests.LocalFiles$Checked</value>
  </property>
  <property>
    <name>fs.AbstractFileSystem.file.impl</name><value>flinkish.tests.LocalFiles$Context</value>
  </property>
</configuration>
"""
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
    installation = _installation()
    if installation is not None:
        archive = _archive(installation)
        if not archive.exists():
            _make_beside()
        if not archive.exists() or archive.stat().st_size:
            options.append(f"-XX:SharedArchiveFile={archive}")
        if "SPARK_DIST_CLASSPATH" not in os.environ:
            jar = CACHE / f"local-files-{installation}.jar"
            _make(jar, _make_local_files)
            os.environ["SPARK_DIST_CLASSPATH"] = str(jar) if jar.stat().st_size else ""
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(options)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(FAST_START))


def _archive(installation: str) -> Path:
    return CACHE / f"spark-{installation}.jsa"


def _make_beside() -> None:
    """Make the archive in a process of its own, while tests run that need no JVM.

    A JVM that starts before it is there takes its classes from the jars.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=CACHE.parents[1],
        # Without the jar: an archive serves every class path that begins as the one of its making.
        env={**os.environ, "SPARK_DIST_CLASSPATH": ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    detached.leave(process)


def _make(path: Path, make: Callable[[Path], None]) -> None:
    """Let ``make`` write a file that is missing; only one process does.

    An empty file stands for an attempt that failed (no Java, a JVM that knows no archives), so that
    it is not tried by every run. Tests are slower then, nothing else.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            new = path.with_suffix(".new")
            make(new)
            if new.exists():
                new.rename(path)
            else:
                path.touch()


def _make_archive(path: Path) -> None:
    """Run the training program in a JVM that writes its classes at its end."""
    options = [*FAST_START, f"-XX:ArchiveClassesAtExit={path}"]
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
    if done is None or done.returncode:
        path.unlink(missing_ok=True)


def _make_local_files(path: Path) -> None:
    """Compile the local files with Janino, which Spark has for its generated code."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from py4j.protocol import Py4JError

    jars = _jars()
    if jars is None:
        return
    (bridge,) = jars.glob("py4j*.jar")
    port = launch_gateway(
        jarpath=str(bridge), classpath=f"{jars}/*", javaopts=list(FAST_START), die_on_exit=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(LOCAL_FILES.read_text())
        with zipfile.ZipFile(path, "w") as jar:
            for name, code in compiler.getBytecodes().items():
                jar.writestr(f"{name.replace('.', '/')}.class", bytes(code))
            jar.writestr("core-site.xml", _CORE_SITE)
    except Py4JError:
        path.unlink(missing_ok=True)
    finally:
        gateway.shutdown()


def _jars() -> Path | None:
    """Return the directory of Spark's jars."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)), "jars")


def _installation() -> str | None:
    """Return a digest of what an archive is bound to: the JVM, Spark's jars and their times."""
    jars = _jars()
    if jars is None:
        return None
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    try:
        version = subprocess.run([java, "-version"], capture_output=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return None
    digest = hashlib.sha256(version + TRAINING.read_bytes() + LOCAL_FILES.read_bytes())
    for jar in sorted(jars.glob("*.jar")):
        state = jar.stat()
        digest.update(f"{jar} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    if (installed := _installation()) is not None:
        _make(_archive(installed), _make_archive)
