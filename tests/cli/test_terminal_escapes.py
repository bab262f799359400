"""Names, paths and messages of others do nothing to a terminal but show themselves.

Every command that shows such a text runs twice: on a registry and a directory of savepoints full of
escape sequences, line ends and invisible characters, and on the same ones with a harmless word in
their place. What is printed has nothing but printable characters, and as many lines.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flinkish.cli import entry
from flinkish.cli.app import run as run_click
from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import describe
from flinkish.client.requests import progress_of
from flinkish.messages.launch import Launch
from flinkish.messages.queries import OperatorStatus, QueryStatus
from flinkish.messages.requests import SavedQuery, SavepointArguments, SavepointSummary
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState
from flinkish.registry.liveness import process_ref
from flinkish.units import table, visible
from tests.cli.conftest import ROOT, Command
from tests.support.savepoint.small_savepoints import make_savepoint
from tests.support.terminal import on_terminal

JOB_ID = "a" * 32
DEAD_ID = "d" * 32
#: A title (OSC), colours, a cleared screen, CR, a forged row, a C1 sequence, a right-to-left
#: override, a zero-width space, a line separator, DEL, backspaces, rich's own markup.
HOSTILE = (
    "n\x1b]0;owned\x07\x1b[31m\x1b[2J\rx\nFORGED  row\t\x9b5m\u202egnp\u200b\u2028\x7f\b\b"
    "\x85\x0b\x0c[red][link=x]é中文🎉"
)
HARMLESS = "n"
#: The same without what no file name or command line can have.
HOSTILE_NAME = HOSTILE.replace("/", "")


def world(place: Path, bad: str) -> Path:
    """A registry and a directory of savepoints whose every text from elsewhere is ``bad``."""
    directory = place / f"saved-{bad}"
    (place / "driver.log").write_text("one\n")
    now = time.time()
    with Registry.open(f"sqlite:///{place}/state/flinkish/registry.db") as registry:
        launch = Launch(application=f"/{bad}.py", arguments=(bad,), options={})
        for job_id in (JOB_ID, DEAD_ID):
            job = JobRecord(
                job_id, bad, JobState.INITIALIZING, now, launch,
                log_path=str(place / "driver.log"), checkpoint_dir=f"/cp/{bad}",
            )  # fmt: skip
            registry.add_job(job)
            registry.update_job(
                job_id, driver=process_ref(os.getpid()), spark_version=bad, application_id=bad
            )
            registry.transition(job_id, JobState.CREATED, bad)
            registry.heartbeat(
                job_id,
                [
                    QueryStatus(
                        bad,
                        f"id{bad}",
                        "run",
                        f"/cp/{bad}",
                        batch_id=3,
                        watermark=bad,
                        operators=(OperatorStatus(0, bad, bad, bad, 5),),
                        notes=(bad,),
                    )
                ],
            )
            registry.transition(job_id, JobState.RUNNING, bad)
            registry.add_savepoint(
                SavepointSummary(
                    f"/sp/{bad}",
                    job_id,
                    now,
                    bad,
                    10,
                    1,
                    0.1,
                    trigger=bad,
                    queries=(SavedQuery(bad, 1, bad),),
                )
            )
            request = registry.submit(job_id, RequestKind.SAVEPOINT, SavepointArguments(bad), bad)
            failure = {"id": bad, "code": 1, "message": bad, "hint": bad, "tail": [bad]}
            registry.fail(request.request_id, failure)
        registry.transition(DEAD_ID, JobState.FAILED, bad, failure=failure)
        (place / "request").write_text(request.request_id)
    for number in (1, 2):
        make_savepoint(str(directory), now - 100 * number, name=bad)
    broken = directory / f"savepoint-{bad}"
    broken.mkdir()
    (broken / "_metadata").write_bytes(b"no metadata")
    locks = directory / "_locks"
    locks.mkdir()
    lease = "write-0123456789ab"
    record = {
        "lease_id": lease, "kind": "write", "job_id": bad, "owner": bad, "host": bad, "pid": 1,
        "created": now, "refreshed": now, "path": f"{directory}/{bad}",
    }  # fmt: skip
    (locks / lease).write_text(json.dumps(record))
    (locks / f"damaged {bad}").write_text("no lease")
    return directory


@dataclass(frozen=True)
class Case:
    words: str

    def argv(self, place: Path, directory: Path, bad: str) -> list[str]:
        first = next(iter(sorted(directory.glob("savepoint-012345-*"))))
        second = sorted(directory.glob("savepoint-012345-*"))[-1]
        places = {
            "DIR": str(directory), "JOB": JOB_ID, "DEAD": DEAD_ID, "NAME": bad,
            "FIRST": str(first), "SECOND": str(second), "BROKEN": f"{directory}/savepoint-{bad}",
            "REQUEST": (place / "request").read_text(), "NOWHERE": f"/nowhere/{bad}",
            "CHOSEN": f"{place}/chosen-{bad}",
        }  # fmt: skip
        return [places.get(word, word) for word in self.words.split()]


CASES = [
    Case(words)
    for words in (
        "list", "list -a", "list -aq", "list --name NAME", "list -r --name nobodyNAME",
        "status JOB", "status JOB -q", "status DEAD", "status NAME", "status nobodyNAME",
        "logs nobodyNAME", "request show REQUEST", "request NAME",
        "savepoint JOB --dry-run DIR", "stop JOB --dry-run -p DIR", "cancel JOB --dry-run",
        "savepoint DEAD", "savepoint --all --dry-run DIR", "savepoint JOB NAME --dry-run",
        "savepoint list", "savepoint list DIR", "savepoint list DIR -q", "savepoint list NOWHERE",
        "savepoint show FIRST", "savepoint show FIRST -q", "savepoint show BROKEN",
        "savepoint show NOWHERE", "savepoint verify FIRST", "savepoint verify BROKEN",
        "savepoint verify FIRST -q", "savepoint diff FIRST SECOND", "savepoint diff FIRST NOWHERE",
        "savepoint prune DIR --keep-last 1 --dry-run", "savepoint prune DIR --keep-last 1",
        "savepoint prune DIR --garbage --dry-run", "savepoint prune NOWHERE --keep-last 1",
        "savepoint unlock DIR --dry-run", "savepoint unlock DIR --force --dry-run",
        "savepoint unlock DIR --force", "savepoint import DIR", "savepoint -d FIRST --dry-run",
        "savepoint -d FIRST", "savepoint -d BROKEN --yes", "savepoint -d NOWHERE",
        "savepoint --from-checkpoint NOWHERE DIR", "checkpoint show NOWHERE",
        "state show FIRST NAME/0", "migrate FIRST DIR --dry-run", "run NAME", "run -s NOWHERE NAME",
        "run --plan NOWHERE", "check -s NOWHERE NAME", "NAME", "list NAME", "list --NAME",
        "list -D NAME", "config show -D NAME=NAME", "config show --origin -D xNAME=NAME",
        "compat NAME NAME",
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Path, Path]]:
    """The hostile and the harmless one: the text, the place of the registry, the savepoints.

    All cases use them, in the same order.
    """
    made = []
    for bad in (HOSTILE_NAME, HARMLESS):
        place = tmp_path_factory.mktemp("world")
        made.append((bad, place, world(place, bad)))
    return made


def only_printable(text: str) -> bool:
    return all(c == "\n" or c.isprintable() for c in text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words.replace(" ", "_"))
def test_nothing_but_printable_characters_and_the_same_lines(
    cli: Command, worlds: list[tuple[str, Path, Path]], monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    lines = []
    for bad, place, directory in worlds:
        monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
        result = cli(*case.argv(place, directory, bad))
        assert result.out + result.err
        if "-q" not in case.words.split():  # it is raw in a pipe
            assert only_printable(result.out), repr(result.out)
        assert only_printable(result.err), repr(result.err)
        lines.append((result.out.count("\n"), result.err.count("\n")))
    assert lines[0] == lines[1]


def test_the_names_are_shown_at_all(cli: Command) -> None:
    """The cases above would pass on texts that leave the names out."""
    directory = world(cli.directory, HOSTILE_NAME)
    escaped = visible(HOSTILE_NAME)
    for argv in (["list"], ["status", JOB_ID], ["savepoint", "list", str(directory)]):
        result = cli(*argv)
        assert escaped in result.out + result.err, argv
    lease = cli.ok("savepoint", "unlock", str(directory), "--dry-run")
    assert escaped in lease.out


def test_both_ways_of_list_show_the_same(cli: Command, capsys: pytest.CaptureFixture[str]) -> None:
    world(cli.directory, HOSTILE_NAME)
    assert "1 job failed: " in cli.ok("list").err
    for words in (["list", "-a"], ["list", "-s", "--name", HOSTILE_NAME + "?"], ["list", "-q"]):
        capsys.readouterr()
        assert entry.list_plainly(words[1:])
        fast = capsys.readouterr()
        assert run_click(words) == 0
        assert capsys.readouterr() == fast
        assert only_printable(fast.out + fast.err)


def test_json_has_the_names_as_they_are(cli: Command) -> None:
    world(cli.directory, HOSTILE_NAME)
    assert cli.ok("list", "--json").json()["jobs"][0]["name"] == HOSTILE_NAME
    assert cli.status(JOB_ID)["queries"][0]["name"] == HOSTILE_NAME
    assert only_printable(cli("status", HOSTILE_NAME + "?", "--json").err)


@pytest.mark.parametrize("name", ["é", "中文", "🎉", "name with blanks", "Ωμέγα-ж"])
def test_other_alphabets_stay_readable(name: str) -> None:
    assert visible(name) == name


def test_what_is_escaped() -> None:
    assert visible("a\x1b[0m\r\n\u202e\x9b\udcff") == r"a\x1b[0m\r\n\u202e\x9b\udcff"
    assert visible("\U000e0001") == r"\U000e0001"
    assert table(("A", "B"), [("x\ny", "z")]) == ["A     B", r"x\ny  z"]


def test_tracebacks_too(cli: Command, capsys: pytest.CaptureFixture[str]) -> None:
    result = cli("status", "nobody" + HOSTILE, "--debug")
    assert "Traceback" in result.err
    assert only_printable(result.err)


def test_progress_says_what_the_driver_said(capsys: pytest.CaptureFixture[str]) -> None:
    request = Request(
        "r", JOB_ID, RequestKind.SAVEPOINT, RequestState.IN_PROGRESS, 0.0,
        SavepointArguments("/sp"),
        progress={"phase": HOSTILE},
    )  # fmt: skip
    Output().note(describe(progress_of(request)))
    said = capsys.readouterr().err
    assert only_printable(said)
    assert said.count("\n") == 1


ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(*argv: str, until: str | None = None) -> str:
    """What ``flinkish`` writes to a terminal, to its end or until it has written ``until``."""
    import pexpect

    environment = {"PYTHONPATH": str(ROOT), "TERM": "xterm", "PYTHONUTF8": "1"}
    with on_terminal([sys.executable, "-m", "flinkish", *argv], environment) as (view, _):
        if until is not None:
            view.expect_exact(until.encode())
            text = view.before + view.after
        else:
            try:
                view.expect(pexpect.EOF)
            except OSError:  # EIO: how Linux tells that the other end is closed
                view.before = view.buffer
            text = view.before
    return str(text.decode()).replace("\r\n", "\n")


def test_watch_draws_in_place_and_does_nothing_else(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # a narrow one shortens the name
    world(cli.directory, HOSTILE_NAME)
    text = on_a_terminal("list", "--watch", until="\x1b[2K")
    hidden, _, drawn = text.removesuffix("\r\x1b[2K").partition("\x1b[?25l")
    assert (hidden, only_printable(drawn)) == ("", True)
    assert visible(HOSTILE_NAME) in drawn


def test_logs_are_escaped_on_a_terminal_and_raw_in_a_pipe(cli: Command) -> None:
    world(cli.directory, HARMLESS)
    log = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\u202e\n\tat a.b(C)\n"
    (cli.directory / "driver.log").write_text(log)
    assert cli.ok("logs", JOB_ID).out == log
    text = on_a_terminal("logs", JOB_ID)
    assert text == r"\x1b]0;owned\x07\x1b[31mred\x1b[0m\u202e" + "\n\tat a.b(C)\n"
    assert "escaped" in cli.ok("logs", "--help").out


def test_quiet_results_are_escaped_on_a_terminal_and_raw_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/sp/a\u200bb\nc"
    Output(quiet=True).line(path)
    Output().line(path)
    assert capsys.readouterr().out == "/sp/a\u200bb\\nc\n" + r"/sp/a\u200bb\nc" + "\n"
    Output(quiet=True).line("/sp/\udcff")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    Output(quiet=True).line(path)
    assert capsys.readouterr().out == r"/sp/\udcff" + "\n" + r"/sp/a\u200bb\nc" + "\n"


def test_metrics_are_escaped_on_a_terminal_and_prometheus_own_in_a_pipe(cli: Command) -> None:
    world(cli.directory, HOSTILE_NAME)
    assert 'job_name="n\x1b]0;' in cli.ok("metrics").out
    text = on_a_terminal("metrics")
    assert only_printable(text.replace("\t", " "))
    assert r'job_name="n\x1b]0;' in text


def test_a_plan_on_a_terminal_has_no_styling_but_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from flinkish.cli.output import plan_table

    row = tuple(f"{word} {HOSTILE}" for word in ("q", "what", "kind", "as-is", "state", "why"))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.delenv("NO_COLOR", raising=False)
    master, slave = os.openpty()
    with open(slave, "w", encoding="utf-8") as stream:
        plan_table._draw([row], stream)
        stream.flush()
        text = os.read(master, 100_000).decode().replace("\r\n", "\n")
    os.close(master)
    assert only_printable(ANSI.sub("", text)), text
    assert "link=x" in text.replace("\n", "")  # not read as markup


def test_one_place_writes() -> None:
    """A command that wrote by itself would write what it got."""
    #: Fixed texts, what ``jobs_text.show`` made, and lines that are escaped there.
    known = {"printer.py", "entry.py", "list.py", "drawn_table.py", "completion.py"}
    writes = re.compile(r"sys\.std(out|err)\.write|\bprint\(|click\.s?echo|print_exc")
    found = set()
    for path in (ROOT / "flinkish/cli").rglob("*.py"):
        text: Any = path.read_text()
        if writes.search(text.replace('click.echo(f"flinkish {__version__}")', "")):
            found.add(path.name)
    assert found - known <= {"app.py", "compat.py"}  # JSON; a table of its own words
