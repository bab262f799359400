"""The memory that a savepoint of very many files takes, which must not grow with their number.

A local checkpoint of a million tiny files, all hard links to a few; a savepoint on the same disk
(links) and one on another (copies), then checking each as a restore does. Each in a process of its
own, whose peak is shown: the budget is 300 MB.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.checkpoints.many_files import many_files
from tools.bench.measure import in_child, machine

BUDGET = 300_000_000


@dataclass(frozen=True)
class Peak:
    """The peak of one process, in bytes: all of it, and what it had when it began."""

    what: str
    files: int
    seconds: float
    before: int
    peak: int

    def row(self) -> str:
        """One line of the table."""
        within = "within" if self.peak <= BUDGET else "OVER"
        return (
            f"  {self.what:22}{self.files:11,}{self.seconds:9.1f} s"
            f"{self.before / 1e6:8.0f} MB{self.peak / 1e6:8.0f} MB  {within} 300 MB  {machine()}"
        )


def measure(directory: Path, other: Path | None, files: int) -> list[Peak]:
    """Measure all, and print each line when it is known.

    ``other`` is a directory on another file system; None: no copies are measured.
    """
    deltas = max(10, min(250, files // 4000))
    checkpoint = many_files(directory / "checkpoint", files, deltas=deltas, size=300)
    print(
        f"peak memory of a process that takes or checks a savepoint of {files:,} files\n"
        f"  {'':22}{'files':>11}{'time':>11}{'at start':>11}{'peak':>11}",
        flush=True,
    )
    found: list[Peak] = []
    places = {"links": directory} | ({} if other is None else {"copies": other})
    for how, place in places.items():
        with tempfile.TemporaryDirectory(prefix="flinkish-bench-", dir=place) as target:
            ours = in_child("savepoint", checkpoint=str(checkpoint), target=target)
            found.append(_peak(f"savepoint by {how}", ours["files"], ours))
            print(found[-1].row(), flush=True)
            for what in ("verify", "dispose"):
                care = in_child("care", savepoint=ours["path"], what=what)
                found.append(_peak(what, ours["files"], care))
                print(found[-1].row(), flush=True)
    return found


def _peak(what: str, files: int, answer: dict[str, float]) -> Peak:
    return Peak(what, files, answer["seconds"], int(answer["before"]), int(answer["peak"]))


def other_disk(directory: Path) -> Path | None:
    """A directory on another file system than ``directory``; None where there is none."""
    shared = Path("/dev/shm")
    if shared.is_dir() and shared.stat().st_dev != directory.stat().st_dev:
        return shared
    return None
