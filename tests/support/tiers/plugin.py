"""pytest's part of the tiers: the log of outcomes, rooms, and what the summary tells.

Works with and without pytest-xdist: the environment of another Spark does not have it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiers import rooms
from tests.support.tiers.parts import outcomes

#: How the reason of a skip begins where a tool is missing; whatever else is skipped is in order.
MISSING = "needs "
#: Directories whose tests share nothing with their neighbours: a worker takes one at a time.
INDEPENDENT = ("tests/e2e/",)
#: How the id of a test's parameters begins where a file's long fixture is made in parts.
_PART = re.compile(r"\[(part\d+)-")
_NEED_A_SERVER = {"postgres", "servers"}
_NEED_A_JVM = {"spark", "matrix"}


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "tiers of the suite")
    group.addoption(
        "--tier-log",
        metavar="FILE",
        help="append each test's outcome to FILE, leave out those that it has, and stop when the "
        "process that started this one is gone",
    )
    group.addoption("--rooms", metavar="FILE", help="write the seconds of each room to FILE")


def unit(nodeid: str) -> str:
    """Return what a test must stay together with: its file, as a rule, or its part of it."""
    if nodeid.startswith(INDEPENDENT):
        return nodeid
    part = _PART.search(nodeid)
    file = nodeid.split("::", 1)[0]
    return f"{file}::{part[1]}" if part else file


def room(item: pytest.Item) -> str:
    """Return the room of :data:`.rooms.ROOMS` that a test is in."""
    if item.nodeid.startswith(INDEPENDENT):
        return "end to end"
    names = {marker.name for marker in item.iter_markers()}
    if names & _NEED_A_JVM:
        return "warm session"
    return "servers" if names & _NEED_A_SERVER else "plain"


class TierPlugin:
    """Registered in every process of a run; what only one may do, the controller does."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        log: str | None = config.getoption("--tier-log")
        self._log = Path(log) if log else None
        kept: str | None = config.getoption("--rooms")
        self._kept = Path(kept) if kept else None
        self._outcomes: dict[str, tuple[str, float]] = {}
        self._seconds: dict[str, float] = {}
        self._missing: dict[str, list[str]] = {}
        self._began = time.monotonic()
        if self._log is not None and not self._is_worker:
            # A shell lets its background jobs, and so their children, ignore SIGINT; and SIGTERM
            # would leave the jobs of an end-to-end test running.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler)
            threading.Thread(target=_follow_the_parent, daemon=True).start()

    @property
    def _is_worker(self) -> bool:
        return hasattr(self._config, "workerinput")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what has an outcome already."""
        if self._log is None or not self._log.exists():
            return
        done = outcomes(self._log.read_text())
        left = [item for item in items if item.nodeid not in done]
        if len(left) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
            items[:] = left

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write a test's room into its reports, which go to the controller."""
        report = yield
        report.__dict__["room"] = room(item)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome; a test fails when one of its phases does."""
        if self._is_worker:
            return
        outcome, seconds = self._outcomes.get(report.nodeid, ("passed", 0.0))
        if report.outcome == "failed" or (report.outcome == "skipped" and outcome == "passed"):
            outcome = report.outcome
        self._outcomes[report.nodeid] = (outcome, seconds + report.duration)
        where = report.__dict__.get("room", "plain")
        self._seconds[where] = self._seconds.get(where, 0.0) + report.duration
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
        if self._kept is not None:
            now = {**rooms.lint_seconds(), **{r: self._seconds.get(r, 0) for r in rooms.ROOMS[1:]}}
            now[rooms.WALL] = time.monotonic() - self._began
            rooms.save(now, self._kept)
            terminalreporter.section("seconds by room: of tests, summed over the workers")
            for line in rooms.table(now, rooms.load()):
                terminalreporter.line(line)


def _follow_the_parent() -> None:
    """End this process as Ctrl-C would when the one that started it is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Make the scheduler of pytest-xdist: a file at a time in the order of collection."""
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    config.option.loadscopereorder = False
    return ByUnit(config, log)
