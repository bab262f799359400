"""Real drivers, real command, private state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.command import Flinkish


@pytest.fixture
def flinkish(tmp_path: Path) -> Iterator[Flinkish]:
    command = Flinkish(tmp_path)
    yield command
    command.clean_up()
