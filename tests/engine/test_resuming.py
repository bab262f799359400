"""Queries go on with rewritten state as if nothing had happened, and Spark reads the same rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.support.engine.case_programs import in_parts, part_and_case, run_program
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


#: Each case takes a minute or more: several JVMs run them.
NEWEST = in_parts(cases_of("4"), 6)
OLDEST = in_parts(cases_of("3.5"), 4)


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    @cache
    def results(part: str) -> dict[str, Any]:
        directory = tmp_path_factory.mktemp("newest")
        return run_program("resuming_program", directory, NEWEST[part], timeout=5300)

    return results


@pytest.mark.deep
@pytest.mark.parametrize(("part", "name"), part_and_case(NEWEST))
def test_queries_go_on(newest: Callable[[str], dict[str, Any]], part: str, name: str) -> None:
    check(newest(part), name)


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    python = os.environ.get("FLINKISH_SPARK35_PYTHON")
    if not python:
        pytest.skip("needs FLINKISH_SPARK35_PYTHON: a Python with Spark 3.5")

    @cache
    def results(part: str) -> dict[str, Any]:
        directory = tmp_path_factory.mktemp("oldest")
        return run_program("resuming_program", directory, OLDEST[part], python=python, timeout=5300)

    return results


@pytest.mark.matrix
@pytest.mark.parametrize(("part", "name"), part_and_case(OLDEST))
def test_queries_go_on_in_spark_35(
    oldest: Callable[[str], dict[str, Any]], part: str, name: str
) -> None:
    results = oldest(part)
    assert results["spark"].startswith("3.5")
    check(results, name)
