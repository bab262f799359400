"""The memory of a savepoint does not grow with the number of its files, but for a few bytes each.

At full size, a million files within 300 MB, it is measured by ``python -m tools.bench memory``.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.messages.requests import SavepointSummary
from flinkish.savepoint.format import reader
from flinkish.savepoint.format.contents import QuerySource
from flinkish.savepoint.format.reader import check_files, open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.transfer import (
    BATCH,
    ThreadedTransferer,
    TransferOutcome,
    transfer_all,
)
from flinkish.savepoint.write.writer import write_savepoint
from flinkish.storage.listing import local_stamp
from tests.savepoint.conftest import JOB
from tests.support.checkpoints.many_files import many_files

#: With few, all that is bounded is full already: rows that a table is given or asked for at a time.
WARM_UP, FEW, MANY = 400, 3_000, 6_000
#: What each further file may add, bytes (its path, size and stamp packed are some 50). As Python
#: objects its path, size, stamp and digest are more than 700.
PER_FILE = 120


#: Files that threads are given before the outcome of the first of them is asked for.
AHEAD = 16 * BATCH


class OneByOne:
    """A transferer with one file in flight: how many there are with threads depends on the load."""

    def carry(
        self, transfers: Iterable[storage.Placing], *, total_bytes: int
    ) -> Generator[TransferOutcome, None, None]:
        for transfer in transfers:
            yield from transfer_all([transfer])


def peak(action: Callable[[], object]) -> int:
    """The most memory that Python had at once during ``action``, beyond what it had before."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[SavepointSummary, int]]:
    """A savepoint of few files and one of many, which differ in nothing else, and their peaks."""
    root = tmp_path_factory.mktemp("many")
    found: dict[int, tuple[SavepointSummary, int]] = {}
    for files in (WARM_UP, FEW, MANY):  # what is imported and compiled once is not counted
        checkpoint = root / "checkpoints" / str(files)
        if not checkpoint.exists():
            many_files(checkpoint, files, deltas=files // 200)
        taken: list[SavepointSummary] = []

        def take(checkpoint: Path = checkpoint, taken: list[SavepointSummary] = taken) -> None:
            queries = [QuerySource("query", str(checkpoint))]
            target = str(root / "savepoints")
            reporter = SilentSavepointReporter()
            options = {"trigger": "savepoint", "reporter": reporter, "transferer": OneByOne()}
            taken.append(write_savepoint(target, JOB, queries, **options))  # type: ignore[arg-type]

        most = peak(take)
        found[files] = taken[0], most
    assert found[MANY][0].files - found[FEW][0].files >= MANY - FEW
    return found


@pytest.mark.timeout(300)
def test_taking_a_savepoint(savepoints: dict[int, tuple[SavepointSummary, int]]) -> None:
    few, many = savepoints[FEW][1], savepoints[MANY][1]
    assert many - few < (MANY - FEW) * PER_FILE, f"{few:,} bytes, {many:,} bytes"


def test_threads_are_a_bounded_number_of_files_ahead(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"content")
    stamp = local_stamp(source.stat())
    given = most = 0

    def transfers() -> Iterator[storage.Placing]:
        nonlocal given
        for given in range(1, 2 * AHEAD + 1):
            yield storage.Placing(str(source), f"{tmp_path}/{given}", stamp, 7)

    for done, outcome in enumerate(ThreadedTransferer().carry(transfers(), total_bytes=1)):
        assert (outcome.size, outcome.lost) == (7, None)
        most = max(most, given - done)
    assert given == 2 * AHEAD == done + 1
    assert most <= AHEAD


@pytest.mark.timeout(300)
def test_checking_a_savepoint(
    savepoints: dict[int, tuple[SavepointSummary, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_CHUNK", FEW // 4)  # files it looks at together

    def checking(files: int) -> int:
        return peak(lambda: check_files(open_savepoint(savepoints[files][0].path)))

    few, many = checking(FEW), checking(MANY)
    assert many - few < (MANY - FEW) * PER_FILE, f"{few:,} bytes, {many:,} bytes"
