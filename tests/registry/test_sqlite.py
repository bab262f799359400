"""SQLite files as they occur: shared, killed over, read-only, foreign, damaged, newer."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from flinkish.errors import InvalidConfiguration, RegistryError
from flinkish.messages.requests import SavepointArguments
from flinkish.registry import database, sqlite
from flinkish.registry.job_registry import Registry, new_job_id
from flinkish.registry.jobs import JobRecord, JobState, RequestKind
from flinkish.registry.schema import MIGRATIONS, VERSION

MakeJob = Callable[..., JobRecord]
RunPython = Callable[..., "subprocess.Popen[str]"]
Unprivileged = Callable[..., str]


def test_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "state" / "flinkish" / "registry.db"
    with Registry.open(f"sqlite:///{path}") as registry:
        registry.jobs()
        assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()} == {
            "registry.db": 0o600,
            "registry.db-wal": 0o600,
            "registry.db-shm": 0o600,
        }
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["a b.db", "100%25.db", "what?#.db", "ü.db", "-x"])
def test_any_file_name_will_do(tmp_path: Path, make_job: MakeJob, name: str) -> None:
    job = make_job()
    with Registry.open(f"sqlite:///{tmp_path}/{name}") as registry:
        registry.add_job(job)
    with Registry.open(f"{tmp_path}/{name}", create=False) as registry:
        assert registry.jobs() == [job]
        assert registry.url_masked == f"sqlite:///{tmp_path}/{name}"
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_relative_url_starts_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Registry.open("sqlite:///here.db") as registry:
        assert registry.url_masked == f"sqlite:///{tmp_path}/here.db"


@pytest.mark.parametrize("url", ["mysql://u:hush@h/db", "sqlite://host/x", "sqlite:", ""])
def test_urls_of_no_kind_are_refused(url: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        Registry.open(url)
    assert "hush" not in str(caught.value)
    assert caught.value.hint


COUNTER = """
import sys
from flinkish.registry.jobs import JobState
from flinkish.registry.job_registry import Registry
url, job_id, me = sys.argv[1:]
for n in range(50):
    with Registry.open(url) as registry:  # opening and closing races too: WAL recovery, clean-up
        registry.transition(job_id, JobState.RESTARTING, f"{me}.{n}")
        registry.transition(job_id, JobState.RUNNING, f"{me}.{n}")
"""


def test_no_update_is_lost_and_no_lock_is_seen(
    tmp_path: Path, make_job: MakeJob, run_python: RunPython
) -> None:
    url, job = f"sqlite:///{tmp_path}/r.db", make_job()
    with Registry.open(url) as registry:
        registry.add_job(job)
    writers = [run_python(COUNTER, url, job.job_id, f"p{n}") for n in range(8)]
    for writer in writers:
        assert writer.communicate(timeout=120) == ("", "")
        assert writer.returncode == 0
    connection = sqlite3.connect(tmp_path / "r.db")
    (revision,) = connection.execute("SELECT revision FROM flinkish_jobs").fetchone()
    connection.close()
    with Registry.open(url) as registry:
        history = registry.state_history(job.job_id)
        assert registry.job(job.job_id).state is JobState.RUNNING
    # Every call locked the job once; calls that met the state they wanted wrote no line.
    assert revision == 8 * 50 * 2
    states = [line.state for line in history]
    assert all(old is not new for old, new in pairwise(states))
    assert states[-1] is JobState.RUNNING


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE flinkish_jobs SET name = 'half done'")
print("holding", flush=True)
sys.stdin.read()
"""


def _hold(run_python: RunPython, path: Path) -> subprocess.Popen[str]:
    holder = run_python(HOLDER, str(path))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holding\n"
    return holder


def test_a_writer_killed_in_a_transaction_leaves_nothing_behind(
    tmp_path: Path, make_job: MakeJob, run_python: RunPython
) -> None:
    path, job = tmp_path / "r.db", make_job()
    with Registry.open(str(path)) as registry:
        registry.add_job(job)
        holder = _hold(run_python, path)
        assert registry.jobs() == [job]  # readers do not wait
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        registry.transition(job.job_id, JobState.FAILED)
        assert registry.job(job.job_id).name == "flights"


def test_waiting_for_a_writer_ends_with_a_clear_message(
    tmp_path: Path, make_job: MakeJob, run_python: RunPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PATIENCE", 0.2)
    monkeypatch.setattr(sqlite, "_BUSY_HANDLER", 0.05)
    path, job = tmp_path / "r.db", make_job()
    with Registry.open(str(path)) as registry:
        registry.add_job(job)
        holder = _hold(run_python, path)
        with pytest.raises(RegistryError, match="held by other processes") as caught:
            registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
        assert "database is locked" not in caught.value.message
        holder.communicate("")
        registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))


FORKING = """
import os, sys
from flinkish.registry.jobs import JobState
from flinkish.registry.job_registry import Registry
url, job_id = sys.argv[1:]
with Registry.open(url) as registry:
    registry.job(job_id)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            registry.transition(job_id, JobState.FAILED, "child")
            registry.close()
            status = 0
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), registry.job(job_id).state.value)
    registry.update_job(job_id, exit_status=1)
"""


def test_a_forked_child_uses_its_own_connection(
    tmp_path: Path, make_job: MakeJob, run_python: RunPython
) -> None:
    url, job = f"sqlite:///{tmp_path}/r.db", make_job()
    with Registry.open(url) as registry:
        registry.add_job(job)
        assert run_python(FORKING, url, job.job_id).communicate(timeout=120) == ("0 FAILED\n", "")
        assert registry.job(job.job_id).exit_status == 1


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    Registry.open(str(path)).close()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO flinkish_schema VALUES (?, 1.0, '9.9.9')", (VERSION + 1,))
    connection.commit()
    connection.close()
    with pytest.raises(RegistryError, match="written by a newer flinkish") as caught:
        Registry.open(str(path))
    assert caught.value.code == 16
    assert str(path) in caught.value.message
    assert "upgrade" in caught.value.hint


def test_an_older_schema_is_brought_forward(
    tmp_path: Path, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, job = tmp_path / "r.db", make_job()
    with Registry.open(str(path)) as registry:
        registry.add_job(job)
    steps = (*MIGRATIONS, ("CREATE TABLE flinkish_later (x TEXT)",))
    monkeypatch.setattr(database, "MIGRATIONS", steps)
    monkeypatch.setattr(database, "VERSION", VERSION + 1)
    monkeypatch.setattr(sqlite, "VERSION", VERSION + 1)
    with Registry.open(str(path)) as registry:
        assert registry.jobs() == [job]
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT COUNT(*) FROM flinkish_later").fetchone() == (0,)
    versions = connection.execute("SELECT version FROM flinkish_schema").fetchall()
    connection.close()
    assert versions == [(n + 1,) for n in range(VERSION + 1)]


def test_a_failing_step_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.db"
    monkeypatch.setattr(database, "MIGRATIONS", (("CREATE TABLE one (x TEXT)", "NONSENSE"),))
    with pytest.raises(RegistryError, match="syntax error"):
        Registry.open(str(path))
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    connection.close()


def test_what_is_no_registry_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("these are not the pages you are looking for\n" * 40)
    foreign = tmp_path / "other.db"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = foreign.read_bytes(), text.read_bytes()
    for path, words in (
        (text, "not a SQLite database"),
        (foreign, "database of another program"),
        (tmp_path, "is a directory"),
        (text / "r.db", "cannot be accessed: Not a directory"),
    ):
        with pytest.raises(RegistryError, match=words) as caught:
            Registry.open(str(path))
        assert caught.value.hint
    assert foreign.read_bytes() == before[0]
    assert text.read_bytes() == before[1]


def test_a_damaged_file_says_so(tmp_path: Path, make_job: MakeJob) -> None:
    path = tmp_path / "r.db"
    with Registry.open(str(path)) as registry:
        for _ in range(200):
            registry.add_job(make_job())
    data = bytearray(path.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 64] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.raises(RegistryError, match="damaged") as caught:
        Registry.open(str(path)).jobs()
    assert "backup" in caught.value.hint


def _submit(path: Path, job: JobRecord) -> object:
    with Registry.open(str(path)) as registry:
        shown = [registry.find_job(job.job_id[:6]).name, registry.read_only]
        try:
            registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
        except RegistryError as error:
            return [*shown, error.message, error.code]
        return shown


@pytest.mark.parametrize("locked", ["file", "directory", "both"])
def test_a_read_only_registry_can_be_read(
    shared_directory: Path, make_job: MakeJob, unprivileged: Unprivileged, locked: str
) -> None:
    path, job = shared_directory / "r.db", make_job()
    with Registry.open(str(path)) as registry:
        registry.add_job(job)
    path.chmod(0o444 if locked != "directory" else 0o666)
    shared_directory.chmod(0o555 if locked != "file" else 0o777)
    said = unprivileged(_submit, path, job)
    assert said.startswith("['flights', '"), said
    assert "cannot be written" in said
    assert "not writable" in said
    assert said.endswith(", 16]")


def test_a_read_only_registry_with_a_live_writer_can_be_read(
    shared_directory: Path, make_job: MakeJob, unprivileged: Unprivileged
) -> None:
    path, job, late = shared_directory / "r.db", make_job(), make_job("late")
    with Registry.open(str(path)) as registry:
        registry.add_job(job)
        registry.add_job(late)  # still in the -wal file only
        for file in shared_directory.iterdir():
            file.chmod(0o444)
        shared_directory.chmod(0o555)
        assert unprivileged(_submit, path, late).startswith("['late', '")
        registry.transition(job.job_id, JobState.FINISHED)


def test_a_reader_that_can_make_no_shm_sees_later_changes(
    tmp_path: Path, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, job = tmp_path / "r.db", make_job()
    with Registry.open(str(path)) as owner:
        owner.add_job(job)
    connect = sqlite.SqliteDatabase._connect

    def without_shm(
        database: sqlite.SqliteDatabase, mode: str, suffix: str = ""
    ) -> sqlite3.Connection:
        if (mode, suffix) == ("ro", "") and not Path(f"{path}-wal").exists():
            raise sqlite3.OperationalError("unable to open database file")
        return connect(database, mode, suffix)

    monkeypatch.setattr(sqlite.SqliteDatabase, "_connect", without_shm)
    with monkeypatch.context() as other_user:
        other_user.setattr(sqlite, "_why_read_only", lambda _path: "not writable")
        reader = Registry.open(str(path))
    with reader:
        seen, marker = [reader.job(job.job_id).state], reader.changes_marker()
        assert reader.changes_marker() == marker
        for state in (JobState.CANCELLING, JobState.CANCELED):
            with Registry.open(str(path)) as owner:
                owner.transition(job.job_id, state)
            assert reader.changes_marker() != marker
            seen.append(reader.job(job.job_id).state)
            marker = reader.changes_marker()
    assert seen == [JobState.RUNNING, JobState.CANCELLING, JobState.CANCELED]


def test_what_cannot_be_opened_says_why(shared_directory: Path, unprivileged: Unprivileged) -> None:
    secret, empty = shared_directory / "secret.db", shared_directory / "empty.db"
    Registry.open(str(secret)).close()
    secret.chmod(0o600 if os.geteuid() == 0 else 0o000)
    empty.touch()
    empty.chmod(0o444)
    shared_directory.chmod(0o555)
    for path, words in (
        (secret, "not readable by this user"),
        (empty, "is empty"),
        (shared_directory / "new.db", "Permission denied"),
        (shared_directory / "sub" / "new.db", "Permission denied"),
    ):
        said = unprivileged(Registry.open, str(path))
        assert said.startswith("RegistryError: "), said
        assert words in said
        assert str(path) in said


def test_a_full_disk_says_so(tmp_path: Path, make_job: MakeJob) -> None:
    path, job = tmp_path / "r.db", make_job()
    with Registry.open(str(path)) as registry:
        registry.add_job(job)
        # SQLite's own limit gives the same error code (SQLITE_FULL) as a full file system.
        registry._database._connection.execute("PRAGMA max_page_count = 1")  # type: ignore[attr-defined]
        with pytest.raises(RegistryError, match="disk is full"):
            registry.add_job(make_job("x" * 100_000))
        assert registry.job(job.job_id) == job


def test_error_kinds_without_codes() -> None:
    """Python 3.10's errors have no code; their texts must do."""
    for text, kind in {
        "database is locked": "busy",
        "database table is locked": "busy",
        "attempt to write a readonly database": "readonly",
        "database disk image is malformed": "corrupt",
        "database or disk is full": "full",
        "file is not a database": "notadb",
        "no such table: x": "other",
    }.items():
        assert sqlite._kind(sqlite3.OperationalError(text)) == kind


def test_ids_are_flinks() -> None:
    ids = {new_job_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(i) == 32 and int(i, 16) >= 0 and i == i.lower() for i in ids)


def test_closing_waits_for_the_statement_of_another_thread(tmp_path: Path) -> None:
    """SQLite takes the process down when a connection is closed under a running statement."""
    store = sqlite.SqliteDatabase(str(tmp_path / "registry.db"))
    inside, let_go, order = threading.Event(), threading.Event(), list[str]()

    def work(tx: database.Transaction) -> None:
        inside.set()
        let_go.wait(10)
        tx.rows("SELECT 1 AS one")
        order.append("written")

    def close() -> None:
        store.close()
        order.append("closed")

    writer = threading.Thread(target=lambda: store.write(work))
    writer.start()
    assert inside.wait(10)
    closer = threading.Thread(target=close)
    closer.start()
    closer.join(0.2)
    let_go.set()
    writer.join(10)
    closer.join(10)
    assert order == ["written", "closed"]
