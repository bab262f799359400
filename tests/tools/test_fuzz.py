"""Some seconds of ``make fuzz`` with fixed seeds, and all inputs that were trouble once."""

from __future__ import annotations

import random
import signal
import sys
import time
from pathlib import Path

import pytest

from tools.fuzz import run as fuzz
from tools.fuzz.mutations import mutated
from tools.fuzz.targets import Target
from tools.fuzz.worker import Hang, outcome


def test_some_seconds_of_it_find_nothing() -> None:
    report = fuzz.run(fuzz.plan_of(500, seed=7))
    assert report.ok, [f"{f.target} {f.seed}: {f.details}" for f in report.findings] + report.bait
    assert sum(report.counts.values()) == report.inputs == 500
    read = sum(count for word, count in report.counts.items() if word.endswith(": read"))
    assert 30 < read < 470  # neither nonsense only, nor nothing changed


def test_nothing_that_was_trouble_once_is_again() -> None:
    inputs = fuzz.found_inputs()
    assert inputs
    report = fuzz.run(inputs)
    assert report.ok, [f"{f.target}: {f.details}" for f in report.findings] + report.bait
    assert report.inputs == len(inputs)


@pytest.mark.parametrize(
    ("trouble", "word"),
    [
        (lambda _, __: dict[str, int]()["a"], "FOREIGN KeyError"),
        (lambda _, __: time.sleep(5), "HANG"),
        (lambda _, __: [0] * (1 << 60), "MEMORY"),
        (lambda _, __: int("x"), "ValueError"),
        (lambda _, __: None, "read"),
    ],
)
def test_what_is_trouble_is_told(
    trouble: object, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness itself: what a target may raise is an answer, all else is a finding."""
    monkeypatch.setattr("tools.fuzz.worker.SECONDS", 0.2)

    def alarm(_: int, __: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        target = Target("x", (b"seed",), trouble, (ValueError,))  # type: ignore[arg-type]
        found, details = outcome(target, b"", tmp_path)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert found == word
    assert bool(details) == found.split()[0].isupper()


def test_inputs_are_the_same_for_the_same_seed() -> None:

    seeds = [b'{"a": 1, "b": [2, 3]}', bytes(range(256))]
    one, two = ([mutated(random.Random(f"x {n}"), seeds) for n in range(200)] for _ in "ab")
    assert one == two
    assert len(set(one)) > 150
    assert fuzz.plan_of(20, seed=3) == fuzz.plan_of(20, seed=3)


def test_a_worker_that_dies_is_a_finding_and_the_rest_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A worker is killed once while it reads; the input it was at is named."""
    killed = tmp_path / "killed"
    script = tmp_path / "worker.py"
    script.write_text(
        "import json, os, pathlib, signal, sys\n"
        "plan, progress = map(pathlib.Path, sys.argv[-2:])\n"
        f"killed = pathlib.Path({str(killed)!r})\n"
        "lines = plan.read_text().splitlines()\n"
        "at = int(progress.read_text() or 0) if progress.exists() else 0\n"
        "for n in range(at, len(lines)):\n"
        "    progress.write_text(str(n))\n"
        "    if n == 2 and not killed.exists():\n"
        "        killed.touch(); os.kill(os.getpid(), signal.SIGSEGV)\n"
        "progress.write_text(str(len(lines)))\n"
        "(pathlib.Path(sys.argv[-3]) / 'bait' / 'victim').unlink()\n"
        "print(json.dumps({'counts': {'x: read': len(lines) - at}}))\n"
    )
    shell = tmp_path / "python"
    shell.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    shell.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(shell))
    inputs: list[fuzz.Input] = [("query-id", number) for number in range(5)]
    report = fuzz.run(inputs)
    [finding] = report.findings
    assert (finding.target, finding.seed) == ("query-id", 2)
    assert finding.word.startswith(f"DIED with -{signal.SIGSEGV.value}")
    assert report.counts == {"x: read": 2}
    assert [line.split(":")[0] for line in report.bait] == ["bait/victim"]
    assert report.inputs == 5
