"""Making one fault at a time in a copy of the checkout, and running tests until one notices.

The checkout itself is never touched. What a test needs beside tracked files (``.cache``, with the
jars of test servers) is linked into the copy.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from tools.mutants.model import Fate, Mutant, Outcome
from tools.mutants.source import Definition, Source, mutated

#: The fast tier: what ``make test`` runs.
FAST = "not deep and not matrix"
#: Seconds after which one run of tests counts as hanging.
LIMITS = {"near": 900.0, "plain": 1800.0, "spark": 3600.0}
#: Seconds a single test may take: a test that hangs has noticed the fault.
_TEST_LIMIT = 180
_LINKED = (".cache",)
#: What pytest's summary says of a test, of a fixture, and of a module that cannot be imported.
_FAILED = re.compile(r"^(FAILED|ERROR) (\S+?\.py)((?:::.*?)?)(?: - .*)?$", re.MULTILINE)
_COUNTED = re.compile(r"\b\d+ (?:passed|failed|error)")


class Stopped(Exception):
    """The run was interrupted."""


@dataclass(frozen=True)
class Stage:
    """A selection of tests: a name, what to run, a marker expression, what to leave out."""

    name: str
    paths: tuple[str, ...]
    markers: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Run:
    """One run of pytest: its exit status (None: stopped at the limit) and what it printed."""

    status: int | None
    output: str

    @property
    def failed(self) -> str:
        """The first test that failed, "" without one."""
        return next((m[2] + m[3] for m in _FAILED.finditer(self.output) if m[3]), "")


class Reach(IntEnum):
    """How far to go in search of a test that notices."""

    NEAR = 1
    PLAIN = 2
    SPARK = 3


def stages(mutant: Mutant, reach: Reach) -> list[Stage]:
    """The tests to run for a mutant, the likeliest first. Pure."""
    # The list of mutants itself would notice every fault.
    done = ("tests/tools/test_mutants.py", *(near for near in mutant.near if "::" not in near))
    found = [
        Stage("near", mutant.near, FAST),
        Stage("plain", ("tests",), f"{FAST} and not spark", done),
        Stage("spark", ("tests",), f"{FAST} and spark", done),
    ]
    return found[:reach]


@dataclass
class Copy:
    """A copy of a checkout below ``parent`` in which faults are made and tests run.

    Parameters
    ----------
    source: the checkout that is copied.
    files: what to copy, relative to it.
    """

    source: Source
    parent: Path
    files: Iterable[str]
    limits: dict[str, float] = field(default_factory=lambda: dict(LIMITS))

    def __post_init__(self) -> None:
        self.path = self.parent / "checkout"
        self._temporary = self.parent / "tmp"
        self._temporary.mkdir(parents=True)
        # Test servers may run as another user, below the directory of temporary files.
        self.parent.chmod(0o755)
        self._passed: set[str] = set()
        self._broken: set[str] = set()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False
        # A module's cached bytecode is known by its time in whole seconds and its size only.
        self._clock = int(time.time()) - 10_000_000
        for name in self.files:
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.source.root / name, target)
        for name in _LINKED:
            if (self.source.root / name).is_dir() and not (self.path / name).exists():
                (self.path / name).symlink_to(self.source.root / name)

    def try_mutant(self, mutant: Mutant, reach: Reach) -> Outcome:
        """Make the fault, run tests until one notices, and take it back."""
        start = time.monotonic()
        place = self.source.find(mutant.place)
        self._write(place.file, mutated(place, mutant.operator))
        try:
            fate, test, stage, note = self._judge(mutant, place, reach)
        finally:
            self._write(place.file, place.text)
        return Outcome(mutant, fate, time.monotonic() - start, test, stage, note)

    def _judge(self, mutant: Mutant, place: Definition, reach: Reach) -> tuple[Fate, str, str, str]:
        wrong = self._import(place.file)
        if wrong:
            return Fate.INVALID, "", "", wrong
        for stage in stages(mutant, reach):
            run = self._pytest(stage)
            if run.status is None:
                note = f"the tests went on for {self.limits[stage.name]:.0f} s and were stopped"
                return Fate.CAUGHT, "", stage.name, note
            if run.failed:
                fate, note = self._confirm(place, run.failed)
                return fate, run.failed, stage.name, note
            if run.status == 5 or run.status == 0:
                continue  # 5: no test is selected, as all are Spark's, or of another tier
            return Fate.INVALID, "", stage.name, _tail(run.output)
        return Fate.SURVIVED, "", "", ""

    def _confirm(self, place: Definition, test: str) -> tuple[Fate, str]:
        """Whether the test passes without the fault; asked once for each test."""
        if test not in self._passed | self._broken:
            self._write(place.file, place.text)
            run = self._pytest(Stage("near", (test,), FAST))
            (self._passed if run.status == 0 else self._broken).add(test)
        if test in self._passed:
            return Fate.CAUGHT, ""
        return Fate.BROKEN, "that test fails without the fault, too"

    def _import(self, file: str) -> str:
        """Why a module cannot be imported; "" when it can."""
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        # Only what was changed counts: some modules need a library that is not there.
        code = (
            f"import importlib, os\nmodule = importlib.import_module({module!r})\n"
            f"assert os.path.samefile(module.__file__, {file!r}), module.__file__"
        )
        run = self._run([sys.executable, "-c", code], 120)
        return "" if run.status == 0 else _tail(run.output)

    def _pytest(self, stage: Stage) -> _Run:
        command = [sys.executable, "-m", "pytest", "-m", stage.markers, "-x", "-q", "--tb=no"]
        command += ["-p", "no:cacheprovider", f"--timeout={_TEST_LIMIT}"]
        command += [f"--ignore={path}" for path in stage.left_out]
        try:
            return self._run([*command, *stage.paths], self.limits[stage.name])
        finally:
            # Examples that failed with one fault are not for the next.
            shutil.rmtree(self.path / ".hypothesis", ignore_errors=True)

    def _run(self, command: Sequence[str], limit: float) -> _Run:
        environ = dict(os.environ, PYTHONPATH=str(self.path), TMPDIR=str(self._temporary))
        environ.pop("CI", None)  # there a run also fails for tests that are skipped
        if self._stopped:
            raise Stopped
        self._process = process = subprocess.Popen(
            command,
            cwd=self.path,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        status: int | None = None
        try:
            output, _ = process.communicate(timeout=limit)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        if self._stopped:
            raise Stopped
        return _Run(status, output)

    def stop(self) -> None:
        """End what runs, from another thread, and run nothing any more."""
        self._stopped = True
        process = self._process
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    def _write(self, name: str, text: str) -> None:
        path = self.path / name
        path.write_text(text, encoding="utf-8")
        self._clock += 2
        os.utime(path, (self._clock, self._clock))


def tracked_files(root: Path) -> list[str]:
    """The tracked files of a git checkout that are there."""
    listed = _git(root, "ls-files", "-z") or ""
    return [name for name in listed.split("\0") if name and (root / name).is_file()]


def commit_of(root: Path) -> tuple[str | None, bool]:
    """The checkout's commit, and whether tracked files differ from it."""
    commit = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return (commit.strip() if commit else None), bool(changed)


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def _tail(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join(lines[-2:])[:300]
