"""What users import, and what it costs until they use it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flinkish.state


def test_every_name_is_there() -> None:
    assert all(getattr(flinkish.state, name).__name__ == name for name in flinkish.state.__all__)
    assert sorted(flinkish.state.__all__) == flinkish.state.__all__
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = flinkish.state.Nothing  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import sys, flinkish.state;"
        "print([name for name in ('fastavro', 'numpy', 'pyspark') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("[]\n", "")
