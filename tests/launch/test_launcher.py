"""Which Spark and Python run a job, and what supervisors do with drivers; drivers are scripts."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.errors import (
    DriverLost,
    FlinkishError,
    LaunchFailed,
    NameTaken,
    ProgramFailed,
    WrongState,
)
from flinkish.launch import launcher, spark_submit
from flinkish.launch.driver_process import end_of, how_it_ended
from flinkish.launch.job_logs import Follower, error_summary, error_tail, last_lines
from flinkish.launch.launcher import launch_job, new_job
from flinkish.launch.termination import answers_late, kill_job
from flinkish.messages.launch import ExternalLauncher, Launch
from flinkish.messages.requests import CancelArguments, SavepointArguments
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, RequestKind, RequestState
from flinkish.registry.liveness import is_alive, process_ref, reconcile
from tests.launch.conftest import Run, ended, wait
from tests.support.launcher_fakes import make_java, make_spark


def test_a_job_that_is_refused_its_name_leaves_no_log(
    registry: Registry, registry_url: str, environ: dict[str, str]
) -> None:
    launch = Launch("/app.py")
    first, second = (
        new_job("rides", launch, checkpoints="/cp", environ=environ, now=1.0) for _ in range(2)
    )
    registry.add_job(first)
    with pytest.raises(NameTaken):
        launch_job(registry, registry_url, second, environ, unique_name=True)
    assert second.log_path is not None
    assert not os.path.exists(second.log_path)


def test_an_environment_that_is_too_large_is_named(
    sqlite_registry: Registry, make_job: Callable[..., JobRecord], tmp_path: Path
) -> None:
    job = make_job(log_path=str(tmp_path / "log"))
    with pytest.raises(LaunchFailed, match="Argument list too long") as refused:
        launch_job(sqlite_registry, "unused", job, {"MINE": "x" * 200_000})
    assert "a smaller environment" in refused.value.hint
    assert sqlite_registry.job(job.job_id).state is JobState.FAILED


@pytest.mark.parametrize("safe", ["", "1"])
def test_a_supervisor_has_all_of_pythonpath_but_not_its_working_directory(
    tmp_path: Path, safe: str
) -> None:
    """With PYTHONSAFEPATH the working directory is not in ``sys.path`` to begin with."""
    supervisor = tmp_path / "home" / "flinkish" / "launch" / "supervisor.py"
    supervisor.parent.mkdir(parents=True)
    for package in (supervisor.parent.parent, supervisor.parent):
        (package / "__init__.py").touch()
    supervisor.write_text("import sys\ndef main(words): print(*words, *sys.path, sep='\\n')\n")
    paths = [str(tmp_path / "first"), str(tmp_path / "second")]
    done = subprocess.run(
        [sys.executable, "-c", launcher._START, str(tmp_path / "home"), "job"],
        env={"PYTHONPATH": ":".join(paths), "PYTHONSAFEPATH": safe},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    job, *found = done.stdout.splitlines()
    assert (job, found[:2]) == ("job", paths)
    assert not {"", str(tmp_path)} & set(found)


# --- the supervisor ---------------------------------------------------------------------------


def test_a_driver_that_fails_before_flinkish_runs_in_it(run: Run, registry: Registry) -> None:
    job = run("echo 'Error: Unknown master xyz' >&2; echo noise; exit 3")
    final = wait(registry, job, ended)
    assert final.state is JobState.FAILED
    assert final.exit_status == 3
    assert final.failure is not None
    assert final.failure["id"] == "launch-failed"
    assert final.failure["message"] == "the driver exited with status 3: Error: Unknown master xyz"
    assert final.failure["tail"] == ["Error: Unknown master xyz"]
    assert registry.state_history(job.job_id)[-1].reason == final.failure["message"]


def test_an_exit_without_a_word_is_no_success(run: Run, registry: Registry) -> None:
    final = wait(registry, run("exit 0"), ended)
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert final.failure["id"] == "driver-lost"


def test_a_killed_driver_and_what_it_leaves_behind(
    run: Run, registry: Registry, tmp_path: Path
) -> None:
    job = run(f"sleep 300 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/pid; wait")
    request = registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    pids = [wait_for_number(tmp_path / name) for name in ("pid", "child")]
    assert os.getpgid(pids[0]) == os.getpgid(pids[1]) == pids[0], "one group to signal"
    assert os.getsid(pids[0]) != os.getsid(0), "no terminal of ours"
    os.kill(pids[0], signal.SIGKILL)
    final = wait(registry, job, ended)
    assert final.exit_status == -9
    assert final.failure is not None
    assert final.failure["message"] == "the driver was killed by SIGKILL"
    assert registry.request(request.request_id).state is RequestState.FAILED
    deadline = time.monotonic() + 60
    while running(pids[1]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not running(pids[1])


def test_a_job_that_recorded_its_end_only_gets_its_exit_status(
    run: Run, registry: Registry, tmp_path: Path
) -> None:
    job = run(
        f"echo $$ > {tmp_path}/pid; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 1"
    )
    wait_for_number(tmp_path / "pid")
    registry.transition(job.job_id, JobState.CREATED)
    registry.transition(job.job_id, JobState.FINISHED, "program ended")
    (tmp_path / "go").touch()
    final = wait(registry, job, ended)
    assert (final.state, final.exit_status, final.failure) == (JobState.FINISHED, 1, None)


def test_the_supervisor_knows_better_than_a_reader(
    run: Run, registry: Registry, tmp_path: Path
) -> None:
    job = run(
        f"echo $$ > {tmp_path}/pid; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; "
        "echo 'Error: why'; exit 7"
    )
    wait_for_number(tmp_path / "pid")
    guess = DriverLost("the driver process is gone").to_record()
    registry.transition(job.job_id, JobState.FAILED, "gone", failure=guess)
    (tmp_path / "go").touch()
    # The exit status is written first, the reason right after it.
    final = wait(registry, job, lambda j: ended(j) and (j.failure or {}) != guess)
    assert final.failure is not None
    assert final.failure["message"] == "the driver exited with status 7: Error: why"


@pytest.mark.parametrize("cancelling", [False, True])
def test_sigterm_reaches_the_driver(
    run: Run, registry: Registry, tmp_path: Path, cancelling: bool
) -> None:
    job = run(
        f"trap 'echo told; exit 5' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"
    )
    wait_for_number(tmp_path / "pid")
    supervisor = wait(registry, job, lambda j: j.supervisor).supervisor
    assert supervisor is not None
    if cancelling:
        registry.transition(job.job_id, JobState.CANCELLING)
    os.kill(supervisor.pid, signal.SIGTERM)
    final = wait(registry, job, ended)
    assert final.state is (JobState.CANCELED if cancelling else JobState.FAILED)
    assert final.exit_status == 5
    assert job.log_path is not None
    assert "told" in Path(job.log_path).read_text()


def test_a_job_cancelled_before_its_driver_starts(
    registry: Registry, registry_url: str, tmp_path: Path, environ: dict[str, str]
) -> None:
    home = make_spark(tmp_path / "spark", f"touch {tmp_path}/started")
    spec = Launch(application="/app.py", spark_home=str(home))
    job = new_job("test", spec, checkpoints="/cp", environ=environ, now=time.time())
    registry.add_job(job)
    registry.transition(job.job_id, JobState.CANCELLING)
    subprocess.run(
        [sys.executable, "-m", "flinkish.launch.supervisor", job.job_id],
        env={**environ, "FLINKISH_REGISTRY": registry_url},
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert registry.job(job.job_id).state is JobState.CANCELED
    assert not (tmp_path / "started").exists()


def test_a_spark_submit_that_cannot_be_executed(run: Run, registry: Registry) -> None:
    job = run("exit 0", client_python="/no/such/python")
    final = wait(registry, job, lambda j: j.state.is_final)
    assert final.failure is not None
    assert final.failure["id"] == "launch-failed"
    assert "/no/such/python" in final.failure["message"]


def test_the_job_outlives_the_process_that_launched_it(
    registry: Registry, registry_url: str, tmp_path: Path, environ: dict[str, str]
) -> None:
    home = make_spark(tmp_path / "spark", f"sleep 0.5; echo $PWD > {tmp_path}/ran; exit 4")
    source = f"""
import os, time
from flinkish.launch.launcher import launch_job, new_job
from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry
spec = Launch(application="/a.py", spark_home={str(home)!r}, working_directory={str(tmp_path)!r})
with Registry.open({registry_url!r}) as registry:
    job = new_job("test", spec, checkpoints="/cp", environ=os.environ, now=time.time())
    launch_job(registry, {registry_url!r}, job, os.environ)
"""
    subprocess.run(
        [sys.executable, "-c", source], env=environ, check=True, cwd=Path(__file__).parents[2]
    )
    (job,) = registry.jobs()
    assert not (tmp_path / "ran").exists()
    final = wait(registry, job, ended)
    assert final.exit_status == 4
    assert (tmp_path / "ran").read_text().strip() == str(tmp_path)
    assert job.log_path is not None
    assert stat.S_IMODE(os.stat(job.log_path).st_mode) == 0o600


def test_a_dead_supervisor_is_noticed(run: Run, registry: Registry, tmp_path: Path) -> None:
    job = run(f"echo $$ > {tmp_path}/pid; sleep 300")
    driver = wait_for_number(tmp_path / "pid")
    supervisor = wait(registry, job, lambda j: j.supervisor).supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    os.killpg(driver, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not reconcile(registry, [registry.job(job.job_id)])[0].state.is_final:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert registry.job(job.job_id).state is JobState.FAILED


def test_of_another_launchers_job_only_the_driver_is_killed(registry: Registry) -> None:
    """Its group may be that of the launcher, or of the shell that started both."""
    command = ["sh", "-c", "sleep 600 & echo $!; sleep 600"]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as group:
        try:
            assert group.stdout is not None
            driver = process_ref(int(group.stdout.readline()))
            launch = Launch("/app.py", external=ExternalLauncher("python", "0.1.0"))
            job = new_job("external", launch, checkpoints="/cp", environ={}, now=time.time())
            registry.add_job(replace(job, driver=driver))
            registry.transition(job.job_id, JobState.CREATED)
            request = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
            final = kill_job(registry, registry.job(job.job_id), request.request_id)
            assert final.state is JobState.CANCELED
            assert not is_alive(driver)
            assert group.poll() is None
        finally:
            os.killpg(group.pid, signal.SIGKILL)


def refused(_pid: int, _number: int) -> None:
    raise PermissionError("not the user's own")


def ended_meanwhile(_pid: int, _number: int) -> None:
    raise ProcessLookupError("no such process")


def test_a_job_of_another_user_is_not_half_killed(
    sqlite_registry: Registry,
    make_job: Callable[..., JobRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = sqlite_registry
    job = make_job(supervisor=process_ref())
    registry.add_job(job)
    request = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    monkeypatch.setattr(os, "kill", refused)
    with pytest.raises(WrongState, match=f"process {os.getpid()} belongs to another user"):
        kill_job(registry, job, request.request_id)
    assert registry.job(job.job_id).state is JobState.RUNNING
    assert registry.request(request.request_id).state is RequestState.PENDING


def test_a_supervisor_that_ends_before_the_signal_is_as_good(
    sqlite_registry: Registry,
    make_job: Callable[..., JobRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = sqlite_registry
    job = make_job(supervisor=process_ref())
    registry.add_job(job)
    request = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    monkeypatch.setattr(os, "kill", ended_meanwhile)

    def record_end(_seconds: float) -> None:
        registry.transition(job.job_id, JobState.CANCELED, "by its supervisor")

    final = kill_job(registry, job, request.request_id, sleep=record_end)
    assert final.state is JobState.CANCELED
    assert registry.request(request.request_id).state is RequestState.COMPLETED


def wait_for_number(path: Path) -> int:
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(path.read_text())


def running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


# --- how it ended: pure -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "started", "kind", "words"),
    [
        (1, True, ProgramFailed, "exited with status 1: boom"),
        (1, False, LaunchFailed, "exited with status 1: boom"),
        (0, True, DriverLost, "exited with status 0 without recording"),
        (-9, True, DriverLost, "was killed by SIGKILL"),
        (-15, False, DriverLost, "was killed by SIGTERM"),
        (137, True, DriverLost, "its Python process was killed by SIGKILL"),
        (143, True, DriverLost, "its Python process was killed by SIGTERM"),
        (-99, True, DriverLost, "signal 99"),
    ],
)
def test_end_of(status: int, started: bool, kind: type[FlinkishError], words: str) -> None:
    error = end_of(status, "26/11/23 14:00:00 INFO Spark: a word\nboom\n", started=started)
    assert type(error) is kind
    assert words in error.message
    killed = "killed" in words or "signal" in words
    assert error.data.get("tail") == ([] if killed else ["boom"])
    assert how_it_ended(status) in error.message


TRACEBACK = """\
26/11/21 07:50:01 WARN NativeCodeLoader: Unable to load native-hadoop library
Traceback (most recent call last):
  File "/jobs/first.py", line 1, in <module>
    first()
ValueError: an earlier one
go on
Traceback (most recent call last):
  File "/jobs/app.py", line 10, in <module>
    main()
  File "/jobs/app.py", line 7, in main
    import nothing
ModuleNotFoundError: No module named 'nothing'
26/11/21 07:50:02 INFO ShutdownHookManager: Shutdown hook called
"""
PY4J = """\
Traceback (most recent call last):
  File "/jobs/app.py", line 5, in <module>
    spark.range(1).write.parquet("s3a://x")
py4j.protocol.Py4JJavaError: An error occurred while calling o42.parquet.
: java.lang.RuntimeException: java.lang.ClassNotFoundException: Class S3AFileSystem not found
\tat org.apache.hadoop.conf.Configuration.getClass(Configuration.java:2737)
Caused by: java.lang.ClassNotFoundException: Class S3AFileSystem not found
\tat org.apache.hadoop.conf.Configuration.getClassByName(Configuration.java:2641)
\t... 25 more
"""
JVM = """\
26/11/21 07:50:01 INFO SparkContext: Running Spark version 4.3.0
Exception in thread "main" org.apache.spark.SparkException: Could not parse Master URL: 'xyz'
\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:3342)
Caused by: java.lang.IllegalStateException: deeper
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
"""
SYNTAX = """\
Traceback (most recent call last):
  File "/jobs/bad.py", line 3
    def broken(:
               ^
SyntaxError: invalid syntax
"""
CAPTURED = """\
Traceback (most recent call last):
  File "/jobs/app.py", line 4, in <module>
    df = spark.table("missing")
pyspark.errors.exceptions.captured.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table \
`missing` cannot be found. SQLSTATE: 42P01;
'UnresolvedRelation [missing], [], false

26/11/21 07:50:02 INFO SparkContext: Invoking stop() from shutdown hook
"""


@pytest.mark.parametrize(
    ("text", "summary", "line"),
    [
        (TRACEBACK, "ModuleNotFoundError: No module named 'nothing'", "    import nothing"),
        (
            PY4J,
            "py4j.protocol.Py4JJavaError: An error occurred while calling o42.parquet.",
            "Caused by: java.lang.ClassNotFoundException: Class S3AFileSystem not found",
        ),
        (
            JVM,
            'Exception in thread "main" org.apache.spark.SparkException: '
            "Could not parse Master URL: 'xyz'",
            "Caused by: java.lang.IllegalStateException: deeper",
        ),
        (SYNTAX, "SyntaxError: invalid syntax", "    def broken(:"),
        (
            CAPTURED,
            "pyspark.errors.exceptions.captured.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] "
            "The table `missing` cannot be found. SQLSTATE: 42P01;",
            '  File "/jobs/app.py", line 4, in <module>',
        ),
        (
            "Error: Missing application resource.\n\nUsage: spark-submit [options] <app>\n",
            "Error: Missing application resource.",
            "Error: Missing application resource.",
        ),
        ("just\n\nwords\n", "words", "just"),
        ("", "", None),
    ],
)
def test_the_error_in_a_log(text: str, summary: str, line: str | None) -> None:
    tail = error_tail(text)
    assert error_summary(tail) == summary
    if line is not None:
        assert line in tail
    assert len(error_tail(text, 2)) <= 2
    assert not any("\tat " in kept for kept in tail)


def test_following_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Follower(str(path))
    assert log.read() == ""
    path.write_bytes("a\nü".encode())
    assert log.read() == "a\n"
    with path.open("ab") as stream:
        stream.write(b"b\nc")
    assert log.read() == "üb\n"
    assert log.rest() == "c"


@pytest.mark.parametrize("lines", [0, 1, 2, 5000, 9000])
def test_last_lines(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "log"
    written = [f"line {number} {'x' * 40}\n" for number in range(5000)]
    path.write_text("".join(written) + "unfinished")
    text, end = last_lines(str(path), lines)
    assert text == "".join([*written, "unfinished"][5001 - min(lines, 5001) :])
    assert end == path.stat().st_size


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\nprog 1%\rprog 2%\x0c\nlast\r\n")
    assert last_lines(str(path), 2)[0] == "prog 1%\rprog 2%\x0c\nlast\r\n"


def test_an_incomplete_character_is_left_to_whoever_reads_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes("one\nzwölf €".encode()[:-1])
    text, end = last_lines(str(path), 1)
    assert text == "zwölf "
    assert path.read_bytes()[end:] == "€".encode()[:-1]


# --- which Spark, which Python ----------------------------------------------------------------


def test_the_command_line() -> None:
    launch = Launch(
        application="/jobs/app.py",
        arguments=("--conf", "mine", ""),
        master="spark://host:7077",
        py_files=("/a.py", "/b.zip"),
        archives=("/env.zip#env",),
        jars=("/x.jar",),
        packages=("org:name:1",),
        conf={"spark.ui.enabled": "false", "spark.a": "b c"},
    )
    installation = spark_submit.Installation("/spark", "/bin/py", "/bin/py")
    assert spark_submit.build_command(launch, installation, name="n", driver_main="/driver") == [
        *("/spark/bin/spark-submit", "--master", "spark://host:7077", "--name", "n"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.a=b c"),
        *("--py-files", "/a.py,/b.zip", "--archives", "/env.zip#env"),
        *("--jars", "/x.jar", "--packages", "org:name:1"),
        *("/driver", "/jobs/app.py", "--conf", "mine", ""),
    ]
    module = Launch(application=None, module="jobs.app", arguments=("x",))
    assert spark_submit.build_command(module, installation, name="n", driver_main="/driver") == [
        *("/spark/bin/spark-submit", "--name", "n", "/driver", "--module", "jobs.app", "x")
    ]


def test_the_environment() -> None:
    built = spark_submit.build_environment(
        {"PATH": "/bin", "PYTHONPATH": "/mine", "PYSPARK_DRIVER_PYTHON_OPTS": "notebook"},
        spark_submit.Installation("/spark", "/driver/python", "/worker/python"),
        job_id="j",
        registry_url="sqlite:////r",
        flinkish_home="/home",
        fallback_path="/a:/b",
    )
    assert built == {
        "PATH": "/bin",
        "PYTHONPATH": "/mine",
        "FLINKISH_JOB_ID": "j",
        "FLINKISH_REGISTRY": "sqlite:////r",
        "FLINKISH_HOME": "/home",
        "FLINKISH_FALLBACK_PATH": "/a:/b",
        "SPARK_HOME": "/spark",
        "PYSPARK_PYTHON": "/worker/python",
        "PYSPARK_DRIVER_PYTHON": "/driver/python",
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A virtual environment with a pyspark, as far as a launcher can tell."""
    home = tmp_path / "venv/lib/python3.11/site-packages/pyspark"
    make_spark(home, "exit 0", "3.5.9")
    (tmp_path / "venv/bin").mkdir()
    python = tmp_path / "venv/bin/python"
    python.write_text(f"#!/bin/sh\necho {home}\n")
    python.chmod(0o755)
    return tmp_path / "venv"


def test_a_virtual_environments_spark_runs_with_its_python(
    venv: Path, environ: dict[str, str]
) -> None:
    home = venv / "lib/python3.11/site-packages/pyspark"
    python = str(venv / "bin/python")
    by_option = spark_submit.resolve(Launch(application="a", spark_home=str(home)), environ)
    assert by_option == spark_submit.Installation(str(home), python, python)
    by_variable = spark_submit.resolve(
        Launch(application="a"), {**environ, "SPARK_HOME": str(home)}
    )
    assert by_variable == by_option
    # The interpreter alone is enough: it is asked where its pyspark is.
    assert spark_submit.resolve(Launch(application="a", python=python), environ) == by_option
    assert spark_submit.resolve(Launch(application="a", client_python=python), environ) == by_option


def test_a_relative_interpreter_is_that_of_the_directory_where_it_was_named(
    venv: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(venv)
    relative = Launch(application="a", python="bin/python")
    archived = replace(relative, archives=("/env.zip#bin",))
    for launch, python in ((relative, f"{venv}/bin/python"), (archived, "bin/python")):
        found = spark_submit.pinned(launch, spark_submit.resolve(launch, environ), environ)
        assert (found.client_python, found.python) == (f"{venv}/bin/python", python)


def test_own_spark_is_found_without_importing_it(environ: dict[str, str]) -> None:
    found = spark_submit.resolve(Launch(application="a"), environ)
    assert found.driver_python == found.worker_python == sys.executable
    assert os.path.isfile(found.spark_submit)
    assert "pyspark" not in sys.modules or "pyspark" in found.spark_home


def test_executors_elsewhere_may_have_their_own_python(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    home = str(make_spark(tmp_path / "spark", "exit 0"))
    remote = Launch(application="a", spark_home=home, master="yarn")
    assert spark_submit.resolve(remote, environ).worker_python == sys.executable
    named = {**environ, "PYSPARK_PYTHON": "python3.11"}
    assert spark_submit.resolve(remote, named).worker_python == "python3.11"
    local = Launch(application="a", spark_home=home)
    assert spark_submit.resolve(local, named).worker_python == sys.executable
    archived = Launch(
        application="a",
        spark_home=home,
        master="yarn",
        python="env/bin/python",
        archives=("/env.zip#env",),
    )
    found = spark_submit.resolve(archived, environ)
    assert (found.driver_python, found.worker_python) == (sys.executable, "env/bin/python")


@pytest.mark.parametrize(
    ("fields", "variables", "words"),
    [
        ({"spark_home": "/nowhere"}, {}, "/nowhere is not a Spark"),
        ({"client_python": "/no/python"}, {}, "no such Python interpreter: /no/python"),
        ({"python": "no-such-python"}, {}, "no such Python interpreter: no-such-python"),
        ({"client_python": "false"}, {}, "does not work"),
        ({"spark_home": "SPARK"}, {"JAVA_HOME": "/nowhere"}, "JAVA_HOME is /nowhere"),
        ({"spark_home": "SPARK"}, {"JAVA_HOME": "", "PATH": "/nowhere"}, "Java was not found"),
        ({"spark_home": "SPARK"}, {"JAVA_HOME": "OLD"}, "needs Java 17 or newer"),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path,
    environ: dict[str, str],
    fields: dict[str, str],
    variables: dict[str, str],
    words: str,
) -> None:
    places = {
        "SPARK": str(make_spark(tmp_path / "spark", "exit 0")),
        "OLD": str(make_java(tmp_path / "old", "11.0.20")),
    }
    changes: dict[str, Any] = {k: places.get(v, v) for k, v in fields.items()}
    launch = Launch(application="a", **changes)
    with pytest.raises(LaunchFailed) as caught:
        spark_submit.resolve(
            launch, {**environ, **{k: places.get(v, v) for k, v in variables.items()}}
        )
    assert words in caught.value.message
    assert caught.value.hint
    if "Java" in words:
        assert "install Java 17" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "state", "age", "busy", "late"),
    [
        ("cancel", "PENDING", 5, False, False),
        ("cancel", "PENDING", 11, False, True),
        ("cancel", "PENDING", 11, True, False),
        ("stop", "PENDING", 11, False, True),
        ("cancel", "IN_PROGRESS", 39, False, False),
        ("cancel", "IN_PROGRESS", 41, False, True),
        ("stop", "IN_PROGRESS", 400, False, False),
        ("cancel", "COMPLETED", 400, False, False),
    ],
)
def test_when_a_driver_answers_too_late(
    kind: str, state: str, age: float, busy: bool, late: bool
) -> None:
    from flinkish.registry.jobs import Request, arguments_for

    asked = arguments_for(RequestKind(kind), None if kind == "cancel" else "/sp")
    request = Request("r", "j", RequestKind(kind), RequestState(state), 0.0, asked, started=0.0)
    assert answers_late(request, grace=10.0, now=age, is_busy=busy) is late
