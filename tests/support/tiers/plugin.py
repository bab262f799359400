"""pytest's part of the tiers: shards, resuming, the log of outcomes, and what the summary tells.

Works with and without pytest-xdist: the environment of another Spark does not have it.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiers import records
from tests.support.tiers.repository import commits

#: How the reason of a skip begins where a tool is missing; whatever else is skipped is in order.
MISSING = "needs "
#: Directories whose tests share nothing with their neighbours: a worker takes one at a time.
INDEPENDENT = ("tests/e2e/",)
#: How the id of a test's parameters begins where a file's long fixture is made in parts.
_PART = re.compile(r"\[(part\d+)-")


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "tiers of the suite")
    group.addoption("--shard", metavar="K/N", help="run only the K-th of N parts of the tests")
    group.addoption("--tier-log", metavar="FILE", help="append each test's outcome to FILE")
    group.addoption(
        "--tier-done", metavar="FILE", help="leave out the tests that passed by this log"
    )


def unit(nodeid: str) -> str:
    """Return what a test must stay together with: its file, as a rule, or its part of it."""
    if nodeid.startswith(INDEPENDENT):
        return nodeid
    part = _PART.search(nodeid)
    file = nodeid.split("::", 1)[0]
    return f"{file}::{part[1]}" if part else file


def in_shard(nodeid: str, shard: str) -> bool:
    """Return whether a test is in shard ``K/N``; K counts from 1.

    Raises
    ------
    pytest.UsageError
        This is no shard.
    """
    try:
        number, of = (int(part) for part in shard.split("/"))
    except ValueError:
        number = of = 0
    if not 1 <= number <= of:
        raise pytest.UsageError(f"--shard {shard}: give K/N, such as 3/8, with K from 1 to N")
    return zlib.crc32(unit(nodeid).encode()) % of == number - 1


def passed(log: Iterable[str]) -> set[str]:
    """Return the tests that need not run again by a log: those whose last outcome is no failure."""
    outcomes = dict(json.loads(line)[:2] for line in log)
    return {test for test, outcome in outcomes.items() if outcome != "failed"}


class TierPlugin:
    """Registered in every process of a run; what only one may do, the controller does."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shard: str | None = config.getoption("--shard")
        log: str | None = config.getoption("--tier-log")
        self._log = Path(log) if log else None
        self._done: str | None = config.getoption("--tier-done")
        self._outcomes: dict[str, tuple[str, float]] = {}
        self._missing: dict[str, list[str]] = {}

    @property
    def _is_worker(self) -> bool:
        return hasattr(self._config, "workerinput")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out other shards, and what has passed already."""
        done = passed(Path(self._done).read_text().splitlines()) if self._done else set()
        shard = self._shard
        left = [
            item
            for item in items
            if item.nodeid not in done and (shard is None or in_shard(item.nodeid, shard))
        ]
        if len(left) < len(items):
            kept = set(left)
            config.hook.pytest_deselected(items=[item for item in items if item not in kept])
            items[:] = left

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome; a test fails when one of its phases does."""
        if self._is_worker:
            return
        outcome, seconds = self._outcomes.get(report.nodeid, ("passed", 0.0))
        if report.outcome == "failed" or (report.outcome == "skipped" and outcome == "passed"):
            outcome = report.outcome
        self._outcomes[report.nodeid] = (outcome, seconds + report.duration)
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            if reason.startswith(MISSING):
                self._missing.setdefault(reason, []).append(report.nodeid)
        if self._log is not None and report.when == "teardown":
            with self._log.open("a") as log:
                log.write(json.dumps([report.nodeid, *self._outcomes[report.nodeid]]) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """In CI nothing is skipped because a tool is missing."""
        if self._missing and os.environ.get("CI") == "true" and not self._is_worker:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._missing:
            count = sum(map(len, self._missing.values()))
            terminalreporter.section(f"{count} tests not run: a tool is missing")
            for reason, tests in sorted(self._missing.items()):
                terminalreporter.line(f"{reason}: {len(tests)}, such as {tests[0]}")
            if os.environ.get("CI") == "true":
                terminalreporter.line("CI=true: this run has failed for it")
        number = commits()
        if number is not None:
            terminalreporter.section("slow tiers")
            for line in records.describe(records.load(), number):
                terminalreporter.line(line)


def make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Make the scheduler of pytest-xdist: a file at a time in the order of collection."""
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    config.option.loadscopereorder = False
    return ByUnit(config, log)
