"""Every state file that Spark writes, decoded and encoded again: the same bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkpoints.recorded import NAMES, unpack
from tests.support.engine.case_programs import in_parts, part_and_case, run_program
from tests.support.engine.reencoding_program import CASES, Seen, cases_of, reencode

#: A directory of checkpoints, and what the program says of each.
Ran = tuple[Path, dict[str, Any]]
#: Codecs whose compressed bytes are Spark's too; of the others blocks hold other matches.
SAME_BYTES = {"lz4", "zstd"}
#: Several JVMs run them.
NEWEST = in_parts(tuple(CASES), 3)
OLDEST = in_parts(cases_of("3.5"), 2)
pytestmark = pytest.mark.timeout(3000)


def run(directory: Path, cases: Sequence[str], python: str = sys.executable) -> Ran:
    """Where the program's checkpoints are, and what it says of them."""
    return directory, run_program("reencoding_program", directory, cases, python=python)


def check(ran: Ran, name: str) -> Seen:
    """All files of a case."""
    directory, results = ran
    assert results[name] is None, results[name]
    seen = reencode(directory / name)
    assert not seen.wrong, seen.wrong[:3]
    assert seen.rows
    assert seen.files["schema"] > 0
    kinds = {"delta", "snapshot"} if name.startswith("hdfs") else {"zip", "changelog"}
    assert kinds & set(seen.files)
    if CASES[name].codec in SAME_BYTES:
        compressed = {k: n for k, n in seen.files.items() if k not in {"zip", "schema", "metadata"}}
        assert seen.packed == compressed
    # The only bytes that are not those of columns: what Spark leaves in null calendar intervals.
    assert bool(seen.intervals) == (CASES[name].query == "calendar")
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_file_is_encoded_as_it_was(tmp_path: Path, name: str) -> None:
    seen = reencode(unpack(name, tmp_path))
    assert not seen.wrong, seen.wrong[:3]
    assert seen.rows
    assert seen.files
    assert not seen.intervals


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ran]:
    return cache(lambda part: run(tmp_path_factory.mktemp("newest"), NEWEST[part]))


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.parametrize(("part", "name"), part_and_case(NEWEST))
def test_every_file_of_the_newest_spark_is_encoded_as_it_was(
    newest: Callable[[str], Ran], part: str, name: str
) -> None:
    check(newest(part), name)


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ran]:
    python = os.environ.get("FLINKISH_SPARK35_PYTHON")
    if not python:
        pytest.skip("needs FLINKISH_SPARK35_PYTHON: a Python with Spark 3.5")
    return cache(lambda part: run(tmp_path_factory.mktemp("oldest"), OLDEST[part], python))


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize(("part", "name"), part_and_case(OLDEST))
def test_every_file_of_spark_35_is_encoded_as_it_was(
    oldest: Callable[[str], Ran], part: str, name: str
) -> None:
    check(oldest(part), name)
