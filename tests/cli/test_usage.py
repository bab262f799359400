"""Mistakes: each a usage error of one line, on stderr, exit 2; in JSON when asked for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from flinkish.cli import app, command_index
from flinkish.cli.app import common_options_behind, root
from flinkish.cli.base import Call, scan
from flinkish.cli.base import Command as FlinkishCommand
from flinkish.cli.commands import run
from flinkish.cli.commands.cancel import resolve_words
from flinkish.cli.commands.savepoint import refusal
from flinkish.cli.output import streams
from flinkish.cli.output.printer import Output
from flinkish.client import requests
from flinkish.client.context import Interrupted, interruptible
from flinkish.errors import (
    FlinkishError,
    Locked,
    RegistryError,
    UsageError,
    WrongState,
    quoted,
    quoted_path,
)
from flinkish.messages.launch import Launch
from flinkish.registry.jobs import JobRecord, JobState
from tests.cli.conftest import ROOT, Command

MISTAKES = [
    ([], "missing command"),
    (["frobnicate"], "no such command 'frobnicate'"),
    (["lst"], "list"),
    (["list", "--wath"], "--watch"),
    (["list", "x"], "unexpected extra argument"),
    (["stop"], "missing argument 'JOB'"),
    (["stop", "a" * 4, "b"], "unexpected extra argument"),
    (["stop", "z" * 32, "-p", "x"], "cannot parse JobID"),
    (["stop", "-type", "odd", "x"], "unknown savepoint type 'odd'"),
    (["savepoint"], "missing JobID"),
    (["bundle", "app.py"], "missing option '-o'"),
    (["bundle", "app.py", "-o"], "missing option '-o'"),
    (["savepoint", "a", "b", "c"], "unexpected extra argument"),
    (["purge", "--ended-before", "1m"], "--ended-before: '1m' may be minutes or months"),
    (["savepoint", "x", "-type", "avro"], "unknown savepoint type 'avro'"),
    (["savepoint", "x", "--timeout", "soon"], "--timeout: 'soon' is not a duration"),
    (["savepoint", "-etached", "x"], "no such option '-etached'"),
    (["savepoint", "-detachd", "x"], "-detached"),
    (["savepoint", "-d"], "requires an argument"),
    (["savepoint", "-d", "x", "job"], "no job and no -detached"),
    (["savepoint", "-d", "x", "--full"], "takes no other options"),
    (["savepoint", "-d", "x", "-type", "native"], "takes no other options"),
    (["savepoint", "-d", "x", "--timeout", "3 s"], "takes no other options"),
    (["metrics", "--listen", "9" * 5000], "is not [HOST:]PORT"),
    (["savepoint", "show"], "missing argument 'PATH'"),
    (["cancel"], "missing JobID"),
    (["cancel", "-s"], "missing JobID"),
    (["cancel", "-s", "a", "b", "c"], "unexpected extra argument"),
    (["run"], "no program was specified"),
    (["run", "missing.py"], "does not exist: missing.py"),
    (["run", "."], "is a directory"),
    (["run", "-n", "app.py"], "dropping non-restored state needs a savepoint"),
    (["run", "-cm", "claim", "app.py"], "a claim mode needs a savepoint"),
    (["run", "--fork", "app.py"], "a fork needs a savepoint"),
    (["run", "--uid-map", "a=b", "app.py"], "a uid map needs a savepoint"),
    (["run", "--uid-map", "a", "app.py"], "'a' in the uid map is not OLD=NEW"),
    (["run", "--uid-map", "=b", "app.py"], "'=b' in the uid map is not OLD=NEW"),
    (["run", "-s", "x", "--uid-map", "a=", "app.py"], "'a=' in the uid map is not OLD=NEW"),
    (["run", "--uid-map", "a=b", "--uid-map=a=c", "app.py"], "one state twice: 'a=b' and 'a=c'"),
    (["run", "--uid-map", "a=c", "--uid-map=b=c", "app.py"], "one new uid twice: 'a=c' and 'b=c'"),
    (["run", "-cm", "legacy", "app.py"], "claim mode legacy is not supported"),
    (["run", "-rm", "odd", "app.py"], "unknown claim mode 'odd'"),
    (["run", "--spark-home", "nowhere", "app.py"], "nowhere is not a Spark"),
    (["run", "-p", "0", "app.py"], "0 is not in the range"),
    (["run", "-p", "x", "app.py"], "not a valid integer"),
    (["run", "--conf", "novalue", "app.py"], "is not KEY=VALUE"),
    (["run", "-py", "app.py", "-pym", "mod"], "mutually exclusive"),
    (["run", "--conf", "spark.submit.deployMode=cluster", "app.py"], "deployMode=cluster"),
    (["run", "-D", "client.timeout=odd", "app.py"], "'odd' is not a duration"),
    (["run", "-D", "=x", "app.py"], "has no key"),
    (["run", "--planet", "app.py"], "no such option"),
    (["run", "--plan", "nowhere.json"], "no plan at"),
    (["run", "--plan", "app.py"], "as a plan"),
    (["run", "--sink-ahead", "rollback", "app.py"], "needs a savepoint"),
    (["run", "--sink-ahead", "rewind", "-s", "x", "app.py"], "rewind"),
    (["run", "--reset-source", "s", "app.py"], "needs a savepoint"),
    (["run", "--accept-lost-rows", "app.py"], "needs a savepoint"),
    (["run", "--accept-repeated-rows", "app.py"], "needs a savepoint"),
    (["run", "--set-offsets", "s=latest", "app.py"], "needs a savepoint"),
    (["run", "--set-offsets", "s", "-s", "x", "app.py"], "is not SOURCE=WHERE"),
    (["check", "--set-offsets", "s=timestamp:now", "-s", "x", "app.py"], "is not a time"),
    (["check", "--set-offsets", "s=/no/such/file", "-s", "x", "app.py"], "no file with offsets"),
    (["run", "--offline", "app.py"], "needs a savepoint"),
    (["check", "app.py"], "no savepoint or job"),
    (["check", "-s", "x"], "no program"),
    (["compat", "x"], "is not a version"),
    (["request"], "missing command"),
    (["request", "frob"], "no such command"),
    (["request", "show"], "missing argument"),
    (["config", "show", "x"], "unexpected extra argument"),
    (["completion", "ksh"], "'ksh' is not one of"),
    (["list", "-D", "registry.url=sqlite://host/x"], "names a host"),
    (["run", "", "x"], "no program was specified"),
    (["check", "", "app.py"], "the first argument is empty"),
    (["check", "-s", "x", "--set-offsets", "=latest", "app.py"], "is not SOURCE=WHERE"),
    (["run", "app.py", "caf\udce9"], "not valid UTF-8"),
    (["list", "--name", "caf\udce9"], "not valid UTF-8"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=lambda v: " ".join(v)[:40])
def test_a_mistake_is_one_line_and_exit_2(cli: Command, words: list[str], message: str) -> None:
    result = cli(*words)
    assert result.code == 2, result.err
    assert result.out == ""
    error, *rest = result.err.splitlines()
    assert error.startswith("error: ")
    assert message in error
    assert len(rest) <= 1
    assert all(line.startswith("hint: ") for line in rest)


@pytest.mark.parametrize(("words", "message"), MISTAKES[2:], ids=lambda v: " ".join(v)[:40])
def test_a_mistake_in_json(cli: Command, words: list[str], message: str) -> None:
    at = 2 if words[0] in ("request", "config") or words[1:2] == ["show"] else 1
    result = cli(*words[:at], "--json", *words[at:])
    assert result.code == 2
    error = result.error()
    if len(words) >= at:  # a group without its command has no options of its own
        assert message in error["message"]
    assert error["id"]


def test_json_of_the_program_is_not_ours(cli: Command) -> None:
    assert cli("run", "missing.py", "--json").err.startswith("error: ")
    assert cli("run", "--json", "missing.py").error()["id"] == "usage"


@pytest.mark.parametrize(
    "line",
    [
        "check orders --json app.py",
        "rehearse orders --json app.py",
        "export sp --json dir",
        "export orders dir --json",
        "check --format json orders app.py",
        "compat --connectors --json 9x",
    ],
)
def test_json_is_asked_for_wherever_the_command_reads_it(cli: Command, line: str) -> None:
    cli.program.touch()
    assert cli(*line.split()).error()["message"]


def test_words_behind_dashes_ask_for_no_json(cli: Command) -> None:
    words = ("upgrade", "in-place", "nobody", "--to", str(cli.program), "--", "--json", "--debug")
    refused = cli(*words)
    assert refused.code == 10
    assert refused.err.startswith("error: ")


@pytest.mark.parametrize("module", [streams, app])
def test_an_interrupt_while_the_command_is_loaded_is_quiet(
    cli: Command, monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    def interrupted(*_words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "guard" if module is streams else "run", interrupted)
    result = cli("status", "x")
    assert (result.code, result.out, result.err) == (130, "", "")


@pytest.mark.parametrize("error", [Locked("x"), RegistryError("x"), WrongState("x")])
def test_an_interrupt_stays_one_if_the_job_cannot_be_canceled(
    monkeypatch: pytest.MonkeyPatch, error: FlinkishError
) -> None:
    def submit(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(requests, "submit", submit)
    job = JobRecord("a" * 32, "app", JobState.RUNNING, 1.0, Launch("/app.py"))
    session = Call(Output(), ()).session()
    left = run._left(session, job, Interrupted(143), cancel_on_exit=True)
    assert isinstance(left, Interrupted)
    assert left.code == 143
    assert job.job_id in left.message


def test_not_found(cli: Command, tmp_path: Path) -> None:
    for words in (["status", "nobody"], ["stop", "ab" * 16, "-p", "x"], ["logs", "abcd"]):
        result = cli(*words, "--json")
        assert (result.code, result.error()["id"]) == (10, "job-not-found")
    assert cli("request", "show", "ab" * 16, "--json").error()["id"] == "request-not-found"
    for words in (
        ["savepoint", "show", str(tmp_path)],
        ["savepoint", "-d", str(tmp_path)],
        ["run", "-s", str(tmp_path), "app.py"],
        ["run", "-s", str(tmp_path / "nothing"), "app.py"],
    ):
        prefix = words[:2] if words[1] == "show" else words[:1]
        rest = words[len(prefix) :]
        error = cli(
            *prefix, "--json", *(("--spark-home", "spark") if prefix == ["run"] else ()), *rest
        ).error()
        assert (error["id"], error["code"]) == ("savepoint-not-found", 11)
    assert not (tmp_path / "state/flinkish/logs").exists(), "nothing was launched"


@pytest.mark.parametrize("target", ["s3a://KEY:hush@bucket/x", "hdfs:/x", "file://nas/x"])
def test_targets_that_cannot_be_are_refused_at_once(cli: Command, target: str) -> None:
    job = cli.start()
    result = cli("stop", job, "-p", target, "--json")
    assert result.error()["code"] == 16
    assert "hush" not in result.out + result.err
    assert cli.status(job)["requests"] == []


def test_secrets_do_not_reach_the_terminal(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINKISH_REGISTRY", "postgresql://me:hush@127.0.0.1:1/db")
    for words in (
        ["list"],
        ["list", "--json"],
        ["config", "show", "--origin"],
        ["list", "--debug"],
    ):
        result = cli(*words)
        assert "hush" not in result.out + result.err, words
    assert cli("list").code == 16
    words = cli.run_words("x", "--dry-run", "--conf", "spark.db=jdbc:pg://me:hush@h/d")
    assert "hush" not in cli.ok(*words).out


def test_unexpected_exceptions_are_one_line_without_debug(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug\nwith details")

    monkeypatch.setattr("flinkish.cli.session.Session", broken)
    result = cli("config", "show")
    assert result.code == 1
    assert result.err.splitlines() == [
        "error: unexpected RuntimeError: a bug",
        "hint: run it again with --debug for the traceback",
    ]
    assert "Traceback" in cli("config", "show", "--debug").err


def all_commands() -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name in command_index.COMMANDS:
        command = command_index.load(name)
        assert command is not None
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", part) for sub, part in command.commands.items()]
        else:
            found.append((name, command))
    show = command_index.load("savepoint show")
    assert show is not None
    return [*found, ("savepoint show", show)]


@pytest.mark.parametrize("name", [name for name, _ in all_commands()])
def test_every_help_ends_with_its_exit_codes(cli: Command, name: str) -> None:
    for option in ("-h", "--help"):
        text = cli.ok(*name.split(), option).out
        last = " ".join(text[text.rindex("Exit codes: ") :].split())
        assert re.fullmatch(r"Exit codes: 0 ok, 1 failed, 2 usage(, \d+ [a-z-]+)+", last)
        assert f"Usage: flinkish {name}" in text


@pytest.mark.parametrize(("name", "command"), all_commands())
def test_every_command_has_the_common_options(name: str, command: click.Command) -> None:
    assert isinstance(command, FlinkishCommand)
    spellings = {s for p in command.params if isinstance(p, click.Option) for s in p.opts}
    assert {"-D", "--json", "-q", "--quiet", "--debug"} <= spellings


def empty_values() -> list[tuple[str, list[str]]]:
    """Every option that takes a value and every argument of every command, with an empty one."""
    found = []
    commands = all_commands()
    for word in command_index.SUB_WORDS["savepoint"]:
        part = command_index.load(f"savepoint {word}")
        assert part is not None
        commands.append((f"savepoint {word}", part))
    for name, command in commands:
        words: list[str] = []
        for parameter in command.params:
            if parameter.type is click.UNPROCESSED:
                continue  # of the program, which may have empty ones
            if isinstance(parameter, click.Argument):
                found.append((name, [*words, " "]))
                words.append("x")
            elif not parameter.is_flag:  # type: ignore[attr-defined]
                spelling = parameter.opts[-1]
                found.append((name, [spelling, ""]))
    return found


def test_no_value_is_empty_anywhere() -> None:
    """``"$UNSET"`` is no working directory, and no other name."""
    commands = empty_values()
    assert len(commands) > 200
    for name, words in commands:
        command = command_index.load(name) or dict(all_commands())[name]
        with pytest.raises(click.BadParameter, match="the value is empty"):
            command.make_context(name, list(words))


def test_without_a_working_directory_only_relative_paths_fail(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for words in (["list"], ["list", "-a", "--json"], ["config", "show"], ["metrics"], ["recover"]):
        assert cli(*words).code == 0, words
    assert cli("savepoint", "--all", str(tmp_path / "sp")).code == 0
    assert cli("savepoint", "verify", str(tmp_path)).code == 11
    for words in (["savepoint", "--all", "sp"], ["savepoint", "list", "sp"], ["run", "app.py"]):
        result = cli(*words)
        assert (result.code, "working directory no longer exists" in result.err) == (2, True), words


def test_the_overview_lists_all_and_imports_little(cli: Command) -> None:
    text = cli.ok("--help").out
    listed = [line.split()[0] for line in text.splitlines() if re.match(r"  [a-z]+  ", line)]
    assert sorted(listed) == sorted(command_index.COMMANDS)
    source = (
        "import sys; from flinkish.cli.entry import main; main(['--help'])\n"
        "loaded = {m for m in sys.modules if m.startswith('flinkish.')}\n"
        "rooms = ('cli.commands', 'client', 'config', 'messages', 'registry')\n"
        "needless = {m for m in loaded if m.startswith(tuple(f'flinkish.{r}' for r in rooms))}\n"
        "assert not needless, needless"
    )
    subprocess.run([sys.executable, "-c", source], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def test_version(cli: Command) -> None:
    from flinkish import __version__

    assert cli.ok("--version").out == cli.ok("-v").out == f"flinkish {__version__}\n"


def test_config_show(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINKISH_CLIENT_TIMEOUT", "5 s")
    lines = cli.ok("config", "show", "--origin", "-Dspark.password=hush").out.splitlines()
    (line,) = [line for line in lines if line.startswith("client.timeout ")]
    assert line.split() == ["client.timeout", "5", "s", "environment", "FLINKISH_CLIENT_TIMEOUT"]
    assert "hush" not in "".join(lines)
    settings = cli.ok("config", "show", "--json").json()["settings"]
    assert {"key": "client.timeout", "value": "5 s"}.items() <= settings[
        [s["key"] for s in settings].index("client.timeout")
    ].items()
    shown = cli.ok("config", "show").out.splitlines()
    assert "client.timeout=5 s" in shown
    assert "execution.checkpointing.savepoint-dir=" in shown  # a key without a value


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (["--json", "list"], ["list", "--json"]),
        (["-q", "-D", "a=b", "list", "-a"], ["list", "-q", "-D", "a=b", "-a"]),
        (["-Da=b", "run", "app.py", "--json"], ["run", "-Da=b", "app.py", "--json"]),
        (["--json", "savepoint", "show", "x"], ["savepoint", "--json", "show", "x"]),
        (["--debug", "config", "show"], ["config", "show", "--debug"]),
        (["--json"], ["--json"]),
        (["-D"], ["-D"]),
        (["--nope", "--json", "list"], ["--nope", "--json", "list"]),
        (["--version"], ["--version"]),
    ],
)
def test_common_options_may_stand_before_the_command(before: list[str], behind: list[str]) -> None:
    assert common_options_behind(before) == behind


def test_they_work_there(cli: Command) -> None:
    assert cli.ok("--json", "-D", "client.timeout=7 s", "config", "show").json()["settings"]
    assert cli.ok("--json", "list").json()["jobs"] == []
    assert cli("--json", "status", "abcd").error()["id"] == "job-not-found"
    for group in ("upgrade", "state", "config", "request"):
        assert cli("--json", group).error()["message"].startswith("missing command")


def test_misspelt_keys_are_warned_about(cli: Command) -> None:
    result = cli.ok("list", "-D", "client.timout=5 s")
    assert "did you mean client.timeout?" in result.err
    assert cli.ok("list", "--json", "-D", "client.timout=5 s").err == ""


@pytest.mark.parametrize("json", [False, True])
def test_a_command_gives_a_warning_once(
    private: Path, capsys: pytest.CaptureFixture[str], json: bool
) -> None:
    """``--watch`` and ``metrics --listen`` open a session again and again."""
    call = Call(Output(json=json), ("client.timout=5 s",))
    for _ in range(2):
        with call.session():
            pass
    call.out.document({})
    shown = capsys.readouterr()
    assert (shown.out if json else shown.err).count("did you mean client.timeout?") == 1


def test_a_reader_that_goes_away_is_no_error(cli: Command) -> None:
    done = subprocess.run(
        f"{sys.executable} -m flinkish config show | true; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stderr == ""
    assert done.stdout.strip() in ("141", "0"), "0 when the pipe still took it"


@pytest.mark.parametrize(
    ("job", "savepoint", "expected"),
    [
        ("j", None, ("j", False, None)),
        ("j", "", ("j", True, None)),
        ("j", "t", ("j", True, "t")),
        (None, "j", ("j", True, None)),
    ],
)
def test_flinks_optional_target(
    job: str | None, savepoint: str | None, expected: tuple[str, bool, str | None]
) -> None:
    assert resolve_words(job, savepoint) == expected
    with pytest.raises(UsageError):
        resolve_words(None, None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "missing JobID"),
        ("JOB", ""),
        ("JOB TARGET -detached", ""),
        ("JOB TARGET --keep --batch", ""),
        ("JOB -detached --keep", "-detached does not wait"),
        ("JOB --name", "--name requires"),
        ("JOB --expect", "--expect requires --all"),
        ("--all --expect --name --keep", ""),
        ("--all JOB", ""),  # its target
        ("--all JOB TARGET", "--all takes only a target"),
        ("--all -detached", "--all waits"),
        ("--all --batch", "--batch requires"),
        ("--all --from-checkpoint", "mutually exclusive"),
        ("--from-checkpoint JOB --batch --name --keep", ""),
        ("--from-checkpoint JOB TARGET", "--from-checkpoint URL takes only a target"),
        ("--from-checkpoint -detached", "--from-checkpoint URL waits"),
        ("--dispose", ""),
        ("--dispose JOB", "takes one path"),
        ("--dispose -detached", "takes one path"),
        ("--dispose --all", "no other options"),
        ("--dispose --from-checkpoint", "no other options"),
        ("--dispose --name", "no other options"),
        ("--dispose --keep", "no other options"),
        ("--dispose --full", "no other options"),
        ("--dispose -type", "no other options"),
        ("--dispose --timeout", "no other options"),
        ("JOB TARGET --full -type --timeout", ""),
        ("--all --full -type --timeout", ""),
        ("--from-checkpoint --full -type", ""),
        ("--from-checkpoint --timeout", "without a --timeout"),
        ("--dispose --batch", "--batch requires"),
    ],
)
def test_what_excludes_what_in_savepoint(given: str, says: str) -> None:
    message, _ = refusal(given.split()) or ("", "")
    assert says in message
    assert bool(message) == bool(says)


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (Interrupted(143), 143)])
def test_an_interrupted_wait_is_a_keyboard_interrupt_with_advice(
    stop: KeyboardInterrupt, code: int
) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, interruptible("it continues", "flinkish x"):
        raise stop
    assert isinstance(caught.value, Interrupted)
    assert (caught.value.code, caught.value.follow) == (code, "flinkish x")


@pytest.mark.parametrize(
    ("name", "line", "found"),
    [
        ("run", "-p 4 -Da=b --conf x=y -d app.py --json -n", "-p -Da=b --conf -d | app.py"),
        ("run", "-D a --conf=x=y -- app.py --json", "-D --conf=x=y |"),
        ("savepoint", "-d x --json show", "-d --json | show"),
        ("cancel", "-s -q j", "-s -q | j"),
        ("cancel", "-s t j", "-s | j"),
        ("logs", "-n5 j -f", "-n5 -f | j"),
    ],
)
def test_scanning_a_command_line(name: str, line: str, found: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    words = list(scan(command, line.split()))
    options = " ".join(word for kind, word in words if kind == "option")
    arguments = " ".join(word for kind, word in words if kind == "argument")
    assert f"{options} | {arguments}".strip() == found


def test_sub_words_of_savepoint(cli: Command, tmp_path: Path) -> None:
    assert cli("savepoint", "--json", "show", str(tmp_path)).error()["code"] == 11
    # A job of that name is reached by its id.
    job = cli.ok(*cli.run_words("serve", "-d", "-q", "--name", "show")).out.strip()
    assert cli.ok("savepoint", job[:6], str(tmp_path / "sp"), "-q").out


@pytest.mark.parametrize(
    "word",
    ["plain", "", "it's", "a\nb", "\n'\\", "tab\there", "\x1b[0m1", "z\u200b1", "é\r", "\udcff0"],
    ids=ascii,
)
def test_a_quoted_word_is_printable_and_what_the_shell_reads(word: str) -> None:
    shown = quoted(word)
    assert shown.isprintable()
    read = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True)
    assert read.stdout == word.encode(errors="surrogateescape")


def test_a_quoted_path_is_no_option(cli: Command) -> None:
    assert [quoted_path(path) for path in ("-x y", "x", "/-x")] == ["'./-x y'", "x", "/-x"]
    (cli.directory / "-x" / "savepoint-1").mkdir(parents=True)
    (cli.directory / "-x" / "savepoint-1" / "_metadata").touch()
    assert "flinkish savepoint list ./-x" in cli("savepoint", "show", "--", "-x").err


@pytest.mark.parametrize(
    ("hint", "advice"),
    [
        ("the job's log: flinkish logs JOB", "the job's log: flinkish logs abc123"),
        ("flinkish savepoint JOB TARGET; or", "flinkish savepoint abc123 TARGET; or"),
        ("flinkish upgrade in-place JOB --to X", "flinkish upgrade in-place abc123 --to X"),
        (f"flinkish run -s {quoted('/NIGHTLY JOB/sp')}", "flinkish run -s '/NIGHTLY JOB/sp'"),
        (
            f"job's: flinkish run -s {quoted('/flinkish logs JOB /it' + chr(39) + 's JOB')}",
            "job's: flinkish run -s '/flinkish logs JOB /it'\"'\"'s JOB'",
        ),
        (f"{quoted(chr(10) + ' flinkish logs JOB')}", "$'\\n flinkish logs JOB'"),
    ],
)
def test_a_jobs_id_stands_where_a_command_takes_it(hint: str, advice: str) -> None:
    assert FlinkishError("x", hint=hint, job_id="abc123").advice == advice
    assert FlinkishError("x", hint=hint).advice == hint


@pytest.mark.parametrize(
    ("name", "line", "parameter", "value"),
    [
        ("stop", "job -p=/sps", "target", "/sps"),
        ("run", "-p=4 app.py -p=5", "parallelism", 4),
        ("run", "-D=x app.py", "dynamic", ("=x",)),
        ("cancel", "-s=a=b job", "savepoint", "a=b"),
        ("savepoint", "-d=/sp", "dispose", "/sp"),
    ],
)
def test_an_equals_sign_after_one_letter_is_not_part_of_the_value(
    name: str, line: str, parameter: str, value: object
) -> None:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert command.make_context(name, line.split()).params[parameter] == value


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("check", "job -- app.py", "job app.py"),
        ("check", "job -p 4 -- app.py -- x", "job app.py -- x"),
        ("rehearse", "job app.py -- x", "job app.py -- x"),
        ("check", "-- job app.py", "job app.py"),
        ("export", "sp dir -- app.py", "sp dir app.py"),
        ("export", "sp -- dir", "sp dir"),
        ("export", "sp --json dir --fork -- app.py -- x", "sp dir app.py -- x"),
        ("export", "sp dir app.py -- x", "sp dir app.py -- x"),
    ],
)
def test_dashes_after_the_first_word_leave_the_words_in_order(
    name: str, line: str, words: str
) -> None:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert command.make_context(name, line.split()).params["words"] == tuple(words.split())


@pytest.mark.parametrize(
    ("line", "path", "words"),
    [
        ("-o job.py app.py x", "job.py", "app.py x"),
        ("app.py -o job.py", "job.py", "app.py"),
        ("--dry-run app.py x --output=job.py", "job.py", "app.py x"),
        ("-pym mod x -o job.py", "job.py", "x"),
        ("-o job.py app.py -o x", "job.py", "app.py -o x"),
    ],
)
def test_the_output_of_a_bundle_may_be_the_last_words(line: str, path: str, words: str) -> None:
    command = root.get_command(click.Context(root), "bundle")
    assert command is not None
    params = command.make_context("bundle", line.split()).params
    assert (params["path"], params["words"]) == (path, tuple(words.split()))
