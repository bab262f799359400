"""A supervisor tells a command and a URL what happens to its job, and waits for neither."""

from __future__ import annotations

import http.server
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.config import Config
from flinkish.errors import InvalidConfiguration
from flinkish.launch import notifier
from flinkish.launch.notices import Event, JobView, Notice
from flinkish.launch.notifier import (
    Addressees,
    Notifier,
    notice_document,
    post,
    run_command,
    supervisor_environment,
)
from flinkish.launch.spark_submit import (
    Installation,
    build_environment,
    submission_environment,
)
from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from tests.launch.conftest import Run, ended, wait
from tests.launch.test_supervisor import RETURNS
from tests.launch.test_supervisor import runs as runs
from tests.support.cli.documents import refuse_nothing

DOCUMENT = {"event": "job-failed", "job_id": "a" * 32, "name": "app", "message": "why"}


class Posted(list[Any]):
    """What was posted to ``url``; answers with ``status``."""

    url = ""
    status = 200
    location: str | None = None


@pytest.fixture
def posted() -> Iterator[Posted]:
    taken = Posted()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(taken.status)
            if taken.location:
                self.send_header("Location", taken.location)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        taken.url = f"http://127.0.0.1:{server.server_port}/hook?token=hidden"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield taken
        server.shutdown()
        thread.join()


def test_failures_and_returns_of_a_real_job(
    run: Run,
    registry: Registry,
    runs: str,
    tmp_path: Path,
    posted: Posted,
    environ: dict[str, str],
) -> None:
    """The driver fails three times. The command is slow, and the driver does not wait for it."""
    told = tmp_path / "told"
    environ["FLINKISH_NOTIFY_COMMAND"] = f"cat >> {told}; sleep 0.3"
    environ["FLINKISH_NOTIFY_URL"] = posted.url
    job = run(f"{runs}; env > {tmp_path}/seen; kill -9 $$", options=RETURNS)
    final = wait(registry, job, ended)
    deadline = time.monotonic() + 60
    while len(posted) < 5:
        assert time.monotonic() < deadline, posted
        time.sleep(0.05)
    events = [each["event"] for each in posted]
    assert events == ["job-failed", "job-running-again"] * 2 + ["job-failed"]
    assert [json.loads(line) for line in told.read_text().splitlines()] == posted
    first, last = posted[0], posted[-1]
    assert (first["state"], last["state"]) == ("FAILING", "FAILED")
    assert "SIGKILL" in first["message"]
    assert (first["job_id"], first["name"]) == (job.job_id, job.name)
    assert first["text"].startswith(f"flinkish: job-failed: job {job.name} ({job.job_id}): ")
    # Neither the program nor the registry has the URL with its token.
    assert "hidden" not in (tmp_path / "seen").read_text()
    assert "hidden" not in str(final.launch)


def test_an_addressee_that_hangs_or_fails_is_a_line_in_the_log(
    run: Run, registry: Registry, runs: str, posted: Posted, environ: dict[str, str]
) -> None:
    posted.status = 500
    environ["FLINKISH_NOTIFY_COMMAND"] = "sleep 600"
    environ["FLINKISH_NOTIFY_URL"] = posted.url
    environ["FLINKISH_NOTIFY_TIMEOUT"] = "200 ms"
    began = time.monotonic()
    job = run(f"{runs}; kill -9 $$")
    final = wait(registry, job, ended)
    assert final.state is JobState.FAILED
    assert time.monotonic() - began < 60
    assert job.log_path is not None
    log = Path(job.log_path)
    deadline = time.monotonic() + 60
    while "notify.url: " not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "notify.command: it took longer than 0.2 s" in log.read_text()
    assert "hidden" not in log.read_text()


def failing(registry: Registry, url: str, addressees: Addressees) -> Notifier:
    """A notifier of a job that has failed since the notifier's start."""
    job = JobRecord("a" * 32, "app", JobState.RUNNING, 0.0, Launch("/app.py"))
    registry.add_job(job)
    told = Notifier(url, job.job_id, addressees)
    told.start()
    registry.transition(job.job_id, JobState.FAILED, "why")
    return told


def test_the_supervisor_waits_for_the_delivery_of_the_last_notice(
    sqlite_registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "_FAREWELL", 0.0)
    addressees = Addressees(f"cat > {tmp_path}/told", None, 60.0, None)
    failing(sqlite_registry, f"sqlite:///{tmp_path}/registry.db", addressees).finish()
    assert json.loads((tmp_path / "told").read_text())["event"] == "job-failed"


def test_a_last_notice_that_is_not_delivered_in_time_is_a_line_in_the_log(
    sqlite_registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    over = threading.Event()
    monkeypatch.setattr(notifier, "_FAREWELL", 0.0)
    monkeypatch.setattr(notifier, "run_command", lambda *_: over.wait(60))
    addressees = Addressees("never", None, 0.0, None)
    told = failing(sqlite_registry, f"sqlite:///{tmp_path}/registry.db", addressees)
    told.finish()
    over.set()
    assert "the last notices about this job could not be delivered" in capfd.readouterr().err
    told._thread.join()


def test_a_command_gets_the_notice_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINKISH_REGISTRY", "postgresql://me:hunter2@host/db")
    monkeypatch.setenv("FLINKISH_SECRET_CONF", "hunter2")
    monkeypatch.setenv("PAGER", "mine")
    run_command(f"cat > {tmp_path}/in; env > {tmp_path}/env", DOCUMENT, 10)
    assert json.loads((tmp_path / "in").read_text()) == DOCUMENT
    lines = (tmp_path / "env").read_text().splitlines()
    assert {f"FLINKISH_JOB_ID={'a' * 32}", "FLINKISH_MESSAGE=why", "PAGER=mine"} <= set(lines)
    assert not any("hunter2" in line for line in lines)
    monkeypatch.setenv("FLINKISH_REGISTRY", "sqlite:////srv/registry.db")
    run_command(f"echo $FLINKISH_REGISTRY > {tmp_path}/env", DOCUMENT, 10)
    assert (tmp_path / "env").read_text() == "sqlite:////srv/registry.db\n"


def test_a_command_that_fails_or_hangs(tmp_path: Path) -> None:
    with pytest.raises(ChildProcessError, match="exit status 3"):
        run_command("exit 3", DOCUMENT, 10)
    run_command("exec 0<&-; true", {**DOCUMENT, "message": "x" * 1_000_000}, 10)  # reads nothing
    with pytest.raises(TimeoutError, match=r"longer than 0.3 s"):
        run_command(f"sleep 600 & echo $! > {tmp_path}/pid; sleep 600", DOCUMENT, 0.3)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}"):  # what it has started is gone too
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_a_failed_command_says_is_the_end_of_its_output() -> None:
    with pytest.raises(ChildProcessError, match=r"exit status 3:\nx{4000,4090}\nno route$"):
        run_command(
            "head -c 9999 /dev/zero | tr '\\0' x; echo; echo no route >&2; exit 3", DOCUMENT, 10
        )


def test_a_message_that_no_variable_can_hold(tmp_path: Path) -> None:
    message = "a\0b\udcff"
    run_command(f'echo "$FLINKISH_MESSAGE" > {tmp_path}/out', {**DOCUMENT, "message": message}, 10)
    assert (tmp_path / "out").read_text() == "ab?\n"


def test_a_post_is_not_sent_on_and_its_errors_do_not_name_the_url(posted: Posted) -> None:
    post(posted.url, DOCUMENT, 10)
    assert posted == [DOCUMENT]
    posted.status = 302
    posted.location = posted.url
    with pytest.raises(OSError, match=r"^the server answered with status 302$"):
        post(posted.url, DOCUMENT, 10)
    assert len(posted) == 2
    closed = "http://127.0.0.1:1/hook?token=hidden"
    with pytest.raises(OSError, match=r"^Connection refused$"):
        post(closed, DOCUMENT, 10)
    with pytest.raises(OSError, match=r"^the request failed \(URLError\)$"):
        post("nowhere://hook?token=hidden", DOCUMENT, 10)


def test_an_answer_that_is_none_and_one_without_an_end() -> None:
    """The server says what is no HTTP, then begins a body that it never ends."""
    replies = [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\nx"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def answer() -> None:
            for reply in replies:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(reply)
                    if reply is replies[-1]:
                        over.wait(60)

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/?token=hidden"
        with pytest.raises(OSError, match=r"^the request failed \(BadStatusLine\)$"):
            post(url, DOCUMENT, 10)
        post(url, DOCUMENT, 50)
        over.set()
        thread.join()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "hooks.example/x",
        "https://",
        "https://me:token@hooks/x",
        "https://hooks/a b",
        "https://hooks/ä",
        "https://hooks:port/x",
        "https://hooks/x\r\nHost: other",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_before_the_job_starts(url: str) -> None:
    config = Config.load(flags={"notify.url": url}, environ={}, cwd="/")
    with pytest.raises(InvalidConfiguration, match=r"notify\.url") as caught:
        supervisor_environment(config, {})
    assert "token" not in f"{caught.value}{caught.value.hint}"


def test_texts_are_masked() -> None:
    job = JobRecord("a" * 32, "app", JobState.FAILED, 0.0, Launch("/app.py"))
    notice = Notice(Event.FAILED, 0.0, JobState.FAILED, "cannot read s3://me:secret@host/x")
    document = notice_document(JobView(job, (), (), None, 0.0), notice)
    assert "secret" not in json.dumps(document)
    refuse_nothing("notice", json.loads(json.dumps(document)))
    assert document["time"] == "1970-01-01T00:00:00Z"


def test_the_settings_reach_the_supervisor_and_nobody_else() -> None:
    flags = {"notify.url": "https://hooks/x", "notify.savepoint-max-age": "2 h"}
    config = Config.load(flags=flags, environ={}, cwd="/")
    assert not [name for name in config.to_options() if name.startswith("notify.")]
    environ = supervisor_environment(config, {"A": "b"})
    assert Addressees.take(environ) == Addressees(None, "https://hooks/x", 10.0, 7_200.0)
    assert environ == {"A": "b"}
    nobody = supervisor_environment(Config.load(environ={}, cwd="/"), {})
    assert Addressees.take(nobody) is None


def test_wrong_and_empty_settings_do_not_end_the_supervisor(
    capfd: pytest.CaptureFixture[str],
) -> None:
    url = {"FLINKISH_NOTIFY_URL": "https://hooks/x"}
    empty = {**url, "FLINKISH_NOTIFY_SAVEPOINT_MAX_AGE": "", "FLINKISH_NOTIFY_TIMEOUT": ""}
    assert Addressees.take(empty) == Addressees(None, "https://hooks/x", 10.0, None)
    assert Addressees.take({"FLINKISH_NOTIFY_URL": "", "FLINKISH_NOTIFY_COMMAND": ""}) is None
    wrong = {**url, "FLINKISH_NOTIFY_SAVEPOINT_MAX_AGE": "soon"}
    assert Addressees.take(wrong) is None
    assert wrong == {}
    said = "flinkish: no notices are sent about this job: 'soon' is not a duration"
    assert said in capfd.readouterr().err


def test_no_program_sees_the_settings() -> None:
    environ = {
        "FLINKISH_NOTIFY_URL": "https://hooks/token",
        "FLINKISH_NOTIFY_COMMAND": "c",
        "A": "b",
    }
    installation = Installation("/spark", "python", "python")
    local = build_environment(
        environ, installation, job_id="j", registry_url="r", flinkish_home="h", fallback_path="f"
    )
    remote = submission_environment(environ, installation)
    for environment in (local, remote):
        assert environment["A"] == "b"
        assert not [name for name in environment if name.startswith("FLINKISH_NOTIFY_")]
    config = Config.load(environ={}, cwd="/")
    # Only what the client was configured with counts.
    assert "FLINKISH_NOTIFY_URL" not in supervisor_environment(config, environ)
