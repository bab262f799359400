"""What only PostgreSQL has: passwords, lost connections, a clock of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from flinkish.errors import RegistryError
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef
from flinkish.registry.liveness import reconcile
from flinkish.registry.schema import VERSION

if TYPE_CHECKING:
    from .conftest import Cluster

pytestmark = pytest.mark.postgres
MakeJob = Callable[..., JobRecord]


def _execute(cluster: Cluster, url: str, sql: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.encode())


def test_a_wrong_password_stays_secret(cluster: Cluster) -> None:
    url = f"postgresql://flinkish:h%40sh-hush@127.0.0.1:{cluster.port}/postgres"
    with pytest.raises(RegistryError) as caught:
        Registry.open(url)
    assert "hush" not in caught.value.message
    assert "password authentication failed" in caught.value.message
    assert caught.value.code == 16


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(RegistryError, match="refused") as caught:
        Registry.open("postgresql://u:hush@127.0.0.1:1/db")
    assert "hush" not in caught.value.message
    assert "server runs" in caught.value.hint


def test_a_nonsense_url_stays_secret() -> None:
    with pytest.raises(RegistryError) as caught:
        Registry.open("postgresql://u:hush@127.0.0.1/db?nonsense=1")
    assert "hush" not in caught.value.message


def test_without_psycopg_the_hint_names_the_extra(
    run_python: Callable[..., subprocess.Popen[str]],
) -> None:
    source = """
import sys
sys.modules["psycopg"] = None
from flinkish.errors import RegistryError
from flinkish.registry.job_registry import Registry
for _ in range(2):
    try:
        Registry.open("postgresql://h/db")
    except RegistryError as error:
        print(error.hint)
"""
    output, errors = run_python(source).communicate(timeout=120)
    assert errors == ""
    assert output == "pip install 'flinkish[postgres]'\n" * 2


def test_a_newer_schema_is_refused(cluster: Cluster) -> None:
    url = cluster.new_schema()
    Registry.open(url).close()
    _execute(cluster, url, f"INSERT INTO flinkish_schema VALUES ({VERSION + 1}, 1.0, '9.9.9')")
    with pytest.raises(RegistryError, match="written by a newer flinkish") as caught:
        Registry.open(url)
    assert "s3cret" not in caught.value.message
    assert "******@127.0.0.1" in caught.value.message


def test_a_lost_connection_is_opened_again(cluster: Cluster, make_job: MakeJob) -> None:
    url, job = cluster.new_schema(), make_job()
    with Registry.open(url) as registry:
        registry.add_job(job)
        actions: tuple[Callable[[], object], ...] = (
            registry.jobs,
            lambda: registry.update_job(job.job_id, exit_status=1),
        )
        for action in actions:
            _execute(
                cluster,
                url,
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "  # it has ended
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
            )
            action()
        assert registry.job(job.job_id).exit_status == 1


def test_a_restarted_server_is_found_again(cluster: Cluster, make_job: MakeJob) -> None:
    job = make_job()
    with Registry.open(cluster.new_schema()) as registry:
        registry.add_job(job)
        cluster.stop()
        try:
            for _ in range(2):
                with pytest.raises(RegistryError, match="failed") as caught:
                    registry.heartbeat(job.job_id, [])
                assert "s3cret" not in caught.value.message
        finally:
            cluster.start()
        registry.update_job(job.job_id, driver=ProcessRef("far", 1), heartbeat=registry.now() - 40)
        (running,) = reconcile(registry, registry.jobs())
        assert running.state is JobState.RUNNING, "its driver could not report meanwhile"
        assert registry.heartbeat(job.job_id, []) is JobState.RUNNING


def test_a_failed_write_leaves_nothing_behind(cluster: Cluster, make_job: MakeJob) -> None:
    job = make_job()
    with Registry.open(cluster.new_schema()) as registry:
        registry.add_job(job)
        with pytest.raises(RegistryError):
            registry.update_job(job.job_id, exit_status="not a number")
        registry.update_job(job.job_id, exit_status=3)
        assert registry.job(job.job_id).exit_status == 3


def test_a_read_only_server_says_so(cluster: Cluster, make_job: MakeJob) -> None:
    url, job = cluster.new_schema(), make_job()
    with Registry.open(url) as registry:
        registry.add_job(job)
    with Registry.open(url + "%20-cdefault_transaction_read_only%3Don") as registry:
        assert registry.jobs() == [job]
        with pytest.raises(RegistryError, match="read-only"):
            registry.transition(job.job_id, JobState.FAILED)


def test_the_server_clock_is_everybodys(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    with Registry.open(cluster.new_schema()) as registry:
        assert abs(registry.now() - real()) < 1
    monkeypatch.setattr(time, "time", lambda: real() - 3600)  # a host whose clock is an hour slow
    with Registry.open(cluster.new_schema()) as registry:
        assert abs(registry.now() - real()) < 1


def test_a_clock_that_is_set_is_noticed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeats of a driver would seem old for as long as its connection lives."""
    real = time.time
    with Registry.open(cluster.new_schema()) as registry:
        for step in (-60, 3600):
            monkeypatch.setattr(time, "time", lambda step=step: real() + step)
            registry.jobs()
            assert abs(registry.now() - real()) < 1


@pytest.mark.parametrize(
    ("url", "timeout"),
    [
        ("postgresql://u:a?b@h/db", "10"),
        ("postgresql://u:connect_timeout=9@h/db?sslmode=disable", "10"),
        ("postgresql://u@h/db?connect_timeout=3", "3"),
    ],
)
def test_a_url_is_given_as_it_is_to_libpq_with_a_timeout(
    url: str, timeout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    used = {}

    def connect(text: str, **options: object) -> None:
        given = {name: str(value) for name, value in options.items()}
        used.update({**conninfo_to_dict(text), **given})
        raise psycopg.OperationalError("no server here")

    monkeypatch.setattr(psycopg, "connect", connect)
    with pytest.raises(RegistryError):
        Registry.open(url)
    assert (used["dbname"], used["connect_timeout"]) == ("db", timeout)


def test_a_server_that_has_vanished_is_noticed_within_seconds(cluster: Cluster) -> None:
    import psycopg

    from flinkish.registry.postgres import PostgresDatabase

    url = cluster.new_schema()
    for given, limit in (("", "15000"), ("&tcp_user_timeout=7", "7")):
        database = PostgresDatabase(url + given)
        connection = database._connection
        assert isinstance(connection, psycopg.Connection)
        used = connection.info.get_parameters()
        database.close()
        assert used["tcp_user_timeout"] == limit
        assert (used["keepalives_idle"], used["keepalives_count"]) == ("5", "3")


def test_sqlite_alone_does_not_import_psycopg() -> None:
    code = "import flinkish.registry.job_registry, sys; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
