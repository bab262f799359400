"""The completion scripts are up to date, and work in the real shells with the registry's jobs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.cli.commands.completion import SHELLS, script
from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import process_ref
from tests.cli.conftest import ROOT, Command
from tests.support.terminal import on_terminal

ID = "c0ffee12" * 4
Complete = Callable[[str], list[str]]


@pytest.mark.parametrize("shell", SHELLS)
def test_files_are_up_to_date(shell: str, cli: Command) -> None:
    path = ROOT / "completions" / f"flinkish.{shell}"
    assert path.read_text() == script(shell), "run: make completions"
    assert cli.ok("completion", shell).out == script(shell)
    assert cli.ok("completion", shell, "--json").json()["script"] == script(shell)


@pytest.fixture
def world(private: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``flinkish`` on the PATH, a running job named delays and an ended one in the registry."""
    directory = private / "bin"
    directory.mkdir()
    command = directory / "flinkish"
    command.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from flinkish.cli.entry import main\nsys.exit(main())\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    (private / "state/flinkish").mkdir(parents=True)
    (private / "program.py").touch()
    with Registry.open(f"sqlite:///{private}/state/flinkish/registry.db") as registry:
        for job_id, name in ((ID, "delays"), ("dead" * 8, "old")):
            registry.add_job(
                JobRecord(
                    job_id=job_id,
                    name=name,
                    state=JobState.INITIALIZING,
                    start_time=time.time(),
                    launch=Launch(application="/a.py"),
                    supervisor=process_ref(),
                )
            )
        registry.transition("dead" * 8, JobState.FAILED, "x")
    return private


def bash(line: str) -> list[str]:
    """What bash's completion function of flinkish offers at the end of ``line``."""
    source = f"""
        source {ROOT}/completions/flinkish.bash
        read -r -a COMP_WORDS <<< {line!r}
        [[ {line!r} == *' ' ]] && COMP_WORDS+=("")
        COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        _flinkish_completion flinkish
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", source], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def fish(line: str) -> list[str]:
    """What fish offers at the end of ``line``."""
    source = f"source {ROOT}/completions/flinkish.fish; complete -C {line!r}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", source], capture_output=True, text=True, check=True
    )
    return [entry.split("\t")[0] for entry in done.stdout.splitlines()]


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell} (Debian: apt-get install {shell})")


OFFERS = [
    ("flinkish sta", {"state", "status"}),
    ("flinkish s", {"schema", "state", "status", "savepoint", "stop"}),
    ("flinkish status c0ff", {ID}),
    ("flinkish stop ", {ID, "dead" * 8}),
    ("flinkish cancel del", {"delays"}),
    ("flinkish savepoint -det", {"-detached"}),
    ("flinkish request w", {"wait"}),
    ("flinkish completion f", {"fish"}),
    ("flinkish schema savepoint u", {"unlock"}),
    ("flinkish run -cm ", {"no_claim", "claim"}),
]


@pytest.mark.parametrize(("line", "offered"), OFFERS)
@pytest.mark.parametrize("complete", [bash, fish])
def test_offers(world: Path, complete: Complete, line: str, offered: set[str]) -> None:
    need(complete.__name__)
    assert set(complete(line)) == offered


@pytest.fixture
def zsh(world: Path) -> Iterator[Any]:
    """An interactive zsh on a terminal, with the completions loaded."""
    need("zsh")
    with on_terminal(["zsh", "-f", "-i"], {"TERM": "dumb", "PS1": "READY> "}) as (shell, _):
        shell.sendline("unsetopt zle_bracketed_paste; LISTMAX=1000; PS1='READY> '")
        shell.sendline(
            f"autoload -Uz compinit; compinit -u -D; source {ROOT}/completions/flinkish.zsh"
        )
        shell.sendline("echo LOAD''ED")
        shell.expect("LOADED")
        yield shell


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("flinkish statu", "flinkish status"),
        ("flinkish status c0ff", f"flinkish status {ID}"),
        ("flinkish cancel del", "flinkish cancel delays"),
        ("flinkish savepoint -det", "flinkish savepoint -detached"),
        ("flinkish run prog", "flinkish run program.py"),
    ],
)
def test_zsh_completes(zsh: Any, typed: str, completed: str) -> None:
    # The completed line becomes an argument of echo: what zsh made of it, whatever it drew. Keys
    # typed ahead wait until the completion is done.
    zsh.send(typed + "\t")
    zsh.send("\x01echo MADE:'\x05:END'\n")
    zsh.expect(re.compile(rb"\nMADE:(.*?):END", re.DOTALL))
    made = zsh.match.group(1).decode().replace("\r", "").replace("\n", "")
    assert made.rstrip() == completed


def test_a_registry_that_cannot_be_read_offers_nothing(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINKISH_REGISTRY", str(world / "program.py" / "x"))
    assert bash("flinkish status c0ff") == []
