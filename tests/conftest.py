"""Fixtures of the whole suite, its tiers, and its order: what fails fast comes first."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support import jvm
from tests.support.disks import tmpfs
from tests.support.servers.fixtures import (
    azure_server,
    gcs_server,
    hdfs,
    kafka,
    moto_s3,
    second_s3,
    slow_s3,
)
from tests.support.servers.process import logs_of
from tests.support.tiers import plugin

__all__ = [
    "azure_server",
    "gcs_server",
    "hdfs",
    "kafka",
    "moto_s3",
    "second_s3",
    "slow_s3",
]

# A slow machine is no failure; speed is measured elsewhere.
settings.register_profile("flinkish", deadline=None)
settings.load_profile("flinkish")

_NEED_A_SERVER = {"postgres", "servers"}
_NEED_A_JVM = {"spark", "matrix"}


def pytest_addoption(parser: pytest.Parser) -> None:
    plugin.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(plugin.TierPlugin(config), "flinkish-tiers")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return plugin.make_scheduler(config, log)


def _names(item: pytest.Item) -> set[str]:
    return {marker.name for marker in item.iter_markers()}


def _patience(item: pytest.Item) -> float:
    """How many seconds a test may take by its own mark."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Plain tests first, then those that need a server, those of many sessions, those of one.

    Tests that start drivers of their own are taken one at a time, those that may take longest
    first. The files of the warm session come last: they are many and short, so that workers end
    together.
    """

    def cost(item: pytest.Item) -> int:
        if item.nodeid.startswith(plugin.INDEPENDENT):
            return 2
        names = _names(item)
        return 3 if names & _NEED_A_JVM else 1 if names & _NEED_A_SERVER else 0

    # By file: with several workers a file is not taken apart.
    costs: dict[str, int] = {}
    for item in items:
        unit = plugin.unit(item.nodeid)
        costs[unit] = max(costs.get(unit, 0), cost(item))

    def order(item: pytest.Item) -> tuple[int, float]:
        unit = plugin.unit(item.nodeid)
        return costs[unit], -_patience(item) if unit == item.nodeid else 0.0

    items.sort(key=order)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Prepare fast JVMs in every process that will start one."""
    if any(_names(item) & _NEED_A_JVM for item in session.items):
        jvm.use()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure the ends of the logs of the servers that the test used."""
    report = yield
    if report.failed:
        for name, log in logs_of(getattr(item, "fixturenames", ())):
            report.sections.append((f"the log of {name}", log))
    return report


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 256 KiB."""
    with tmpfs(tmp_path / "small", "256k") as mount:
        yield mount
