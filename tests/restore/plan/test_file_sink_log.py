"""Entries that the log of a file sink lacks, held against a model of Spark's own log."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.restore.check.file_sinks import missing_entries


@dataclass
class Log:
    """What ``CompactibleFileStreamLog`` does with its entries; a batch's file has its number."""

    setting: int
    entries: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def interval(self) -> int:
        compact = sorted(int(n.split(".")[0]) for n in self.entries if n.endswith(".compact"))
        if len(compact) > 1:
            return compact[-1] - compact[-2]
        if not compact:
            return self.setting
        number = compact[0] + 1
        if self.setting < number // 2 and number > self.setting:
            divisors = (i for i in range(self.setting, number // 2 + 1) if number % i == 0)
            return next(divisors, number)
        return number

    def name(self, batch: int, interval: int) -> str:
        return f"{batch}.compact" if (batch + 1) % interval == 0 else str(batch)

    def files(self, interval: int) -> list[int]:
        """The files that a reader sees; KeyError where an entry is missing."""
        newest = max((int(n.split(".")[0]) for n in self.entries), default=-1)
        start = max(0, (newest + 1) // interval * interval - 1)
        found = [self.entries[self.name(b, interval)] for b in range(start, newest + 1)]
        return sorted(each for files in found for each in files)

    def add(self, batch: int, interval: int) -> None:
        name = self.name(batch, interval)
        files: tuple[int, ...] = (batch,)
        if name.endswith(".compact"):
            before = range(max(0, batch - interval), batch)
            files = sum((self.entries[self.name(b, interval)] for b in before), ()) + files
        self.entries[name] = files

    def complete(self, next_batch: int, interval: int) -> None:
        missing = missing_entries(self.entries, next_batch, interval)
        for batch in missing.before:
            self.entries[self.name(batch, interval)] = ()
        known = tuple(self.files(interval))
        for batch in missing.after:
            files = known if batch in missing.compact else ()
            self.entries[self.name(batch, interval)] = files


@given(
    interval=st.integers(1, 12),
    had=st.integers(0, 40),
    gap=st.integers(0, 60),
    runs=st.lists(st.integers(1, 30), min_size=1, max_size=3),
)
def test_a_completed_log_goes_on_over_its_compactions(
    interval: int, had: int, gap: int, runs: list[int]
) -> None:
    log = Log(interval)
    for batch in range(had):
        log.add(batch, interval)
    batch = had + gap
    for run in runs:  # a new run takes the interval from the log
        at = log.interval
        log.complete(batch, at)
        for _ in range(run):
            log.add(batch, at)
            batch += 1
            assert log.files(at) == [*range(had), *range(had + gap, batch)]


@pytest.mark.parametrize("first", [3, 9, 13, 25, 40])
def test_a_log_that_began_in_the_middle_is_completed(first: int) -> None:
    log = Log(10)
    for batch in range(first, first + 9 - first % 10):
        log.entries[str(batch)] = (batch,)
    batch = max((int(n) + 1 for n in log.entries), default=first)
    log.complete(batch, log.interval)
    at = log.interval
    for number in range(batch, batch + 25):
        log.add(number, at)
    assert log.files(at) == list(range(first, batch + 25))


def test_a_whole_log_and_a_first_batch_need_nothing() -> None:
    assert not missing_entries([], 0, 10)
    assert not missing_entries(["0", "1", ".1.crc"], 2, 10)
    assert not missing_entries(["0", "1", "2"], 2, 10)  # the sink is ahead
    assert not missing_entries(["19.compact", "20"], 21, 10)  # Spark has deleted the older ones


def test_a_new_log_gets_two_compact_entries_and_those_since() -> None:
    missing = missing_entries([], 10_003, 10)
    assert missing.after == (9989, 9999, 10000, 10001, 10002)
    assert missing.compact == {9989, 9999}
