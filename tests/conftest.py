"""Fixtures of the whole suite, and its order: what fails fast comes before what starts Spark."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.disks import tmpfs
from tests.support.servers.fixtures import hdfs, moto_s3, second_s3, slow_s3
from tests.support.servers.process import logs_of

__all__ = ["hdfs", "moto_s3", "second_s3", "slow_s3"]

# A slow machine is no failure; speed is measured elsewhere.
settings.register_profile("flinkish", deadline=None)
settings.load_profile("flinkish")

_NEED_A_SERVER = {"postgres", "servers"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Plain tests first, then those that need a server, then those that start a JVM."""

    def cost(item: pytest.Item) -> int:
        names = {marker.name for marker in item.iter_markers()}
        return 2 if names & {"spark", "matrix"} else 1 if names & _NEED_A_SERVER else 0

    items.sort(key=cost)  # stable: within each group the order is pytest's


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
