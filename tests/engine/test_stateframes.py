"""DataFrames of state have the rows of Spark's own reader, and queries go on with state of them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.support.engine.case_programs import run_program
from tests.support.engine.state_frames_program import CASES, cases_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]


def check(results: dict[str, Any], name: str) -> None:
    """Rows like those of Spark's reader, and output like that of the uninterrupted query."""
    found = results[name]
    assert "error" not in found, found["error"]
    for state, read in found["reads"].items():
        assert read["ours"], state
        if not results["spark"].startswith("3."):
            assert read["ours"] == read["sparks"], state
    assert found["digest"]["rows"] >= sum(len(r["ours"]) for r in found["reads"].values())
    assert sum(map(len, found["whole"].values())), "a query without output proves nothing"
    assert found["resumed"] == found["whole"]


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_program("state_frames_program", tmp_path_factory.mktemp("newest"), timeout=1400)


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_state_as_data(newest: dict[str, Any], name: str) -> None:
    check(newest, name)


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python = os.environ.get("FLINKISH_SPARK35_PYTHON")
    if not python:
        pytest.skip("needs FLINKISH_SPARK35_PYTHON: a Python with Spark 3.5")
    return run_program(
        "state_frames_program", tmp_path_factory.mktemp("oldest"), python=python, timeout=1400
    )


@pytest.mark.matrix
@pytest.mark.parametrize("name", cases_of("3.5"))
def test_state_as_data_in_spark_35(oldest: dict[str, Any], name: str) -> None:
    assert oldest["spark"].startswith("3.5")
    check(oldest, name)
