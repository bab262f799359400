"""What the measurements do when something is wrong: the figures themselves are not tested."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pytest

from tools.bench.__main__ import rescale
from tools.bench.measure import output_of


def test_partitions_are_two_numbers() -> None:
    assert rescale("8:12") == (8, 12)
    for text in ("8", "8:", ":8", "8:0", "8:1:2", "a:b", "8:-1"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not BEFORE:AFTER"):
            rescale(text)


def test_a_program_that_fails_is_shown_with_its_stderr(tmp_path: Path) -> None:
    def run(script: str) -> str:
        return output_of([sys.executable, "-c", script], os.environ, tmp_path)

    assert run("print(1)") == "1\n"
    with pytest.raises(SystemExit, match=r"(?s)^the reason\n.* failed with 3$"):
        run("import sys; sys.stderr.write('the reason\\n'); sys.exit(3)")
