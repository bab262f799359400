"""Jobs whose driver runs on a node of a cluster: its lifecycle, and an upgrade in place.

The nodes have a Python with pyspark, and nothing of flinkish: with Spark 3.5 in an environment
without any package that flinkish needs.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from flinkish.examples import flights
from flinkish.examples.flights import check, data
from flinkish.examples.flights.demo import ALL_THROUGH
from tests.e2e.test_matrix import spark35 as spark35
from tests.registry.conftest import PASSWORD, Cluster, cluster
from tests.support.cli.command import Flinkish, wait_until
from tests.support.servers.cluster import spark_home, standalone_cluster
from tests.support.servers.jars import Unavailable, spark_s3_jars
from tests.support.servers.s3 import S3Server
from tests.support.servers.yarn import YarnServer, yarn

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(1500)]

__all__ = ["cluster"]  # the fixture: a private server

HERE = Path(flights.__file__).parent
LIGHT = ("--conf=spark.executor.memory=512m", "--conf=spark.cores.max=2")
#: So slow that there is input until the job has been upgraded and stopped.
SLOWLY = ("--files-per-trigger", "7", "--every", "4 seconds")
#: How the resumed job reads the rest.
FASTER = ("--files-per-trigger", "30", "--every", "1 second")


@dataclass(frozen=True)
class Place:
    """A cluster, and how a job is sent there."""

    options: tuple[str, ...]


@pytest.fixture
def command(tmp_path: Path, cluster: Cluster) -> Iterator[Flinkish]:
    command = Flinkish(tmp_path)
    command.environ["FLINKISH_REGISTRY"] = cluster.new_schema()
    shared = tmp_path / "shared"
    shared.mkdir()
    command.environ["FLINKISH_EXECUTION_CHECKPOINTING_DIR"] = str(shared / "checkpoints")
    data.prepare(shared / "flights")
    for name in ("delays_v1.py", "delays_v2.py"):
        shutil.copy(HERE / name, tmp_path)
    yield command
    command.clean_up()


@pytest.fixture(params=["3.5"])
def standalone(
    request: pytest.FixtureRequest, tmp_path: Path, command: Flinkish
) -> Iterator[Place]:
    """A cluster of the oldest Spark, or of the installed one where a test asks for it."""
    python = sys.executable
    if request.param == "3.5":
        python = request.getfixturevalue("spark35")
    logs = tmp_path / "cluster"
    logs.mkdir()
    with standalone_cluster(logs, {}, 2, memory="3g", python=python) as master:
        yield Place(("-m", master, "--spark-home", str(spark_home(python)), *LIGHT))
        command.clean_up()  # while there is a cluster


@pytest.fixture
def on_yarn(tmp_path: Path, command: Flinkish) -> Iterator[tuple[Place, YarnServer]]:
    with ExitStack() as started:
        try:
            server = started.enter_context(yarn(tmp_path / "yarn"))
        except Unavailable as why:
            pytest.skip(f"needs {why}")
        command.environ["HADOOP_CONF_DIR"] = str(server.conf)
        memory = ("--conf=spark.executor.memory=512m", "--conf=spark.executor.instances=1")
        yield Place(("-m", "yarn", *memory)), server
        command.clean_up()


CLUSTER = "--conf=spark.submit.deployMode=cluster"


def words(command: Flinkish, rate: tuple[str, ...] = SLOWLY) -> tuple[str, ...]:
    """The arguments of the flights programs; the driver's working directory is its own."""
    shared = command.directory / "shared"
    return (str(shared / "flights"), str(shared / "results"), *rate)


def savepoints(command: Flinkish) -> str:
    return str(command.directory / "shared" / "savepoints")


def lifecycle(command: Flinkish, options: tuple[str, ...]) -> None:
    """Run, savepoint, upgrade, stop, resume: the output equals that of a batch over all flights."""
    job = command.run(
        command.directory / "delays_v1.py",
        *words(command),
        options=("--name", "rides", *options),
    )
    command.wait_for_batch(job, 1)
    taken = command.ok("savepoint", "-q", job, savepoints(command)).out.strip()
    assert Path(taken, "_metadata").is_file()

    upgrade = ("upgrade", "in-place", "rides", "--savepointPath", savepoints(command), "--json")
    up = command.ok(*upgrade, "--to", str(command.directory / "delays_v2.py")).json()
    assert up["state"] == "UPGRADED"
    assert command.job(job)["state"] == "FINISHED"

    stopped = command.ok("stop", "-q", "-p", savepoints(command), "rides").out.strip()
    again = command.run(
        command.directory / "delays_v2.py",
        *words(command, FASTER),
        options=("--name", "rides", "-s", stopped, *options),
    )
    command.wait(
        again,
        lambda found: found["queries"] and (found["queries"][0]["watermark"] or "") >= ALL_THROUGH,
        timeout=900.0,
    )
    command.ok("cancel", "rides")
    assert command.job(again)["state"] == "CANCELED"
    saved = command.ok("savepoint", "show", up["savepoint"], "--json").json()["savepoint"]
    compared = subprocess.run(
        [
            *(sys.executable, "-m", check.__name__),
            *words(command)[:2],
            str(saved["queries"][0]["batch_id"]),
        ],
        capture_output=True,
        text=True,
    )
    assert compared.returncode == 0, compared.stdout + compared.stderr


@pytest.mark.parametrize(
    ("standalone", "mode"),
    [("installed", "client"), ("3.5", "cluster")],
    indirect=["standalone"],
)
def test_standalone(command: Flinkish, standalone: Place, mode: str) -> None:
    cluster_mode = (CLUSTER,) if mode == "cluster" else ()
    lifecycle(command, (*standalone.options, *cluster_mode))


def test_checkpoints_and_savepoints_on_s3(
    command: Flinkish, tmp_path: Path, moto_s3: S3Server
) -> None:
    """The workers get the driver's file from there too; s3fs comes with it."""
    try:
        jars = spark_s3_jars()
    except Unavailable as why:
        pytest.skip(f"no jars of S3A for Spark (got by Maven): {why}")
    bucket = moto_s3.create_bucket(f"cluster-{uuid.uuid4().hex[:8]}")
    # What an operator gives the workers: Hadoop's classes, and keys in their environment. The
    # settings of a job come too late for the worker, which fetches the driver's file.
    keys = ("access.key", "secret.key", "credentials.provider")
    settings = {k: v for k, v in moto_s3.spark_settings().items() if not k.endswith(keys)}
    daemons = " ".join(f"-D{key}={value}" for key, value in settings.items())
    path = ":".join(str(jar) for jar in jars)
    environ = {**moto_s3.environment(), "SPARK_WORKER_OPTS": daemons}
    environ["SPARK_DAEMON_CLASSPATH"] = path
    settings |= {"spark.driver.extraClassPath": path, "spark.executor.extraClassPath": path}
    command.environ.update(moto_s3.environment())
    command.environ["FLINKISH_EXECUTION_CHECKPOINTING_DIR"] = f"{bucket}/checkpoints"
    logs = tmp_path / "cluster"
    logs.mkdir()
    with standalone_cluster(logs, environ, 2, memory="3g") as master:
        options = (
            *("-m", master, CLUSTER, *LIGHT),
            *(f"--conf={key}={value}" for key, value in settings.items()),
        )
        try:
            job = command.run(command.directory / "delays_v1.py", *words(command), options=options)
            command.wait_for_batch(job, 0)
            stopped = command.ok("stop", "-q", "-p", f"{bucket}/savepoints", job).out.strip()
            assert stopped.startswith(f"{bucket}/savepoints/savepoint-")
            batch = command.job(job)["queries"][0]["batch_id"]
            again = command.run(
                command.directory / "delays_v1.py",
                *words(command),
                options=(*options, "-s", stopped),
            )
            command.wait_for_batch(again, batch + 1)
            command.ok("cancel", again)
        finally:
            command.clean_up()


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_yarn(command: Flinkish, on_yarn: tuple[Place, YarnServer], mode: str) -> None:
    place, server = on_yarn
    lifecycle(command, (*place.options, *((CLUSTER,) if mode == "cluster" else ())))
    # The driver of the check, which is no job of the user, is an application of its own.
    wait_until(lambda: set(server.states().values()) == {"SUCCEEDED"})


def test_a_driver_on_yarn_that_does_not_answer(
    command: Flinkish, on_yarn: tuple[Place, YarnServer]
) -> None:
    place, server = on_yarn
    cancel_frozen(command, place)
    wait_until(lambda: list(server.states().values()) == ["KILLED"])


def test_a_driver_on_a_worker_that_does_not_answer(command: Flinkish, standalone: Place) -> None:
    cancel_frozen(command, standalone)


def cancel_frozen(command: Flinkish, place: Place) -> None:
    """A driver that does not answer a cancel is ended by its cluster; no secret is left behind."""
    job = command.run(
        command.directory / "delays_v1.py",
        *words(command),
        options=(*place.options, CLUSTER, "-D", "execution.cancel.grace=5s"),
    )
    command.wait_for_batch(job, 0)
    assert not [path for path in command.directory.rglob("*") if shows(path, PASSWORD)]
    driver = command.job(job)["driver"]["pid"]
    os.kill(driver, signal.SIGSTOP)
    try:
        cancelled = command("cancel", job)
    finally:
        with suppress(ProcessLookupError):
            os.kill(driver, signal.SIGCONT)
    assert cancelled.code == 0, cancelled.err
    assert command.job(job)["state"] == "CANCELED"


def shows(path: Path, text: str) -> bool:
    """Whether others may read a file that has the text; one that vanishes meanwhile is none."""
    with suppress(FileNotFoundError):
        return path.is_file() and bool(path.stat().st_mode & 0o077) and holds(path, text)
    return False


def holds(path: Path, text: str) -> bool:
    """Whether a file, or a file in a zip file, has the text."""
    data = path.read_bytes()
    # A file that only looks like a zip file, or is still being copied, is searched as it is.
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as source:
        return any(text.encode() in source.read(name) for name in source.namelist())
    return text.encode() in data
