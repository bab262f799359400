"""Virtual environments with the Sparks of the matrix, made where they are missing.

They are kept in the directory that ``FLINKISH_MATRIX_VENVS`` names (else ``.venv-matrix`` in the
checkout), so that only the first run pays for them. They hold neither flinkish nor what flinkish
needs: a job has to run there without. Each Spark's JVMs take its classes from an archive of their
own, as those of the tests' own Spark do (:mod:`tests.support.jvm`): a start costs half as much.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.jvm import FAST_START, TRAINING

CHECKOUT = Path(__file__).resolve().parents[2]
DIRECTORY = Path(os.environ.get("FLINKISH_MATRIX_VENVS") or CHECKOUT / ".venv-matrix").absolute()
#: Seconds that pip may take for one environment; a Spark is 450 MB.
_PATIENCE = 1800
#: PySpark 4.x carries Protobuf code of version 5 or 6, which Protobuf 6 runs and 7 in part refuses.
_FOR_SPARK_4 = ("pandas<3", "pyarrow", "protobuf>=6.33.5,<7")


#: Airflow, and what flinkish needs beside it.
_FOR_AIRFLOW = (
    "apache-airflow>=3,<4",
    "apache-airflow-providers-apache-spark",
    *("click", "rich", "fsspec", "fastavro", "prometheus_client"),
)
#: Beside NumPy and pyarrow, which the environments have.
_FOR_THE_ENGINE = ("fastavro", "rocksdict", "cramjam", "zstandard", "xxhash", "crc32c")
#: Processes are told apart by the name of their host, and no process of another host is looked at.
_ANOTHER_MACHINE = """\
import os

_here = os.uname()
os.uname = lambda: os.uname_result((_here[0], "another-machine", *_here[2:]))
"""


class Unavailable(Exception):
    """An interpreter or a package cannot be had here."""


@dataclass(frozen=True)
class Environment:
    """``packages`` beside PySpark; ``pythons`` that this Spark runs on, best first."""

    pythons: tuple[str, ...]
    packages: tuple[str, ...]


_SPARK_4 = Environment(("3.12", "3.11", "3.10", "3.13"), _FOR_SPARK_4)
#: By the version of Spark, oldest first: the newest release of every line.
ENVIRONMENTS: dict[str, Environment] = {
    "3.5.9": Environment(("3.11", "3.10"), ("numpy<2", "pandas<3", "pyarrow<20", "setuptools")),
    "4.0.5": _SPARK_4,
    "4.1.4": _SPARK_4,
    "4.2.1": _SPARK_4,
    "4.3.0": _SPARK_4,
}
#: Older releases of lines, which are measured beside the newest one of each.
PATCHES: dict[str, Environment] = {"4.1.0": _SPARK_4}


def interpreter(spark: str) -> str:
    """The Python of the environment with this version of Spark, which is made when missing.

    Raises Unavailable, saying what cannot be had.
    """
    environment = {**ENVIRONMENTS, **PATCHES}[spark]
    mark, packages = (spark, *environment.packages), (f"pyspark=={spark}", *environment.packages)
    python = _environment(f"spark-{spark}", environment.pythons, mark, packages)
    _archive_classes(Path(python))
    return python


def airflow() -> str:
    """The Python of the environment with Airflow and its provider for Spark, which is made when
    missing. Raises Unavailable, saying what cannot be had."""
    return _environment("airflow", _SPARK_4.pythons, _FOR_AIRFLOW, _FOR_AIRFLOW)


def core(directory: Path) -> Path:
    """The ``flinkish`` of a new environment that has the wheel of this checkout, without extras,
    and takes itself for another machine. Raises Unavailable."""
    wheels, environment = directory / "wheels", directory / "core"
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    _run(sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(CHECKOUT))
    _run(sys.executable, "-m", "venv", str(environment))
    python = str(environment / "bin" / "python")
    _run(python, *pip, "install", *map(str, wheels.glob("*.whl")))
    site = Path(_run(python, "-c", "import sysconfig as s; print(s.get_path('purelib'))").strip())
    (site / "sitecustomize.py").write_text(_ANOTHER_MACHINE)
    return environment / "bin" / "flinkish"


def _environment(
    name: str, pythons: Sequence[str], mark: Sequence[str], packages: Sequence[str]
) -> str:
    """The Python of an environment with these packages; ``mark`` tells it from older ones."""
    directory = DIRECTORY / name
    python, stamp = directory / "bin" / "python", directory / "installed.json"
    # With the directory, because an environment that was moved or copied does not work.
    with _made_once(stamp, json.dumps([str(directory), *mark])) as is_missing:
        if is_missing:
            base = _base_python(tuple(pythons))
            _run(base, "-m", "venv", "--clear", str(directory))
            pip = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install")
            _run(str(python), *pip, *packages)
    return str(python)


def _archive_classes(python: Path) -> None:
    """Give the Spark of an environment an archive of its classes (JEP 350).

    ``spark-env.sh`` cannot name it: a JVM takes no archive if a directory on its class path, as
    ``conf`` is, has files. If it cannot be made, JVMs start more slowly, nothing else.
    """
    directory = python.parents[1]
    archive = directory / "classes.jsa"
    with _made_once(directory / "archived.json", json.dumps([str(directory)])) as is_missing:
        if not is_missing:
            return
        archive.unlink(missing_ok=True)
        options = " ".join([*FAST_START, f"-XX:ArchiveClassesAtExit={archive}"])
        environ = {**os.environ, "SPARK_SUBMIT_OPTS": options, "SPARK_DIST_CLASSPATH": ""}
        environ.pop("SPARK_HOME", None)
        command = [str(python), str(TRAINING)]
        subprocess.run(command, env=environ, capture_output=True, timeout=_PATIENCE, check=False)
        options = f"$SPARK_SUBMIT_OPTS -Xlog:disable -XX:SharedArchiveFile={archive}"
        line = f'export SPARK_SUBMIT_OPTS="{options}"'
        script = spark_home(str(python)) / "bin" / "load-spark-env.sh"
        if archive.exists() and line not in script.read_text():
            with script.open("a") as lines:
                lines.write(f"\n{line}\n")


def engine_packages(spark: str) -> str:
    """A directory with what the state-migration engine needs, for that interpreter's
    ``PYTHONPATH``: beside the environment, not in it. Raises Unavailable."""
    directory = DIRECTORY / f"engine-{spark}"
    stamp = directory / "installed.json"
    wanted = json.dumps([str(directory), *_FOR_THE_ENGINE])
    python = interpreter(spark)
    with _made_once(stamp, wanted) as is_missing:
        if is_missing:
            pip = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--upgrade")
            _run(python, *pip, "--no-deps", "--target", str(directory), *_FOR_THE_ENGINE)
    return str(directory)


@contextmanager
def _made_once(stamp: Path, wanted: str) -> Iterator[bool]:
    """Yield whether the directory of ``stamp`` must be made; one process at a time.

    The files of a tier run side by side, and the first two may want the same environment.
    """
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with (DIRECTORY / f"{stamp.parent.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_missing = not (stamp.is_file() and stamp.read_text() == wanted)
        yield is_missing
        if is_missing:
            stamp.write_text(wanted)


def spark_home(python: str) -> Path:
    """The directory of the PySpark that belongs to an interpreter."""
    find = "import importlib.util as u; print(u.find_spec('pyspark').submodule_search_locations[0])"
    return Path(_run(python, "-c", find).strip())


def _base_python(versions: tuple[str, ...]) -> str:
    found = _run("sh", str(CHECKOUT / ".ci" / "tools"), "python", *versions).strip()
    version = _run(found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    if version not in versions:  # the tool falls back to any Python that flinkish runs on
        raise Unavailable(f"there is no Python {' or '.join(versions)} (found {version})")
    return found


def _run(*command: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False, cwd=CHECKOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise Unavailable(f"{' '.join(command)}: {lines[-1]}")
    return done.stdout
