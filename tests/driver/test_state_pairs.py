"""Each pair of programs: what the check says, and what Spark really makes of the state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from flinkish.driver.settings import configured
from flinkish.restore.verdicts import FOR_THE_ENGINE, Verdict
from tests.support.driver.pair_runner import FAILS, RIGHT, Bench, Pair
from tests.support.driver.pairs import PAIRS, RARE

#: Spark's errors for state that does not fit, by version.
STATE_ERROR = re.compile(r"STATE_STORE_|STATEFUL_OPERATOR|for existing state|existing state")
NO = FOR_THE_ENGINE | {Verdict.INCOMPATIBLE}


def _says_no(pair: Pair) -> bool:
    return pair.refused or Verdict(pair.verdict) in NO


def test_the_table_hides_nothing() -> None:
    """Every no that is wrong and every yes that is wrong says why."""
    assert len({pair.name for pair in PAIRS}) == len(PAIRS) >= 70
    wrong_no, wrong_yes = [], []
    for pair in PAIRS:
        truths = {pair.spark, pair.spark3} - {""}
        if _says_no(pair) and RIGHT in truths and not pair.false_no:
            wrong_no.append(pair.name)
        if not _says_no(pair) and truths != {RIGHT} and not pair.limit:
            wrong_yes.append(pair.name)
    assert (wrong_no, wrong_yes) == ([], [])
    assert all(pair.plain for pair in PAIRS if pair.limit)
    assert {pair.name for pair in PAIRS} > RARE


def _case(pair: Pair) -> Any:
    marks = [pytest.mark.matrix] if pair.name in RARE else []
    return pytest.param(pair, id=pair.name.replace(" ", "-"), marks=marks)


@pytest.fixture(scope="module")
def bench(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with configured(spark, {"spark.sql.shuffle.partitions": "1"}):
        yield Bench(spark, tmp_path_factory.mktemp("pairs"))


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:distutils:DeprecationWarning")
@pytest.mark.parametrize("pair", [_case(pair) for pair in PAIRS])
def test_the_verdict_is_what_spark_does(bench: Bench, pair: Pair) -> None:
    if bench.spark.version < pair.since:
        pytest.skip(f"came with Spark {pair.since}")
    with configured(bench.spark, pair.conf):
        restore, planned, offers = bench.plan(pair)
        assert restore.plan is not None, restore.refusal
        wanted = (None, pair.operator) if pair.plain else (pair.operator,)
        (found,) = [p for p in restore.plan.operators or () if p.operator.uid in wanted]
        said = f"{found.verdict.value}: {found.reason}: {found.text}"
        truth, result = bench.truth(pair, restore, planned, offers)
    print(pair.name, said, truth, result[:600], sep="\n  ")
    assert (found.verdict.value, found.reason) == (pair.verdict, pair.reason), (said, truth)
    assert (restore.refusal is not None) == _says_no(pair), restore.refusal
    old = bench.spark.version.startswith("3.") and pair.spark3
    assert truth == (old or pair.spark), result
    if pair.limit:
        assert "meaning-unknown" in {change.reason for change in found.changes}
    if truth == FAILS:
        assert STATE_ERROR.search(result), result
