"""``list``: its two ways show the same, jobs are shown as they are, start-up stays small."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.cli import entry
from flinkish.cli.app import run as run_click
from flinkish.cli.commands.list import wanted_states
from flinkish.messages.launch import Launch
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.registry import fast_list
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import (
    FINAL_STATES,
    SCHEDULED_STATES,
    TRANSITIONS,
    JobRecord,
    JobState,
    ProcessRef,
)
from flinkish.registry.liveness import process_ref
from tests.cli.conftest import PATIENCE, ROOT, Command, line_with

STARTED = 1_700_000_000.25


@pytest.fixture
def registry(private: Path) -> Iterator[Registry]:
    (private / "state/flinkish").mkdir(parents=True)
    with Registry.open(f"sqlite:///{private}/state/flinkish/registry.db") as opened:
        yield opened


def add(
    registry: Registry,
    number: int,
    state: JobState,
    *,
    name: str = "flights",
    supervisor: ProcessRef | None = None,
) -> str:
    """A job in ``state`` whose supervisor is this very process (or the given one)."""
    job = JobRecord(
        job_id=f"{number:04x}" * 8,
        name=name,
        state=JobState.INITIALIZING,
        start_time=STARTED + number,
        launch=Launch(application="/app.py"),
        supervisor=supervisor or process_ref(),
    )
    registry.add_job(job)
    for step in path_to(state):
        registry.transition(job.job_id, step)
    return job.job_id


def path_to(state: JobState) -> list[JobState]:
    """A legal way from INITIALIZING to ``state``."""
    ways: list[list[JobState]] = [[]]
    while True:
        way = ways.pop(0)
        here = way[-1] if way else JobState.INITIALIZING
        if here is state:
            return way
        ways += [[*way, step] for step in TRANSITIONS[here] if step not in way]


@pytest.fixture
def jobs(registry: Registry) -> list[str]:
    """A job in every state; some with queries and savepoints."""
    ids = [add(registry, number, state) for number, state in enumerate(JobState, 1)]
    add(registry, 77, JobState.RUNNING, name='ein "Name" mit Ümlaut')
    queries = [
        QueryStatus(name=name, query_id=f"q{name}", run_id="r", checkpoint_dir="/c", batch_id=batch)
        for name, batch in (("b", 12), ("a", None), ("c", 7))
    ]
    registry.heartbeat(ids[2], queries)
    registry.heartbeat(ids[2], [replace(queries[0], query_id="again", batch_id=3)])
    for path, created, disposed in (
        ("/sp/old", 1.0, None),
        ("/sp/new", 2.0, None),
        ("/sp/newer-but-gone", 3.0, 4.0),
    ):
        registry.add_savepoint(
            SavepointSummary(path, ids[2], created, "native", 1, 1, 0.1, disposed=disposed)
        )
    return ids


WORDS = [
    [],
    ["-r"],
    ["-s"],
    ["-a"],
    ["-r", "-s"],
    ["--running"],
    ["--scheduled"],
    ["--all"],
    ["--name", "flights"],
    ["--name=flights", "-a"],
    ["--name", "nobody"],
    ["--name", "nobody", "-r"],
    ["--name", "nobody", "-s"],
    ["--name", "nobody", "-a"],
    ["--name", "f*s"],
    ["--name", "?lights", "-r"],
    ["--name", "[f]lights"],
    ["--name", "[f]light*"],
    ["--name", "*", "-a"],
    ["--name", 'ein "Name" mit Ümlaut'],
    ["-q"],
    ["-q", "--name", "nobody"],
]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
@pytest.mark.parametrize("json", [False, True])
def test_both_ways_show_the_same(
    cli: Command, jobs: list[str], words: list[str], json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*words, "--json"] if json else words
    assert entry.list_plainly(words) is True
    plain = capsys.readouterr()
    assert run_click(["list", *words]) == 0
    assert capsys.readouterr() == plain


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--watch"],
        ["-ra"],
        ["x"],
        ["--name"],
        ["--name="],
        ["--name", "-r"],
        ["-D", "registry.url=x.db"],
        ["-Dk=v"],
        ["--state", "running"],
        ["--since", "1d"],
        ["--jso"],
        ["--"],
    ],
    ids=" ".join,
)
def test_what_is_not_plain_goes_to_click(words: list[str]) -> None:
    assert entry.parse_list(words) is None


@pytest.mark.parametrize("words", [[], ["-r"], ["--name", "x", "-a"], ["-q"], ["--json"]], ids=str)
def test_both_ways_show_that_there_is_no_registry_yet(
    cli: Command, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.list_plainly(words) is True
    plain = capsys.readouterr()
    assert run_click(["list", *words]) == 0
    assert capsys.readouterr() == plain


def test_no_registry_yet(cli: Command) -> None:
    empty = cli.ok("list")
    assert empty.out == ""
    default = cli.directory / "state" / "flinkish" / "registry.db"
    assert empty.err.splitlines() == [
        "No running jobs.",
        "No scheduled jobs.",
        f"There is no registry yet: flinkish run creates sqlite:///{default}",
    ]
    assert cli.ok("list", "--json").json()["jobs"] == []
    assert cli.ok("list", "-q").err == ""
    assert cli("status", "abcd").code == 10
    assert cli("savepoint", "--all", "-q", str(cli.directory / "sp")).code == 0
    assert not default.parent.exists()


def test_an_empty_file_is_no_registry_yet(cli: Command) -> None:
    default = cli.directory / "state" / "flinkish" / "registry.db"
    default.parent.mkdir(parents=True)
    default.touch()
    assert "There is no registry yet" in cli.ok("list").err
    saved = cli.ok("savepoint", "--all", "-q", str(cli.directory / "sp"))
    assert f"there is no registry at sqlite:///{default}" in saved.err
    assert cli("stop", "abcd").code == 10
    assert default.stat().st_size == 0


def test_prune_says_that_no_registry_tells_what_jobs_need(cli: Command) -> None:
    (cli.directory / "sp").mkdir()
    pruned = cli.ok("savepoint", "prune", "sp", "--keep-last", "1", "--yes", "-q")
    assert "warning: there is no registry at" in pruned.err


@pytest.mark.parametrize(
    "words",
    [
        ("savepoint", "prune", "sp", "--keep-last", "1"),
        ("savepoint", "list", "--registry"),
        ("purge", "--ended-before", "1d"),
        ("ack", "--all"),
        ("recover",),
        ("metrics",),
        ("savepoint", "--all", "sp"),
        ("list",),  # the fast path
        ("list", "--stuck"),
    ],
    ids=" ".join,
)
def test_json_says_that_there_is_no_registry(cli: Command, words: tuple[str, ...]) -> None:
    (cli.directory / "sp").mkdir()
    absent = cli.ok(*words, "--json").json()["absent_registry"]
    assert absent == f"sqlite:///{cli.directory}/state/flinkish/registry.db"


def test_json_has_the_warnings(cli: Command) -> None:
    (cli.directory / "sp").mkdir()
    [warning] = cli.ok("savepoint", "prune", "sp", "--keep-last", "1", "--json").json()["warnings"]
    assert "there is no registry at" in warning
    [warning] = cli.ok("list", "--json", "-Dregistry.ulr=x").json()["warnings"]
    assert "did you mean registry.url?" in warning
    [warning] = cli.ok("list", "--stuck", "--json").json()["warnings"]
    assert "there is no registry at" in warning


@pytest.mark.parametrize("named", [False, True], ids=["default", "named"])
@pytest.mark.parametrize("why", ["link", "directory-link", "refused"])
def test_a_registry_that_cannot_be_looked_at_is_not_absent(
    cli: Command, monkeypatch: pytest.MonkeyPatch, why: str, named: bool
) -> None:
    default = cli.directory / "state" / "flinkish" / "registry.db"
    default.parent.parent.mkdir(exist_ok=True)
    if why == "directory-link":
        default.parent.symlink_to("nowhere")
    else:
        default.parent.mkdir()
    if why == "link":
        default.symlink_to("nowhere.db")
    look = os.stat

    def refuse(path: Any, *rest: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(str(default.parent)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return look(path, *rest, **options)

    if named:
        monkeypatch.setenv("FLINKISH_REGISTRY", str(default))
    cause = {
        "link": f"the link {default} leads nowhere",
        "directory-link": f"the link {default.parent} leads nowhere",
        "refused": "Permission denied",
    }[why]
    (cli.directory / "sp").mkdir()
    with monkeypatch.context() as patch:
        if why == "refused":
            patch.setattr(os, "stat", refuse)
        assert entry.list_plainly([]) is False
        for words in (
            ("list",),
            ("list", "--since", "1d"),
            ("savepoint", "--all", "-q", "sp"),
            ("recover",),
            ("stop", "abcd"),
            ("savepoint", "prune", "sp", "--keep-last", "1", "--yes", "-q"),
        ):
            result = cli(*words)
            assert result.code == 16, (words, result)
            assert f"the registry {default} cannot be accessed: {cause}" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "-a", "--json"),
        ("status", "abcd"),
        ("savepoint", "--all", "-q", "sp"),
        ("savepoint", "list"),
        ("stop", "abcd"),
        ("logs", "abcd"),
        ("request", "show", "abcd"),
    ],
    ids=" ".join,
)
def test_a_named_registry_must_be_there(
    cli: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    path = cli.directory / "nope" / "x.db"
    monkeypatch.setenv("FLINKISH_REGISTRY", str(path))
    result = cli(*words)
    assert result.code == 16, result.err
    assert f"there is no registry at {path}" in result.err
    assert "flinkish run creates one" in result.err
    assert not path.parent.exists()


def test_columns(cli: Command, jobs: list[str]) -> None:
    lines = cli.ok("list", "-r", "--name", "flights").out.splitlines()
    assert lines[0].split() == [
        *("START", "JOB", "ID", "NAME", "STATE", "QUERIES", "BATCH", "LAST", "SAVEPOINT")
    ]
    assert lines[1].split() == [
        *("2023-11-14", "22:13:23", jobs[2], "flights", "RUNNING", "3", "7", "/sp/new")
    ]
    document = cli.ok("list", "-r", "--json", "--name", "flights").json()["jobs"][0]
    assert document == {
        "job_id": jobs[2],
        "name": "flights",
        "state": "RUNNING",
        "start_time": "2023-11-14T22:13:23.250Z",
        "end_time": None,
        "queries": [
            {"name": "a", "batch_id": None},
            {"name": "b", "batch_id": 3},
            {"name": "c", "batch_id": 7},
        ],
        "last_batch": 7,
        "last_savepoint": "/sp/new",
    }


def gone() -> ProcessRef:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    return ProcessRef(os.uname().nodename, process.pid, 1)


@pytest.mark.parametrize(
    "supervisor",
    [gone, lambda: replace(process_ref(), start_ticks=1), lambda: ProcessRef("elsewhere", 1, 1)],
    ids=["dead", "reused pid", "another host"],
)
def test_a_job_that_may_be_dead_is_no_plain_case(
    cli: Command, registry: Registry, supervisor: Callable[[], ProcessRef]
) -> None:
    job = add(registry, 1, JobState.RUNNING, supervisor=supervisor())
    assert entry.list_plainly([]) is False
    assert cli.ok("list").out == "", "long without a heartbeat, or without a process"
    (row,) = cli.ok("list", "-a", "--json").json()["jobs"]
    assert (row["job_id"], row["state"]) == (job, "FAILED")
    assert entry.list_plainly(["-a"]) is True, "now it is final"


def test_other_registries_are_no_plain_case(
    cli: Command, jobs: list[str], private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def path() -> str | None:
        return fast_list.registry_path(os.environ, os.getcwd())

    default = str(private / "state/flinkish/registry.db")
    assert path() == default
    os.rename(default, f"{default}.away")
    assert path() == default  # nobody has made it yet
    monkeypatch.setenv("FLINKISH_REGISTRY", default)
    assert path() is None
    monkeypatch.delenv("FLINKISH_REGISTRY")
    os.symlink(private, default)
    assert path() is None
    os.unlink(default)
    os.rename(f"{default}.away", default)
    monkeypatch.setenv("FLINKISH_EXECUTION_CHECKPOINTING_SAVEPOINT_DIR", "/sp")
    assert path() == default
    monkeypatch.setenv("FLINKISH_REGISTRY", f"sqlite:///{default}")
    assert path() == default
    monkeypatch.setenv("FLINKISH_REGISTRY", default)
    assert path() == default
    for other in ("postgresql://h/d", "relative.db", "~/x.db", "sqlite://host/x", "/no/such"):
        monkeypatch.setenv("FLINKISH_REGISTRY", other)
        assert path() is None
    monkeypatch.setenv("FLINKISH_REGISTRY", default)
    monkeypatch.setenv("FLINKISH_REGISTRY_URL", default)
    assert path() is None
    monkeypatch.delenv("FLINKISH_REGISTRY_URL")
    monkeypatch.setenv("FLINKISH_CLIENT_TIMEOUT", "nonsense")
    assert path() is None
    assert cli("list").code == 2
    monkeypatch.delenv("FLINKISH_CLIENT_TIMEOUT")
    (private / "flinkish.toml").write_text("")
    assert path() is None
    (private / "flinkish.toml").unlink()
    (private / "config/flinkish").mkdir(parents=True)
    (private / "config/flinkish/config.toml").write_text("")
    assert path() is None


def test_registries_that_cannot_be_read(
    cli: Command, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = private / "bad.db"
    bad.write_text("no database")
    monkeypatch.setenv("FLINKISH_REGISTRY", str(bad))
    result = cli("list", "--json")
    assert result.code == 16
    assert result.error()["id"] == "registry"
    newer = private / "newer.db"
    with Registry.open(str(newer)):
        pass
    import sqlite3

    with sqlite3.connect(newer) as connection:
        connection.execute("INSERT INTO flinkish_schema VALUES (999, 0, '9.9')")
    connection.close()
    monkeypatch.setenv("FLINKISH_REGISTRY", str(newer))
    assert cli("list").code == 16
    assert "newer flinkish" in cli("list").err


def test_the_glances_states_are_the_models() -> None:
    assert set(fast_list.FINAL) == {state.value for state in FINAL_STATES}
    assert set(fast_list.SCHEDULED) == {state.value for state in SCHEDULED_STATES}
    assert wanted_states(running=True, scheduled=True, everything=False) == wanted_states(
        running=False, scheduled=False, everything=False
    )


@pytest.mark.parametrize("words", [["list"], ["list", "-a", "--json"], ["--help"], ["run", "-h"]])
def test_no_pyspark_no_child_process(
    cli: Command, jobs: list[str], words: list[str], private: Path
) -> None:
    source = """
import sys
def hook(event, arguments):
    if event in ("subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn", "os.system"):
        raise AssertionError(event)
sys.addaudithook(hook)
from flinkish.cli.entry import main
code = main(sys.argv[1:])
print(" ".join(sys.modules), file=sys.stderr)
sys.exit(code)
"""
    done = subprocess.run(
        [sys.executable, "-c", source, *words], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    modules = set(done.stderr.splitlines()[-1].split())
    assert not {name for name in modules if name.partition(".")[0] in ("pyspark", "py4j")}
    if words[0] == "list":
        heavy = {"click", "rich", "typing", "dataclasses", "flinkish.registry.jobs", "inspect"}
        assert not heavy & modules


def test_start_up_is_at_most_four_times_pythons(cli: Command, jobs: list[str]) -> None:
    """Processor time, as wall time belongs to whatever else runs on the machine."""

    def cost(*words: str) -> float:
        best = 1e9
        for _ in range(7):
            child = subprocess.Popen(
                [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            assert child.returncode == 0
            best = min(best, usage.ru_utime + usage.ru_stime)
        return best

    script = cli.directory / "flinkish.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from flinkish.cli.entry import main\nsys.exit(main())\n"
    )
    assert cost(str(script), "list") < 4 * cost("-c", "pass")


def test_watch_and_json_exclude_each_other(cli: Command) -> None:
    assert cli("list", "--watch", "--json").code == 2


def test_watch_goes_on_until_interrupted(cli: Command, jobs: list[str]) -> None:
    import signal

    watching = cli.process("list", "--watch", "-r", "--name", "flights")
    for _ in range(2):  # it is drawn again
        assert line_with(watching.stdout, "").startswith("START")
        assert jobs[2] in line_with(watching.stdout, jobs[2])
        line_with(watching.stdout, jobs[-1])
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=PATIENCE)
    assert watching.returncode == 130


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--state", "running,failed"], [3, 5, 77]),
        (["--state", "RUNNING", "--state", "cancelled"], [3, 7, 77]),
        (["--state", "failed", "-a"], [5]),
        (["--state", "running", "--name", "fl*"], [3]),
        (["--name", "*Name*"], [77]),
        (["--since", "2023-11-14T22:14:00Z", "-a"], [77]),
        (["--since", "2023-11-14T22:13:29Z", "-a"], [9, 10, 77]),
        (["--since", "2023-11-14T22:13:29Z", "-r"], [9, 10, 77]),
        (["--since", "1h", "-a"], []),
        (["--failed", "--since", "1h"], []),
    ],
    ids=str,
)
def test_filters_add_up(
    cli: Command, jobs: list[str], words: list[str], numbers: list[int]
) -> None:
    assert cli.ok("list", "-q", *words).out.split() == [f"{n:04x}" * 8 for n in numbers]


def test_a_job_found_dead_is_among_the_failed_ones(cli: Command, registry: Registry) -> None:
    job = add(registry, 1, JobState.RUNNING, supervisor=gone())
    assert cli.ok("list", "--state", "running", "-q").out == ""
    other = add(registry, 2, JobState.RUNNING, supervisor=gone())
    assert cli.ok("list", "--state", "failed", "-q").out.split() == [job, other]


def test_nothing_passes_the_filters(cli: Command, jobs: list[str]) -> None:
    assert cli.ok("list", "--since", "1h").err.splitlines()[0] == "No such jobs."
    assert cli.ok("list", "--since", "1h", "--json").json()["jobs"] == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--state", "walking"], "'walking' is not a job state"),
        (["--state", "running,"], "'' is not a job state"),
        (["--state", "running", "-r"], "--state cannot be combined"),
        (["--state", "failed", "--failed"], "--state cannot be combined"),
        (["--since", "soon"], "neither a duration nor a time"),
    ],
)
def test_filters_that_are_none(cli: Command, words: list[str], text: str) -> None:
    result = cli("list", *words)
    assert (result.code, result.out) == (2, "")
    assert text in result.err


def test_a_sigterm_while_the_command_is_loaded_is_told() -> None:
    """With the import of click: before anything handles signals."""
    source = "import os; from flinkish.cli import entry; entry._say_terminated(); os.kill(0, 15)"
    child = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (child.returncode, child.stderr) == (143, "flinkish: terminated (SIGTERM)\n")


def test_stuck_jobs_are_exit_3(
    cli: Command, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, waits in enumerate((False, True)):
        job = add(registry, number, JobState.RUNNING, name=f"job{number}")
        registry.update_job(job, driver=process_ref())
        query = QueryStatus("q", "id", "r", "/c", batch_id=1, waits_for_input=waits)
        registry.heartbeat(job, [query])
    # Nothing is stuck before the time is over; with a time of nearly nothing, one is.
    fine = cli.ok("list", "--stuck")
    assert (fine.out, fine.err) == ("", "No stuck jobs.\n")
    assert cli.ok("list", "--stuck", "--json").json() == {"schema_version": 1, "jobs": []}
    monkeypatch.setenv("FLINKISH_EXECUTION_STUCK_TIMEOUT", "1 ms")
    shown = cli("list", "--stuck")
    assert shown.code == 3
    assert [line.split()[3] for line in shown.out.splitlines()[1:]] == ["job0"]
    assert "query 'q' has input but has committed nothing for 0 s" in shown.err
    (document,) = cli("list", "--stuck", "--json").json()["jobs"]
    ((only),) = document["stuck"]
    assert (document["name"], only["query"]) == ("job0", "q")
    assert cli("list", "--stuck", "-a").code == 2
    assert cli("list", "--stuck", "-q", "--name", "job0").out == "0000" * 8 + "\n"


def test_no_stuck_jobs_without_a_registry(cli: Command) -> None:
    """A crontab without HOME must not be told that all is well."""
    result = cli.ok("list", "--stuck", "-q")
    assert "there is no registry at" in result.err
