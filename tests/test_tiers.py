"""The tiers of the suite: shards, resuming, what is skipped, and the record of the slow ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tiers import records
from tests.support.tiers.plugin import in_shard, passed, unit
from tests.support.tiers.records import Failure, Records, Run
from tests.support.tiers.repository import ROOT, commits

RUN = Run(
    commit="c0ffee",
    number=100,
    date="2026-11-22T20:00:00+00:00",
    machine="2 cores",
    passed=3000,
    failed=0,
    skipped=3,
    duration=3600.0,
)
RED = replace(RUN, number=130, passed=2999, failed=1, failures=(Failure("tests/a.py::test_b"),))
GREEN = Records().with_run("deep", RUN).with_run("matrix", RUN)


def test_a_fresh_green_record_will_do() -> None:
    assert records.complaints(GREEN, 160) == []
    assert records.describe(GREEN, 160) == [
        "test-deep: green 60 commits ago; last run 60 commits ago, 2026-11-22: "
        "3000 passed, 0 failed, 3 skipped in 60 min of tests",
        "test-matrix: green 60 commits ago; last run 60 commits ago, 2026-11-22: "
        "3000 passed, 0 failed, 3 skipped in 60 min of tests",
    ]


def test_an_old_record_will_not_do() -> None:
    found = records.complaints(GREEN, 161)
    assert [line.split(",")[0] for line in found] == [
        "test-deep was last run 61 commits ago",
        "test-matrix was last run 61 commits ago",
    ]


def test_a_tier_that_never_ran_will_not_do_for_long() -> None:
    late = records.BEGAN + records.OLDEST
    kept = Records().with_run("deep", replace(RUN, number=late))
    assert records.complaints(kept, late) == []
    found = records.complaints(kept, late + 1)
    assert found == ["test-matrix was never recorded: run `make test-matrix`"]


def test_no_slow_tier_is_overdue() -> None:
    number = commits()
    if number is None:
        pytest.skip("only a whole clone knows how many commits ago a tier was run")
    assert records.complaints(records.load(), number) == []


def test_a_failure_wants_an_explanation_and_is_not_green() -> None:
    red = GREEN.with_run("deep", RED)
    (complaint,) = records.complaints(red, 131)
    assert "tests/a.py::test_b" in complaint
    assert records.describe(red, 131)[0].startswith(
        "test-deep: green 31 commits ago; last run 1 commits ago"
    )
    assert records.complaints(red.explained("tests/a.py::test_b", "SPARK-12345"), 131) == []
    with pytest.raises(KeyError):
        red.explained("tests/other.py::test_b", "?")


def test_a_run_without_tests_is_not_green() -> None:
    assert not replace(RUN, passed=0).is_green


def test_records_are_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    assert records.load(path) == Records()
    kept = GREEN.with_run("deep", replace(RED, again=("tests/c.py::test_d",)))
    records.save(kept, path)
    assert records.load(path) == kept


def test_a_record_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"schema_version": 2, "tiers": {}}')
    with pytest.raises(ValueError, match="schema_version 2"):
        records.load(path)


def test_every_test_is_in_one_shard_and_files_stay_whole() -> None:
    tests = [f"tests/r/test_{n}.py::test_{m}" for n in range(40) for m in range(3)]
    shards = [[t for t in tests if in_shard(t, f"{k}/8")] for k in range(1, 9)]
    assert sorted(t for shard in shards for t in shard) == sorted(tests)
    assert all(len({unit(t) for t in shard}) * 3 == len(shard) for shard in shards)
    assert unit("tests/e2e/test_a.py::test_b[c]") == "tests/e2e/test_a.py::test_b[c]"
    assert unit("tests/engine/test_a.py::test_b[part2-c]") == "tests/engine/test_a.py::part2"


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "1/2/3", "-1/2"])
def test_bad_shards(shard: str) -> None:
    with pytest.raises(pytest.UsageError, match=r"give K/N"):
        in_shard("tests/a.py::test_b", shard)


def test_the_last_outcome_counts() -> None:
    log = [json.dumps(entry) for entry in (["a", "failed", 1], ["b", "passed", 1])]
    assert passed(log) == {"b"}
    assert passed([*log, json.dumps(["a", "passed", 1]), json.dumps(["b", "failed", 1])]) == {"a"}


SUITE = """
import pytest
def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip(reason="needs a telescope")
def test_of_stars(): pass
@pytest.mark.skip(reason="came with Spark 4")
def test_of_spark(): pass
"""
CONFTEST = """
from tests.support.tiers import plugin
def pytest_addoption(parser): plugin.add_options(parser)
def pytest_configure(config):
    config.pluginmanager.register(plugin.TierPlugin(config), "flinkish-tiers")
"""


def run_suite(directory: Path, *words: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_it.py").write_text(SUITE)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )


def test_outcomes_are_kept_and_not_run_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = run_suite(tmp_path, "--tier-log", str(log))
    assert first.returncode == 1, first.stdout
    outcomes = {test: outcome for test, outcome, _ in map(json.loads, log.read_text().splitlines())}
    assert outcomes == {
        "test_it.py::test_passes": "passed",
        "test_it.py::test_fails": "failed",
        "test_it.py::test_of_stars": "skipped",
        "test_it.py::test_of_spark": "skipped",
    }
    again = run_suite(tmp_path, "--tier-done", str(log))
    assert "1 failed, 3 deselected" in again.stdout


def test_a_missing_tool_is_named_and_fails_in_ci(tmp_path: Path) -> None:
    here = run_suite(tmp_path, "--deselect", "test_it.py::test_fails")
    assert here.returncode == 0, here.stdout
    assert "1 tests not run: a tool is missing" in here.stdout
    assert "needs a telescope: 1, such as test_it.py::test_of_stars" in here.stdout
    assert "came with Spark 4: " not in here.stdout
    in_ci = run_suite(tmp_path, "--deselect", "test_it.py::test_fails", ci="true")
    assert in_ci.returncode == 1
    assert "this run has failed for it" in in_ci.stdout
