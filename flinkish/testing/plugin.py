"""The fixtures of the pytest plugin; every run of pytest imports this module."""

from __future__ import annotations

import pytest

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from flinkish.testing.jobs import Jobs


@pytest.fixture(scope="session")
def flinkish_options() -> Mapping[str, str]:
    """Return the settings of all jobs (``spark.*`` too); ``conftest.py`` may override them."""
    return {}


@pytest.fixture
def flinkish_jobs(
    tmp_path: Path, pytestconfig: pytest.Config, flinkish_options: Mapping[str, str]
) -> Iterator[Jobs]:
    """Return the jobs of one test, with a registry of their own; they end with the test."""
    from flinkish.testing.jobs import Jobs

    with Jobs(tmp_path / "flinkish", flinkish_options, root=pytestconfig.rootpath) as jobs:
        yield jobs
