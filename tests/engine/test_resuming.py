"""Queries go on with rewritten state as if nothing had happened, and Spark reads the same rows."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.support.engine.case_programs import run_program
from tests.support.engine.resuming_program import PARTITIONS, case_of, cases_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(5400)]


def check(results: dict[str, Any], name: str) -> None:
    """Each rewrite of a case: the output that follows, Spark's reading of the state, digests."""
    found = results[name]
    assert "error" not in found, found["error"]
    assert sum(map(len, found["whole"].values())), "a query without output proves nothing"
    case = case_of(name)
    assert set(found["rewrites"]) == set(case.rewrites)
    for label, rewrite in found["rewrites"].items():
        assert rewrite["resumed"] == found["whole"], label
        assert rewrite["state"] == found["state"], label
        chain = case.rewrites[label]
        if len(chain) > 1 and chain[-1].partitions == PARTITIONS:
            assert all(digest == rewrite["digests"][0] for digest in rewrite["digests"])


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_program("resuming_program", tmp_path_factory.mktemp("newest"), timeout=5300)


@pytest.mark.deep
@pytest.mark.parametrize("name", cases_of("4"))
def test_queries_go_on(newest: dict[str, Any], name: str) -> None:
    check(newest, name)


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python = os.environ.get("FLINKISH_SPARK35_PYTHON")
    if not python:
        pytest.skip("needs FLINKISH_SPARK35_PYTHON: a Python with Spark 3.5")
    directory = tmp_path_factory.mktemp("oldest")
    return run_program("resuming_program", directory, python=python, timeout=5300)


@pytest.mark.matrix
@pytest.mark.parametrize("name", cases_of("3.5"))
def test_queries_go_on_in_spark_35(oldest: dict[str, Any], name: str) -> None:
    assert oldest["spark"].startswith("3.5")
    check(oldest, name)
