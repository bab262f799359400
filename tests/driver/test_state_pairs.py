"""Each pair of programs: what the check says, and what Spark really makes of the state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.driver.spark.jvm import configured
from flinkish.errors import ConsentNeeded
from flinkish.messages.plan import StateVerdict
from flinkish.messages.restore_options import RestoreOptions
from flinkish.restore.plan.judging import FOR_THE_ENGINE, OperatorJudgement
from flinkish.restore.plan.query_restore import PlanningSettings, QueryRestore
from tests.support.driver import recorded_pairs
from tests.support.driver.canonical_state import CanonicalBench
from tests.support.driver.operator_programs import OF_PANDAS
from tests.support.driver.pair_runner import FAILS, RIGHT, ROCKSDB, WRONG, Bench, Pair
from tests.support.driver.pairs import PAIRS, TELLING, VERDICTS
from tests.support.driver.pairs_other_operators import BY_TIME_SINCE, FUNCTIONS, JOINS, PROCESSORS
from tests.support.driver.recorded_pairs import RecordedBench

#: Spark's errors for state that does not fit, by version.
STATE_ERROR = re.compile(r"STATE_STORE_|STATEFUL_OPERATOR|for existing state|existing state")
NO = FOR_THE_ENGINE | {StateVerdict.INCOMPATIBLE}


def _says_no(pair: Pair) -> bool:
    return pair.refused or StateVerdict(pair.verdict) in NO


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


def test_what_is_run_for_real_is_telling() -> None:
    """It has every verdict that the table has, and every truth."""
    telling = [pair for pair in PAIRS if pair.name in TELLING]
    assert {pair.name for pair in telling} == TELLING
    assert {pair.verdict for pair in telling} == {pair.verdict for pair in PAIRS}
    assert {pair.spark for pair in telling} == {RIGHT, WRONG, FAILS}


def _case(pair: Pair, *, deep: bool = False) -> Any:
    marks = [pytest.mark.deep] if deep else []
    return pytest.param(pair, id=pair.name.replace(" ", "-"), marks=marks)


@pytest.fixture(scope="module")
def bench(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with configured(spark, recorded_pairs.SETTINGS):
        yield Bench(spark, tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def recorded(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if not spark.version.startswith(recorded_pairs.SPARK):
        pytest.skip(f"the old programs were recorded with Spark {recorded_pairs.SPARK}x")
    with configured(spark, recorded_pairs.SETTINGS):
        yield RecordedBench(spark, tmp_path_factory.mktemp("recorded"))


def _checked(pair: Pair, restore: QueryRestore) -> OperatorJudgement:
    """What the plan says of the pair's operator, which is what the table says."""
    assert restore.plan is not None, restore.refusal
    wanted = (None, pair.operator) if pair.plain else (pair.operator,)
    (found,) = [p for p in restore.plan.operators or () if p.operator.uid in wanted]
    said = f"{found.verdict.value}: {found.reason}: {found.text}"
    assert (found.verdict.value, found.reason) == (pair.verdict, pair.reason), said
    assert (restore.refusal is not None) == _says_no(pair), restore.refusal
    if pair.limit:
        assert "meaning-unknown" in {change.reason for change in found.changes}
    return found


@pytest.mark.spark
@OF_PANDAS
@pytest.mark.parametrize("pair", [_case(pair) for pair in PAIRS if pair.name in VERDICTS])
def test_the_verdict(recorded: Bench, pair: Pair) -> None:
    with configured(recorded.spark, pair.conf):
        restore, _, _ = recorded.plan(pair)
    _checked(pair, restore)


@pytest.mark.spark
@pytest.mark.timeout(240)
@OF_PANDAS
@pytest.mark.parametrize("pair", [_case(pair, deep=pair.name not in TELLING) for pair in PAIRS])
def test_the_verdict_is_what_spark_does(bench: Bench, pair: Pair) -> None:
    if bench.spark.version < pair.since:
        pytest.skip(f"came with Spark {pair.since}")
    with configured(bench.spark, pair.conf):
        restore, planned, offers = bench.plan(pair)
        truth, result = bench.truth(pair, restore, planned, offers)
    print(pair.name, truth, result[:600], sep="\n  ")
    _checked(pair, restore)
    old = bench.spark.version.startswith("3.") and pair.spark3
    assert truth == (old or pair.spark), result
    if truth == FAILS:
        assert STATE_ERROR.search(result), result


#: Changed in the fast tier: the buffers of an aggregation, on RocksDB, in more partitions.
EXCHANGED = "aggregates added, removed and exchanged"
#: Rewritten too, but these functions do not expect what is new in their state.
OF_THE_USER = (*FUNCTIONS, *PROCESSORS)
PLACES = {
    "as-saved": PlanningSettings(),
    "rescaled": PlanningSettings(3),
}
BACKENDS: dict[str, dict[str, str]] = {
    "hdfs": {"spark.sql.shuffle.partitions": "2"},
    "rocksdb": {"spark.sql.shuffle.partitions": "2", **ROCKSDB},
}


#: The formats of joins that Spark does not take by default.
JOIN_FORMATS: dict[str, dict[str, str]] = {
    f"join-{number}": {**BACKENDS["rocksdb"], PIN_JOIN_FORMAT: number} for number in ("3", "4")
}


#: Exchanged first: its turn has what the fast tier runs.
REWRITTEN = sorted(
    (p for p in PAIRS if p.verdict == "migrate" and not p.plain and p not in OF_THE_USER),
    key=lambda pair: pair.name != EXCHANGED,
)
#: Taken in turn: the pairs of one operator, which stand together, have them all.
COMBINED = (
    *(("rocksdb", "rescaled"), ("hdfs", "as-saved")),
    *(("rocksdb", "as-saved"), ("hdfs", "rescaled")),
)


def _rewritten(pair: Pair, backend: str, place: str) -> Any:
    conf = {**BACKENDS, **JOIN_FORMATS}[backend]
    since = BY_TIME_SINCE if backend in JOIN_FORMATS else pair.since
    fast = pair.name == EXCHANGED and (backend, place) == ("rocksdb", "rescaled")
    name = f"{pair.name.replace(' ', '-')}-{backend}-{place}"
    return pytest.param(
        replace(
            pair,
            conf={**conf, **pair.conf},
            settings=PLACES[place],
            since=since,
        ),
        id=name,
        marks=[] if fast else [pytest.mark.deep],
    )


@pytest.mark.spark
@pytest.mark.timeout(240)
@OF_PANDAS
@pytest.mark.parametrize(
    "pair",
    [
        _rewritten(pair, backend, place)
        for pair, combined in zip(REWRITTEN, cycle(COMBINED), strict=False)
        for backend, place in (
            combined,
            *((joined, "rescaled") for joined in JOIN_FORMATS if pair in JOINS),
        )
    ],
)
def test_what_the_engine_rewrites_is_what_was_promised(bench: Bench, pair: Pair) -> None:
    if bench.spark.version < pair.since:
        pytest.skip(f"came with Spark {pair.since}")
    able = replace(pair, settings=replace(pair.settings, executors=FOR_THE_ENGINE))
    with configured(bench.spark, pair.conf):
        asked, _, _ = bench.plan(able)
        assert isinstance(asked.refusal, ConsentNeeded) == (pair.promised is not None)
        agreed = RestoreOptions(accept_partial=(pair.operator,))
        restore, _, _ = bench.plan(replace(able, options=agreed))
        assert restore.refusal is None, restore.refusal
        result, expected = bench.evolved(pair, restore)
    assert result == expected


#: One pair of each kind of operator.
CANONICAL = (
    EXCHANGED,
    "window key widened",
    "session aggregates reordered and widened",
    "dedup column widened",
    "join columns added, removed and exchanged",
    "outer join by time gained a column",
)


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("name", "written", "restored"),
    [
        *((name, "hdfs", "rocksdb") for name in CANONICAL),
        *((name, "rocksdb", "hdfs") for name in CANONICAL),
        (CANONICAL[-1], "join-4", "join-4"),
    ],
)
def test_canonical_state_evolves(
    spark: Any, tmp_path: Path, name: str, written: str, restored: str
) -> None:
    """It goes to the other backend, and to other partitions, in the same pass."""
    pair = next(each for each in PAIRS if each.name == name)
    if written in JOIN_FORMATS and spark.version < BY_TIME_SINCE:
        pytest.skip(f"came with Spark {BY_TIME_SINCE}")
    backends = {**BACKENDS, **JOIN_FORMATS}
    pair = replace(
        pair,
        conf={**backends[restored], **pair.conf},
        options=RestoreOptions(accept_partial=(pair.operator,)),
        settings=PlanningSettings(3, executors=FOR_THE_ENGINE),
    )
    canonical = CanonicalBench(spark, tmp_path, backends[written])
    with configured(spark, {**recorded_pairs.SETTINGS, **pair.conf}):
        restore, _, _ = canonical.plan(pair)
        assert restore.refusal is None, restore.refusal
        result, expected = canonical.evolved(pair, restore)
    assert result == expected
