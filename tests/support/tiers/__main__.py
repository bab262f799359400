"""Run a slow tier, whole or in parts, and record it.

``python -m tests.support.tiers run deep [--shard K/N] [--workers N]`` runs what of the tier has not
passed yet on this commit; after an interruption, or for the next shard, the same command goes on.
When every test of the tier has an outcome, ``tests/deep_record.json`` gets the run: commit it.

``python -m tests.support.tiers status`` prints what is recorded, and fails when that will not do.

``python -m tests.support.tiers explain TEST "why"`` writes a reason behind a recorded failure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tests.support.tiers import records
from tests.support.tiers.repository import ROOT, commits, head, is_clean

KEPT = ROOT / ".cache" / "tiers"
SPARK35 = ROOT / ".venv-spark35"


@dataclass(frozen=True)
class Part:
    """One pytest of a tier: its Python, its words, and what its environment has more."""

    name: str
    python: str
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    has_workers: bool = True


def parts(tier: str) -> tuple[Part, ...]:
    """Return what a tier consists of; a deep run has the fast tier in it."""
    if tier == "deep":
        return (Part("deep", sys.executable, ("-m", "not matrix")),)
    spark35 = str(SPARK35 / "bin" / "python")
    return (
        Part(
            "matrix",
            sys.executable,
            ("-m", "matrix"),
            {"FLINKISH_SPARK35_PYTHON": spark35},
        ),
        Part(
            "spark35",
            spark35,
            ("-p", "no:cacheprovider", "tests/driver"),
            {"PYTHONPATH": str(SPARK35 / "for-tests")},
            has_workers=False,
        ),
    )


def run(tier: str, shard: str | None, workers: int, more: Sequence[str]) -> int:
    """Run what is left of a tier, and record it when nothing is left."""
    KEPT.mkdir(parents=True, exist_ok=True)
    _forget_other_commits(tier)
    worst = 0
    for part in parts(tier):
        log = _log(part)
        done = log.with_suffix(".done")
        shutil.copyfile(log, done) if log.exists() else done.write_text("")
        # With "=": pytest takes a separate value for a file of tests until it has this plugin.
        words = [*part.words, f"--tier-log={log}", f"--tier-done={done}", *more]
        if shard:
            words.append(f"--shard={shard}")
        if part.has_workers and workers > 1:
            words += ["-n", str(workers)]
        print(f"test-{tier}: {' '.join(words)}", flush=True)
        code = subprocess.run(**_pytest(part, words)).returncode
        # 5: no test was left to run.
        worst = max(worst, 0 if code == 5 else code)
    missing = [test for part in parts(tier) for test in _missing(part)]
    if missing:
        print(f"test-{tier}: {len(missing)} tests have no outcome yet, such as {missing[0]}")
        return worst
    return max(worst, _record(tier))


def _record(tier: str) -> int:
    """Write the run into the record; returns an exit code."""
    outcomes: dict[str, str] = {}
    again = set()
    duration = 0.0
    for part in parts(tier):
        for line in _log(part).read_text().splitlines():
            test, outcome, seconds = json.loads(line)
            test = test if part.name == tier else f"{part.name}: {test}"
            if outcomes.get(test) == "failed" and outcome == "passed":
                again.add(test)
            outcomes[test] = outcome
            duration += seconds
    number, commit = commits(), head()
    if number is None or commit is None or not is_clean():
        print(f"test-{tier}: not recorded: this is no clean checkout of a commit")
        return 0
    of = list(outcomes.values())
    failed = sorted(test for test, outcome in outcomes.items() if outcome == "failed")
    made = records.Run(
        commit=commit,
        number=number,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        machine=_machine(),
        passed=of.count("passed"),
        failed=len(failed),
        skipped=of.count("skipped"),
        duration=round(duration, 1),
        failures=tuple(records.Failure(test) for test in failed),
        again=tuple(sorted(again)),
    )
    records.save(records.load().with_run(tier, made))
    print(f"test-{tier}: recorded in tests/deep_record.json: commit it")
    return 0


def _pytest(part: Part, words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of ``subprocess.run`` for a part's pytest."""
    return {
        "args": [part.python, "-m", "pytest", *words],
        "cwd": ROOT,
        "env": {**os.environ, **part.environment},
        "text": True,
        "check": False,
    }


def _missing(part: Part) -> list[str]:
    """Return the tests of a part that have no outcome yet."""
    words = [*part.words, "--collect-only", "-q", "--no-header"]
    listed = subprocess.run(**_pytest(part, words), stdout=subprocess.PIPE).stdout.splitlines()
    log = _log(part).read_text().splitlines() if _log(part).exists() else []
    known = {json.loads(line)[0] for line in log}
    return [line for line in listed if "::" in line and line not in known]


def _log(part: Part) -> Path:
    return KEPT / f"{part.name}.jsonl"


def _forget_other_commits(tier: str) -> None:
    """Begin anew when the commit is another one than that of the outcomes kept."""
    commit = head() or "none"
    stamp = KEPT / f"{tier}.commit"
    if not stamp.exists() or stamp.read_text() != commit:
        for part in parts(tier):
            _log(part).unlink(missing_ok=True)
        stamp.write_text(commit)


def _machine() -> str:
    """Return what matters of this machine, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )


def status() -> int:
    """Print what is recorded; 1 when it will not do."""
    number = commits()
    if number is None:
        print("slow tiers: no full git history here, so their age is unknown")
        return 0
    kept = records.load()
    print("\n".join(records.describe(kept, number)))
    wrong = records.complaints(kept, number)
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.tiers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("tier", choices=records.TIERS)
    running.add_argument("--shard", metavar="K/N")
    running.add_argument("--workers", type=int, default=2)
    commands.add_parser("status")
    explaining = commands.add_parser("explain")
    explaining.add_argument("test")
    explaining.add_argument("why")
    asked, more = parser.parse_known_args()
    if asked.command == "run":
        return run(asked.tier, asked.shard, asked.workers, more)
    if more:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if asked.command == "explain":
        records.save(records.load().explained(asked.test, asked.why))
        return 0
    return status()


if __name__ == "__main__":
    sys.exit(main())
