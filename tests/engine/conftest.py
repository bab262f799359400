from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checkpoints.recorded import NAMES, unpack


@pytest.fixture(params=NAMES)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Each recorded checkpoint in turn, unpacked."""
    return unpack(str(request.param), tmp_path)
