"""Registries for tests: a SQLite file, and a schema of a private PostgreSQL server."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from glob import glob
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry, new_job_id
from flinkish.registry.jobs import JobRecord, JobState
from tests.support.forkserver import fork_context

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "s3cret:p@ss"
PATIENCE = 120.0
_INITDB_OPTIONS = ("-E", "UTF8", "--locale=C", "--no-sync", "-A", "scram-sha-256")
_SERVER_OPTIONS = (
    *("-h", "127.0.0.1", "-k", "", "-c", "shared_buffers=16MB"),
    *("-c", "fsync=off", "-c", "full_page_writes=off"),  # it need not outlive the machine
)


def _binary(name: str) -> str | None:
    found = shutil.which(name)
    if found and (Path(found).resolve().parent / "postgres").exists():
        return str(Path(found).resolve())
    return max(glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)


def _unprivileged() -> dict[str, Any]:
    """Popen arguments that give up root, which the PostgreSQL server refuses to run as."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    pytest.skip("needs a user postgres or nobody, as root cannot run PostgreSQL")


class Cluster:
    """A private PostgreSQL server on a free loopback port."""

    def __init__(self, directory: str, initdb: str) -> None:
        self.directory = directory
        self._account = _unprivileged()
        self._postgres = str(Path(initdb).parent / "postgres")
        self._schemas = count(1)
        self._server: subprocess.Popen[bytes] | None = None
        if self._account:
            os.chown(directory, self._account["user"], self._account["group"])
        secret = Path(directory, "password")
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data = f"{directory}/data"
        made = subprocess.run(
            [initdb, "-D", data, "-U", "flinkish", f"--pwfile={secret}", *_INITDB_OPTIONS],
            capture_output=True,
            text=True,
            cwd=directory,
            check=False,
            **self._account,
        )
        assert made.returncode == 0, made.stdout + made.stderr
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()

    def start(self) -> None:
        log = open(f"{self.directory}/log", "ab")  # noqa: SIM115 (closed below, after the fork)
        self._server = subprocess.Popen(
            [
                self._postgres,
                "-D",
                f"{self.directory}/data",
                "-p",
                str(self.port),
                *_SERVER_OPTIONS,
            ],
            stdout=log,
            stderr=log,
            cwd=self.directory,
            **self._account,
        )
        log.close()
        import psycopg

        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._server.poll() is not None:
                    raise AssertionError(Path(self.directory, "log").read_text()) from None
                time.sleep(0.05)

    def stop(self) -> None:
        """The server's immediate shutdown: every connection breaks."""
        assert self._server is not None
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(PATIENCE)

    def url(self, schema: str | None = None) -> str:
        where = f"postgresql://flinkish:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/postgres"
        return where if schema is None else f"{where}?options=-csearch_path%3D{schema}"

    def new_schema(self) -> str:
        """The URL of an empty schema."""
        import psycopg

        name = f"t{next(self._schemas)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return self.url(name)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One private server for the whole run."""
    initdb = _binary("initdb")
    if initdb is None:
        pytest.skip("needs PostgreSQL (Debian: apt-get install postgresql)")
    directory = tempfile.mkdtemp(prefix="flinkish-postgres-")
    server = None
    try:
        server = Cluster(directory, initdb)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def registry_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty registry, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/registry.db"
    url: str = request.getfixturevalue("cluster").new_schema()
    return url


@pytest.fixture
def registry(registry_url: str) -> Iterator[Registry]:
    """An empty registry of each kind in turn."""
    with Registry.open(registry_url) as opened:
        yield opened


@pytest.fixture
def sqlite_registry(tmp_path: Path) -> Iterator[Registry]:
    """An empty registry in a file, for what does not depend on the kind."""
    with Registry.open(f"sqlite:///{tmp_path}/registry.db") as opened:
        yield opened


@pytest.fixture
def make_job() -> Callable[..., JobRecord]:
    """Jobs that start one second apart."""
    clock = count(1_700_000_000)

    def make(name: str = "flights", state: JobState = JobState.RUNNING, **fields: Any) -> JobRecord:
        fields.setdefault("job_id", new_job_id())
        fields.setdefault("start_time", float(next(clock)))
        return JobRecord(
            name=name, state=state, launch=fields.pop("launch", Launch("/a.py")), **fields
        )

    return make


@pytest.fixture
def run_python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start ``python -c SOURCE ARGS`` in the checkout; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(source: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", source, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def shared_directory() -> Iterator[Path]:
    """A directory that other users can reach (pytest's own are private)."""
    directory = Path(tempfile.mkdtemp(prefix="flinkish-"))
    directory.chmod(0o755)
    yield directory
    for path in [directory, *directory.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(directory)


@pytest.fixture
def unprivileged() -> Callable[..., str]:
    """``unprivileged(function, *arguments)``: its result as text, or its error, in a process that
    is not root (root may write everything).

    It comes from a server that has no threads: a fork of a process that tests have used for long
    can hang.
    """

    def run(function: Callable[..., object], *arguments: object) -> str:
        context = fork_context()
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_give_up_root, args=(theirs, function, arguments))
        child.start()
        theirs.close()
        try:
            with ours:
                assert ours.poll(PATIENCE), "the child does not answer"
                text: str = ours.recv()
            child.join(PATIENCE)
            return text
        finally:
            child.kill()
            child.join()
            child.close()

    return run


def _give_up_root(
    pipe: Connection, function: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        pipe.send(str(function(*arguments)))
    except Exception as error:  # noqa: BLE001 (the test looks at it)
        pipe.send(f"{type(error).__name__}: {error}")
