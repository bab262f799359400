"""History batches end to end: none stands for two different data, whatever becomes of the job.

A crash, stop and resume, an older savepoint, a fork beside its job. The programs take different
numbers of files into a batch, so that a batch id that comes again has other rows.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict
from itertools import count
from pathlib import Path

import pytest

from tests.e2e.test_killed import processes_of
from tests.e2e.test_restarts import COMES_BACK, kill
from tests.support.cli.command import Flinkish, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

Call = tuple[str, int, int, str]


class World:
    """The input, and what the functions of all runs have noted."""

    def __init__(self, flinkish: Flinkish, directory: Path) -> None:
        self.flinkish = flinkish
        self.input = directory / "in"
        self.input.mkdir()
        self.database = directory / "calls.db"
        self._numbers = count()

    def feed(self, files: int) -> None:
        """Write files of one row each, a second apart."""
        for number in (next(self._numbers) for _ in range(files)):
            path = self.input / f".{number}.json"
            path.write_text(json.dumps({"id": number}))
            os.utime(path, (1_700_000_000 + number,) * 2)
            path.rename(self.input / f"{number}.json")

    def start(self, name: str, files: int, *options: str, more: tuple[str, ...] = ()) -> str:
        arguments = (str(self.input), str(self.database), name, str(files), *more)
        return self.flinkish.run("numbered.py", *arguments, options=(*COMES_BACK, *options))

    def calls(self, name: str | None = None) -> list[Call]:
        if not self.database.exists():
            return []
        database = sqlite3.connect(self.database, timeout=60)
        try:
            found = database.execute("select name, number, batch, ids from calls").fetchall()
        except sqlite3.OperationalError:
            return []  # the table is not made yet
        finally:
            database.close()
        return [call for call in found if name in (None, call[0])]

    def wait_for_row(self, name: str, row: int) -> None:
        """Wait until a run has noted a row, and all before it."""
        wait_until(lambda: any(str(row) in ids.split(",") for *_, ids in self.calls(name)))

    def check(self) -> None:
        """Every number stands for the same rows, however often it was noted."""
        rows: dict[int, set[str]] = defaultdict(set)
        for _, number, _, ids in self.calls():
            rows[number].add(ids)
        assert {number: ids for number, ids in rows.items() if len(ids) > 1} == {}

    def check_growing(self, *names: str) -> None:
        """The numbers of a line of runs never go back, but for a batch that is replayed."""
        numbers = [number for name in names for _, number, _, _ in self.calls(name)]
        assert numbers == sorted(numbers)


@pytest.mark.deep
def test_no_number_comes_twice_with_other_rows(flinkish: Flinkish, tmp_path: Path) -> None:
    world = World(flinkish, tmp_path)
    savepoints = str(tmp_path / "sp")
    world.feed(5)

    # Batch 2 is noted, and not committed: it comes again with the same rows.
    first = world.start("first", 1, more=("--die-at", "2"))
    world.wait_for_row("first", 4)
    again = [call for call in world.calls("first") if call[1] == 2]
    assert again == [("first", 2, 2, "2")] * 2
    assert [number for _, number, _, _ in world.calls("first")] == [0, 1, 2, 2, 3, 4]
    flinkish.wait_for_batch(first, 4)
    older = flinkish.ok("savepoint", "-q", first, savepoints).out.strip()
    world.feed(3)
    world.wait_for_row("first", 7)

    # It is stopped and goes on: the numbers are Spark's own still.
    stopped = flinkish.ok("stop", "-q", first, "-p", savepoints).out.strip()
    world.feed(3)
    second = world.start("second", 1, "-s", stopped)
    world.wait_for_row("second", 10)
    assert [(number, batch) for _, number, batch, _ in world.calls("second")] == [
        (number, number) for number in (8, 9, 10)
    ]
    note = flinkish.job(second)["queries"][0]["plan"]["checks"]
    assert [(one["id"], one["outcome"]) for one in note] == [("foreach-batch", "ok")]
    flinkish.ok("cancel", second)

    # The older savepoint: batch 5 comes again, with other rows and another number.
    program = str(Path(__file__).parent / "programs" / "numbered.py")
    arguments = (program, str(world.input), str(world.database), "third", "2")
    shown = flinkish.ok("check", "-m", "local[2]", "-s", older, *arguments).out
    assert "up to 6 batches after batch 4 that another run has processed" in shown
    assert "txnVersion" in shown
    third = world.start("third", 2, "-s", older)
    world.wait_for_row("third", 10)
    assert world.calls("third")[0][2:] == (5, "5,6")
    assert min(number for _, number, _, _ in world.calls("third")) > 1 << 32

    # Its driver is killed, and comes back in place: the same shift.
    processes = processes_of(third)
    kill([processes["jvm"], processes["driver"]])
    world.feed(4)
    world.wait_for_row("third", 14)
    assert len({number - batch for _, number, batch, _ in world.calls("third")}) == 1

    # A fork of its savepoint runs beside it, and is stopped and goes on itself.
    newer = flinkish.ok("savepoint", "-q", third, savepoints).out.strip()
    metadata = flinkish.ok("savepoint", "show", newer, "--json").json()
    assert metadata["savepoint"]["queries"][0]["sink"]["history_shift"] > 1 << 32
    fork = world.start("fork", 3, "-s", newer, "--fork")
    world.feed(6)
    world.wait_for_row("fork", 20)
    world.wait_for_row("third", 20)
    flinkish.ok("cancel", third)
    last = flinkish.ok("stop", "-q", fork, "-p", savepoints).out.strip()
    world.feed(2)
    world.start("last", 1, "-s", last)
    world.wait_for_row("last", 22)

    world.check()
    world.check_growing("first", "second")
    world.check_growing("first", "third")
    world.check_growing("third", "fork")  # those of third up to the savepoint, and later ones
    world.check_growing("fork", "last")
    shifts = {n - batch for _, n, batch, _ in [*world.calls("fork"), *world.calls("last")]}
    assert len(shifts) == 1
    assert shifts.isdisjoint({n - batch for _, n, batch, _ in world.calls("third")})
