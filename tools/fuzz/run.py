"""Look after the worker: give it inputs, start it again where it died, compare the bait."""

from __future__ import annotations

import hashlib
import json
import os
import random
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.fuzz.targets import make_targets
from tools.fuzz.worker import SECONDS

_ROOT = Path(__file__).parents[2]
#: Inputs that were trouble once; the fast tier reads them again.
FOUND = _ROOT / "tests" / "data" / "fuzz"
#: What a line of a worker's list is: a target, and a seed or the path of a file.
Input = tuple[str, object]


@dataclass(frozen=True)
class Finding:
    """An input that came to something that is no answer."""

    target: str
    word: str
    details: str
    data: bytes
    seed: object

    @property
    def file_name(self) -> str:
        """What its file in :data:`FOUND` is called."""
        return f"{self.target}.{hashlib.sha256(self.data).hexdigest()[:10]}"


@dataclass
class Report:
    """What inputs came to: how many of each outcome, the findings, and what became of the bait."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    bait: list[str] = field(default_factory=list)
    inputs: int = 0

    @property
    def ok(self) -> bool:
        """Whether there is nothing to mend."""
        return not self.findings and not self.bait


def plan_of(count: int, seed: int, only: str = "") -> list[Input]:
    """So many inputs, spread over the targets by their weights; ``only`` is a name's beginning."""
    with tempfile.TemporaryDirectory() as directory:
        targets = make_targets(Path(directory))
        weights = {n: t.weight for n, t in targets.items() if n.startswith(only)}
    chance = random.Random(seed)
    names = sorted(weights)
    chosen = chance.choices(names, [weights[n] for n in names], k=count)
    return [(name, seed * 10**9 + number) for number, name in enumerate(chosen)]


def found_inputs() -> list[Input]:
    """The inputs in :data:`FOUND`: what stands before the point is the target."""
    return [
        (path.name.partition(".")[0], str(path))
        for path in sorted(FOUND.iterdir())
        if not path.name.startswith(".")
    ]


def run(
    inputs: Sequence[Input],
    *,
    seconds: float | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Read all inputs, or those that there is time for, in a process of its own."""
    report = Report()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        base = Path(directory)
        for name in ("world", "world/tmp", "world/bait", "world/bait/inner"):
            (base / name).mkdir()
        (base / "world" / "bait" / "victim").write_bytes(b"still here")
        (base / "world" / "bait" / "inner" / "victim").write_bytes(b"still here too")
        (base / "world" / "victim").write_bytes(b"and here")
        before = _tree(base / "world")
        plan, progress = base / "plan", base / "progress"
        plan.write_text("\n".join(json.dumps(line) for line in inputs))
        deadline = None if seconds is None else time.monotonic() + seconds
        at = 0
        while at < len(inputs) and (deadline is None or time.monotonic() < deadline):
            end = _work(base, inputs, report, deadline, tell)
            at = int(progress.read_text())
            if end is not None:  # it did not survive this one: the next goes on behind it
                name, seed = inputs[at]
                report.findings.append(Finding(name, end, end, _input(inputs[at], base), seed))
                at += 1
                progress.write_text(f"{at:<12}")
        report.inputs = at
        after = _tree(base / "world")
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) != after.get(path):
                report.bait.append(f"{path}: {before.get(path)} became {after.get(path)}")
    return report


def _input(line: Input, base: Path) -> bytes:
    from tools.fuzz.worker import input_of

    directory = base / "again"
    if not directory.exists():
        directory.mkdir()
        _TARGETS.clear()
        _TARGETS.update(make_targets(directory))
    return input_of(_TARGETS[line[0]], line[1])


_TARGETS: dict[str, Any] = {}


def _tree(root: Path) -> dict[str, str]:
    """What is below a directory, but where workers work: paths, and digests of files."""
    found = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if name.split("/")[0] in {"work", "tmp"} or name == "seeds":
            continue
        if name.startswith("seeds/") and path.is_dir():
            continue
        found[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "-"
    return {name: digest for name, digest in found.items() if not name.startswith("seeds/")}


def _work(
    base: Path,
    inputs: Sequence[Input],
    report: Report,
    deadline: float | None,
    tell: Callable[[str], None],
) -> str | None:
    """One worker: None where it came to its end or to the deadline, else how it ended."""
    progress = base / "progress"
    environment = {**os.environ, "TMPDIR": str(base / "world" / "tmp"), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tools.fuzz.worker", str(base / "world")]
    errors = base / "stderr"
    with errors.open("wb") as stderr:
        worker = subprocess.Popen(
            [*command, str(base / "plan"), str(progress)],
            cwd=_ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    assert worker.stdout is not None
    os.set_blocking(worker.stdout.fileno(), False)
    waiting = selectors.DefaultSelector()
    waiting.register(worker.stdout, selectors.EVENT_READ)
    rest = b""
    mark, moved = "", time.monotonic()
    stopped = hung = False
    try:
        while True:
            waiting.select(0.5)
            while data := worker.stdout.read(1 << 20):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    _take(json.loads(line), inputs, report)
            if data == b"":
                break
            now = time.monotonic()
            found = progress.read_text() if progress.exists() else ""
            if found != mark:
                mark, moved = found, now
                tell(found.strip())
            hung = now - moved > 3 * SECONDS + (60 if not mark else 0)
            stopped = deadline is not None and now > deadline
            if hung or stopped:
                break
    finally:
        if worker.poll() is None and (hung or stopped or sys.exc_info()[0] is not None):
            worker.kill()
        code = worker.wait()
        waiting.close()
        worker.stdout.close()
    if stopped or code == 0:
        return None
    text = errors.read_text(errors="replace")[-2000:]
    if not progress.exists():
        raise RuntimeError(f"the worker did not start: {text}")
    return f"HANG and did not answer\n{text}" if hung else f"DIED with {code}\n{text}"


def _take(line: dict[str, Any], inputs: Sequence[Input], report: Report) -> None:
    if "counts" in line:
        report.counts.update(line["counts"])
        return
    name, seed = inputs[line["number"]]
    report.findings.append(
        Finding(name, line["word"], line["details"], bytes.fromhex(line["data"]), seed)
    )
