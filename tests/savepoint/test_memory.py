"""The memory of a savepoint does not grow with the number of its files, but for a few bytes each.

At full size, a million files within 300 MB, it is measured by ``python -m tests.bench memory``.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from flinkish.savepoint import reader
from flinkish.savepoint.model import QuerySource, SavepointInfo
from flinkish.savepoint.reader import check_files, open_savepoint
from flinkish.savepoint.reporter import SilentReporter
from flinkish.savepoint.writer import write_savepoint
from tests.bench.checkpoints import many_files
from tests.savepoint.conftest import JOB

FEW, MANY = 2_000, 10_000
#: What each further file may add, bytes (its path, size and stamp packed are some 50). As Python
#: objects its path, size, stamp and digest are more than 700.
PER_FILE = 120


def peak(action: Callable[[], object]) -> int:
    """The most memory that Python had at once during ``action``, beyond what it had before."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[SavepointInfo, int]]:
    """A savepoint of few files and one of many, which differ in nothing else, and their peaks."""
    root = tmp_path_factory.mktemp("many")
    found: dict[int, tuple[SavepointInfo, int]] = {}
    for files in (FEW, FEW, MANY):  # what is imported and compiled once is not counted
        checkpoint = root / "checkpoints" / str(files)
        if not checkpoint.exists():
            many_files(checkpoint, files, deltas=files // 200)
        taken: list[SavepointInfo] = []

        def take(checkpoint: Path = checkpoint, taken: list[SavepointInfo] = taken) -> None:
            queries = [QuerySource("query", str(checkpoint))]
            target = str(root / "savepoints")
            reporter = SilentReporter()
            taken.append(
                write_savepoint(target, JOB, queries, trigger="savepoint", reporter=reporter)
            )

        most = peak(take)
        found[files] = taken[0], most
    assert found[MANY][0].files - found[FEW][0].files >= MANY - FEW
    return found


@pytest.mark.timeout(300)
def test_taking_a_savepoint(savepoints: dict[int, tuple[SavepointInfo, int]]) -> None:
    few, many = savepoints[FEW][1], savepoints[MANY][1]
    assert many - few < (MANY - FEW) * PER_FILE, f"{few:,} bytes, {many:,} bytes"


@pytest.mark.timeout(300)
def test_checking_a_savepoint(
    savepoints: dict[int, tuple[SavepointInfo, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_CHUNK", FEW // 4)  # files it looks at together

    def checking(files: int) -> int:
        return peak(lambda: check_files(open_savepoint(savepoints[files][0].path)))

    few, many = checking(FEW), checking(MANY)
    assert many - few < (MANY - FEW) * PER_FILE, f"{few:,} bytes, {many:,} bytes"
