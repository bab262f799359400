"""Run the files of a slow tier, the most due first, and record each when it has ended.

Each file has a pytest of its own, several run at the same time. Whatever ends the run, Ctrl-C,
``kill -9`` or its time, what has ended is recorded; of a file in the middle the outcomes are kept
for as long as the commit is the same, and the next run goes on behind them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from tests.support.tiers import records
from tests.support.tiers.due import Standing
from tests.support.tiers.parts import Part, outcomes
from tests.support.tiers.repository import ROOT, Repository

#: Seconds that a pytest takes beside its tests: imports, and the end of its JVM.
_AROUND = 20.0
#: Seconds that a pytest has for its clean-up when it is told to stop.
_FAREWELL = 90.0
#: How pytest ends when it has run all that it was asked for: passed, failed, nothing to run.
_ENDED = (0, 1, 5)


@dataclass
class Running:
    """A pytest at work on a file."""

    standing: Standing
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    commit: str | None
    log: Path


class Runner:
    """Runs files of test, ``workers`` at a time.

    Parameters
    ----------
    kept
        Where logs are kept.
    path
        The records.
    """

    def __init__(
        self, repository: Repository, workers: int, kept: Path, path: Path = records.PATH
    ) -> None:
        self._repository = repository
        self._workers = workers
        self._kept = kept
        self._path = path
        self._sparks: dict[str, str] = {}
        self._running: list[Running] = []
        self._worst = 0

    def run(self, wanted: Sequence[Standing], minutes: float | None) -> int:
        """Run the files in this order; returns an exit code."""
        left = list(wanted)
        deadline = None if minutes is None else time.monotonic() + minutes * 60
        try:
            while left or self._running:
                while left and len(self._running) < self._workers:
                    index = self._next(left, deadline)
                    if index is None:
                        print(f"{len(left)} files would not end in time: not started", flush=True)
                        left = []
                    else:
                        self._running.append(self._start(left.pop(index)))
                if deadline is not None and time.monotonic() > deadline:
                    print("the time is over", flush=True)
                    self._stop()
                    break
                for running in [r for r in self._running if r.process.poll() is not None]:
                    self._running.remove(running)
                    self._end(running, len(left))
                time.sleep(0.1)
        except KeyboardInterrupt:
            self._stop()
            self._worst = 130
        return self._worst

    def _next(self, left: Sequence[Standing], deadline: float | None) -> int | None:
        """Return the first file that ends in time, as far as that is known."""
        for index, standing in enumerate(left):
            seconds = (standing.record.seconds if standing.record else None) or 0.0
            done = sum(taken for _, taken in self._outcomes(self._log(standing)).values())
            if deadline is None or time.monotonic() + seconds - done + _AROUND < deadline:
                return index
        return None

    def _log(self, standing: Standing) -> Path:
        commit = self._repository.head() or "none"
        name = standing.file.replace("/", "__") + ".jsonl"
        return self._kept / standing.part.name / commit / name

    @staticmethod
    def _outcomes(log: Path) -> Mapping[str, tuple[str, float]]:
        return outcomes(log.read_text()) if log.exists() else {}

    def _start(self, standing: Standing) -> Running:
        log = self._log(standing)
        for directory in log.parent.parent.glob("*"):
            if directory != log.parent:  # outcomes of another commit
                shutil.rmtree(directory, ignore_errors=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        commit = self._repository.head()
        if commit is not None and not self._repository.is_at(commit):
            commit = None
            log.unlink(missing_ok=True)
        part = standing.part
        output = log.with_suffix(".out").open("wb")
        process = subprocess.Popen(
            [part.python, "-m", "pytest", *part.words, f"--tier-log={log}", standing.file],
            cwd=self._repository.root,
            env={**part.local_files(standing.file), **os.environ, **part.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C goes to this process, which tells the others.
            start_new_session=True,
        )
        return Running(standing, process, output, commit, log)

    def _end(self, running: Running, left: int) -> None:
        """Record a file, or say why not."""
        running.output.close()
        standing, code = running.standing, running.process.returncode
        text = Path(running.output.name).read_text(errors="replace")
        found = self._outcomes(running.log)
        of = [outcome for outcome, _ in found.values()]
        seconds = sum(taken for _, taken in found.values())
        counts = {name: of.count(name) for name in ("passed", "failed", "skipped")}
        said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        line = f"{standing.file} ({standing.part.name}): {said or 'no test'} in {seconds:.0f} s"
        if code != 0:
            self._worst = max(self._worst, 0 if code == 5 else 1)
            if code != 5:
                print(text, flush=True)
        commit = running.commit
        if code not in _ENDED:
            line += f"; not recorded: pytest ended with {code}"
        elif commit is None or not self._repository.is_at(commit):
            line += "; not recorded: this is no clean checkout of a commit"
            running.log.unlink(missing_ok=True)
        else:
            record = records.FileRecord(
                part=standing.part.name,
                file=standing.file,
                commit=commit,
                date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                spark=self._spark(standing.part),
                passed=counts["passed"],
                failed=counts["failed"],
                skipped=counts["skipped"],
                seconds=round(seconds, 1),
                failures=tuple(
                    records.Failure(test)
                    for test, (outcome, _) in sorted(found.items())
                    if outcome == "failed"
                ),
            )
            records.save(records.load(self._path).with_record(record), self._path)
            running.log.unlink(missing_ok=True)
        print(f"{line}; {left + len(self._running)} left", flush=True)

    def _spark(self, part: Part) -> str:
        if part.name not in self._sparks:
            self._sparks[part.name] = part.spark()
        return self._sparks[part.name]

    def _stop(self) -> None:
        """Stop what runs, as Ctrl-C would; its outcomes so far are kept."""
        for running in self._running:
            running.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _FAREWELL
        for running in self._running:
            try:
                running.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()
            running.output.close()
            done = len(self._outcomes(running.log))
            print(f"{running.standing.file}: stopped after {done} tests", flush=True)


def named(standings: Sequence[Standing], files: Sequence[str]) -> list[Standing]:
    """Return the standings of files, and of all files below directories.

    Raises
    ------
    FileNotFoundError
        One of them does not exist.
    """
    found = []
    for file in files:
        path = file.removeprefix("./").rstrip("/")
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"there is no {file}")
        found += [s for s in standings if s.file == path or s.file.startswith(f"{path}/")]
    return list(dict.fromkeys(found))
