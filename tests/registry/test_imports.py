"""``flinkish list`` starts within a few milliseconds because these modules import little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "asyncio",
    "click",
    "difflib",
    "fastavro",
    "fsspec",
    "logging",
    "pathlib",
    "psycopg",
    "pyspark",
    "rich",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "tomllib",
    "urllib",
    "uuid",
}


@pytest.mark.parametrize(
    "module",
    [
        "flinkish.config",
        "flinkish.errors",
        "flinkish.registry.job_registry",
        "flinkish.registry.liveness",
        "flinkish.registry.waiting",
    ],
)
def test_nothing_heavy_is_imported(module: str) -> None:
    # -S leaves out what this environment's site packages import for reasons of their own.
    run = subprocess.run(
        [sys.executable, "-S", "-X", "importtime", "-c", f"import {module}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    imported = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert module in imported
    assert {name for name in imported if name.partition(".")[0] in HEAVY} == set()
