"""Operators read from real plans, compared with what Spark does when the query really runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flinkish import uid
from flinkish.driver.plan.plan_extraction import PlannedQuery, extract_plan
from flinkish.driver.plan.plan_nodes import executed_operators
from flinkish.driver.spark.jvm import configured, stream_execution
from flinkish.errors import DuplicateUid, MissingUid
from flinkish.operators.hasher import HasherVersion
from flinkish.operators.uids import uid_to_operator_id
from tests.support.driver.checkpoint_contents import compare, really_run
from tests.support.driver.operator_programs import (
    BACKENDS,
    PROGRAMS,
    ROCKSDB_ONLY,
    Program,
    _read,
    _timed,
)

pytestmark = pytest.mark.spark

Query = tuple[Any, str]


def _and_by_time(spark: Any, directory: str) -> Query:
    from pyspark.sql import functions as F

    events = _timed(spark, directory).transform(uid("events"))
    distinct = events.dropDuplicates(["id", "ts"]).transform(uid("distinct"))
    counts = distinct.groupBy(F.window("ts", "1 minute")).count().transform(uid("counts"))
    return counts.filter("count > 0").transform(uid("some")), "append"


def _using_join(spark: Any, directory: str) -> Query:
    left = _timed(spark, directory).select("id", "ts").transform(uid("left"))
    right = _timed(spark, directory, "b").select("id", "ts", "d").transform(uid("right"))
    return left.join(right, ["id", "ts"]).transform(uid("join")), "append"


def _self_union(spark: Any, directory: str) -> Query:
    distinct = _timed(spark, directory).dropDuplicates(["id", "ts"]).transform(uid("distinct"))
    return distinct.union(distinct).select("id"), "append"


def _self_join(spark: Any, directory: str) -> Query:
    from pyspark.sql import functions as F

    counted = _timed(spark, directory).groupBy(F.window("ts", "1 minute"), "k").count()
    counted = counted.transform(uid("counted"))
    joined = counted.alias("x").join(counted.alias("y"), ["window", "k"]).transform(uid("join"))
    return joined.select("k"), "append"


def _three_sides(spark: Any, directory: str) -> Query:
    def side(stream: str, column: str) -> Any:
        return _timed(spark, directory, stream).select("id", "ts", column)

    first = side("a", "k").join(side("b", "d"), ["id", "ts"]).transform(uid("first"))
    return first.join(side("b", "name"), ["id", "ts"]).transform(uid("second")), "append"


def _sql(spark: Any, directory: str) -> Query:
    _timed(spark, directory).createOrReplaceTempView("planner_input")
    text = """
        with counted as (
            select window, k, count(*) as c from planner_input
            group by window(ts, '1 minute'), k having count(*) > 0
        ) select k, c from counted
    """
    return spark.sql(text).transform(uid("counted")), "append"


def _sql_distinct(spark: Any, directory: str) -> Query:
    _timed(spark, directory).createOrReplaceTempView("planner_input")
    return spark.sql("select distinct k, ts from planner_input").transform(uid("d")), "append"


def _static_join(spark: Any, directory: str) -> Query:
    static = spark.range(12).withColumnRenamed("id", "k")
    joined = _read(spark, directory).join(static, "k").transform(uid("enriched"))
    return joined.groupBy("k").count().transform(uid("counts")), "complete"


def _two_limits(spark: Any, directory: str) -> Query:
    inner = _read(spark, directory).limit(3).transform(uid("inner"))
    return inner.limit(5).transform(uid("outer")), "append"


def _limit_of_result(spark: Any, directory: str) -> Query:
    counts = _read(spark, directory).groupBy("k").count().transform(uid("counts"))
    return counts.orderBy("k").limit(3).transform(uid("first-three")), "complete"


def _explode(spark: Any, directory: str) -> Query:
    from pyspark.sql import functions as F

    tags = _read(spark, directory).select(F.explode("tags").alias("t")).transform(uid("tags"))
    return tags.repartition(2).groupBy("t").count().transform(uid("counts")), "update"


SHAPES: dict[str, tuple[Program, dict[str, str]]] = {
    "chain": (_and_by_time, {"counts": "stateStoreSave", "distinct": "dedupe"}),
    "using join": (_using_join, {"join": "symmetricHashJoin"}),
    "self-union": (_self_union, {"distinct": "dedupe", "distinct#2": "dedupe"}),
    "self-join": (
        _self_join,
        {"join": "symmetricHashJoin", "counted": "stateStoreSave", "counted#2": "stateStoreSave"},
    ),
    "three sides": (_three_sides, {"second": "symmetricHashJoin", "first": "symmetricHashJoin"}),
    "sql": (_sql, {"counted": "stateStoreSave"}),
    "sql distinct": (_sql_distinct, {"d": "stateStoreSave"}),
    "static join": (_static_join, {"counts": "stateStoreSave"}),
    "two limits": (_two_limits, {"inner": "globalLimit"}),
    "limit of a result": (_limit_of_result, {"counts": "stateStoreSave"}),
    "explode": (_explode, {"counts": "stateStoreSave"}),
}


def telling(names: Iterable[str], *fast: str) -> list[Any]:
    """All ``names``; what is not in ``fast`` is deep."""
    return [
        name if name in fast else pytest.param(name, marks=pytest.mark.deep)
        for name in sorted(names)
    ]


@pytest.fixture
def configure(spark: Any) -> Iterator[Callable[[dict[str, str]], None]]:
    """Set session settings for one test."""
    with ExitStack() as stack:
        yield lambda settings: stack.enter_context(configured(spark, settings))


def _program(spark: Any, name: str, configure: Callable[[dict[str, str]], None]) -> Program:
    if name in ROCKSDB_ONLY:
        if spark.version.startswith("3."):
            pytest.skip("this operator is new in Spark 4")
        configure(BACKENDS["rocksdb"])
    return PROGRAMS[name]


def _ids(planned: PlannedQuery) -> list[tuple[str, str]]:
    return [(i.operator_id_v2, i.operator_id_v3) for i in planned.identities.values()]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:distutils:DeprecationWarning")
@pytest.mark.parametrize("name", telling(PROGRAMS, "aggregation", "join_left"))
def test_every_operator_kind_is_planned_as_spark_runs_it(
    spark: Any, input_dir: str, tmp_path: Path, name: str, configure: Any
) -> None:
    program = _program(spark, name, configure)
    df, mode = program(spark, input_dir)
    if name == "stateless":
        planned = extract_plan(df, mode, "q")
        assert planned.operators == ()
        assert planned.coverage().message() == "no stateful operators"
        return
    named = df.transform(uid("top"))
    planned = extract_plan(named, mode, "q")
    again = extract_plan(program(spark, input_dir)[0].transform(uid("top")), mode, "q")
    assert _ids(planned) == _ids(again)
    tops = [n for n in planned.graph if n.uid == "top"]
    assert len(tops) == 1
    assert tops[0].location is not None
    assert "test_plan_extraction.py:" in tops[0].location
    assert [i.operator_id_v3 for i in planned.identities.values() if i.uid == "top"] == [
        uid_to_operator_id("top")
    ]
    compare(planned, really_run(named, mode, tmp_path / "checkpoint"))


@pytest.fixture
def empty_place(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An input without a single file (reading it would be seen in the result of no query), beside
    which temporary files come. Nothing that is planned runs, or leaves anything behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = spark.sparkContext.statusTracker().getJobIdsForGroup(None)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    yield str(tmp_path)
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(None) == before
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert spark.streams.active == []


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_shapes_of_plans(spark: Any, empty_place: str, shape: str) -> None:
    program, expected = SHAPES[shape]
    planned = extract_plan(*program(spark, empty_place), None)
    assert {op.uid: op.node.kind for op in planned.operators} == expected
    for operator in planned.operators:
        assert operator.operator_id == uid_to_operator_id(str(operator.uid))
        assert planned.graph.by_key[operator.key].stateful
        assert operator.name == operator.uid
    assert planned.coverage().complete


@pytest.mark.parametrize("shape", telling(SHAPES, "chain"))
def test_shapes_are_planned_as_spark_runs_them(
    spark: Any, input_dir: str, tmp_path: Path, shape: str
) -> None:
    program = SHAPES[shape][0]
    df, mode = program(spark, input_dir)
    planned = extract_plan(df, mode, None)
    assert _ids(planned) == _ids(extract_plan(program(spark, input_dir)[0], mode, None))
    compare(planned, really_run(df, mode, tmp_path / "checkpoint"))


def test_uids_on_inputs_of_joins_have_their_ordinals(spark: Any, input_dir: str) -> None:
    planned = extract_plan(*_three_sides(spark, input_dir), None)
    assert [(op.node.ordinal, op.uid) for op in planned.operators] == [(0, "second"), (1, "first")]


def test_a_graph_has_what_the_program_says_and_no_more(spark: Any, input_dir: str) -> None:
    planned = extract_plan(*_and_by_time(spark, input_dir), "out", sink="noop sink")
    shape = [(n.uid, n.kind, n.in_edges, n.stateful) for n in planned.graph]
    assert shape == [
        (None, "file source", (), False),
        ("events", "watermark", (1,), False),
        ("distinct", "dedupe", (2,), True),
        ("counts", "stateStoreSave", (3,), True),
        ("some", "filter", (4,), False),
        ("out", "noop sink", (5,), False),
    ]
    chained = [edge.chainable for node in planned.graph for edge in node.out_edges]
    assert chained == [True, False, False, True, True]


def test_operators_without_uid_have_readable_names(spark: Any, input_dir: str) -> None:
    frame = _timed(spark, input_dir).dropDuplicates(["id", "ts"])
    planned = extract_plan(frame.groupBy("id", "ts").count(), "append", None)
    assert [op.name for op in planned.operators] == ["aggregate by id, ts", "dropDuplicates id, ts"]


@pytest.mark.deep
def test_a_table_expression_used_twice_keeps_state_twice(
    spark: Any, input_dir: str, tmp_path: Path
) -> None:
    _timed(spark, input_dir).createOrReplaceTempView("planner_input")
    text = "with c as (select distinct id, ts from planner_input) select * from c union all "
    df = spark.sql(f"{text} select * from c")
    planned = extract_plan(df, "append", None)
    assert [op.node.kind for op in planned.operators] == ["stateStoreSave", "stateStoreSave"]
    assert len({op.operator_id for op in planned.operators}) == 2
    compare(planned, really_run(df, "append", tmp_path / "checkpoint"))


@pytest.mark.deep
@pytest.mark.parametrize("sink", ["noop", "foreachBatch"])
@pytest.mark.parametrize("shape", ["three sides", "self-join", "chain"])
def test_a_running_query_has_the_planned_operators(
    spark: Any, input_dir: str, tmp_path: Path, shape: str, sink: str
) -> None:
    df, mode = SHAPES[shape][0](spark, input_dir)
    planned = extract_plan(df, mode, None)
    writer = df.writeStream.outputMode(mode).trigger(processingTime="100 milliseconds")
    if sink == "foreachBatch":

        def collect(batch: Any, _: int) -> None:
            batch.collect()

        writer = writer.foreachBatch(collect)
    else:
        writer = writer.format(sink)
    query = writer.option("checkpointLocation", f"file://{tmp_path}").start()
    try:
        query.processAllAvailable()
        assert query.isActive
        execution = stream_execution(query._jsq).lastExecution()
        expected = tuple((op.node.ordinal, op.node.kind) for op in planned.operators)
        assert executed_operators(df, execution) == expected
        assert executed_operators(spark, execution) == expected
    finally:
        query.stop()


def test_a_static_side_is_left_out(spark: Any, input_dir: str) -> None:
    planned = extract_plan(*_static_join(spark, input_dir), None)
    assert [n.kind for n in planned.graph] == [
        "file source",
        "join with static data",
        "stateStoreSave",
        "sink",
    ]


def test_repartition_breaks_the_chain_and_changes_v2_only(spark: Any, input_dir: str) -> None:
    plain = _read(spark, input_dir).select("k").dropDuplicates(["k"])
    spread = _read(spark, input_dir).repartition(3).select("k").dropDuplicates(["k"])
    first, second = (extract_plan(df, "append", None) for df in (plain, spread))
    assert first.operators[0].operator_id_v3 == second.operators[0].operator_id_v3
    assert first.operators[0].operator_id_v2 != second.operators[0].operator_id_v2
    chained = {n.kind: [e.chainable for e in n.out_edges] for n in second.graph}
    assert chained["file source"] == [False]


def test_the_optimizer_has_no_say_in_ids(spark: Any, input_dir: str, configure: Any) -> None:
    before = extract_plan(*_using_join(spark, input_dir), None)
    configure({"spark.sql.optimizer.excludedRules": "", "spark.sql.adaptive.enabled": "true"})
    configure({"spark.sql.shuffle.partitions": "5"})
    after = extract_plan(*_using_join(spark, input_dir), None)
    assert _ids(before) == _ids(after)
    assert [op.node.partitions for op in after.operators] == [5]


def test_the_hasher_decides_which_id_counts(spark: Any, input_dir: str) -> None:
    df, mode = PROGRAMS["dedup"](spark, input_dir)
    v2 = extract_plan(df, mode, None, hasher=HasherVersion.V2).operators[0]
    v3 = extract_plan(df, mode, None).operators[0]
    assert (v2.operator_id, v3.operator_id) == (v3.operator_id_v2, v2.operator_id_v3)
    assert v2.operator_id != v3.operator_id


def test_one_uid_for_two_operators_is_refused_naming_both(spark: Any, input_dir: str) -> None:
    df = _timed(spark, input_dir).dropDuplicates(["id", "ts"]).transform(uid("same"))
    df = df.groupBy("id", "ts").count().transform(uid("same"))
    with pytest.raises(
        DuplicateUid, match=r"(?s)same.*test_plan_extraction.py:\d+.*test_plan_extraction.py:\d+"
    ):
        extract_plan(df, "append", None)


def test_all_operators_without_uid_are_listed_stateful_first(spark: Any, input_dir: str) -> None:
    df, mode = _and_by_time(spark, input_dir)
    with pytest.raises(MissingUid) as caught:
        extract_plan(df, mode, None, require_uids=True, location="app.py:7")
    assert [o["kind"] for o in caught.value.data["operators"]] == ["file source", "sink"]
    other = _timed(spark, input_dir).dropDuplicates(["id", "ts"])
    with pytest.raises(MissingUid) as caught:
        extract_plan(other, "append", "named", require_uids=True)
    kinds = [o["kind"] for o in caught.value.data["operators"]]
    assert kinds == ["dedupe", "file source", "watermark"]


def test_the_sink_gives_way_to_an_operator_of_its_name(spark: Any, input_dir: str) -> None:
    df = _read(spark, input_dir).groupBy("k").count().transform(uid("counts"))
    planned = extract_plan(df, "update", "counts")
    assert [n.uid for n in planned.graph] == [None, "counts", "counts#sink"]


def test_what_spark_does_not_support_is_its_error(spark: Any, input_dir: str) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="watermark"):
        extract_plan(_read(spark, input_dir).groupBy("k").count(), "append", None)


def test_without_sparks_marks_every_node_is_a_step(
    spark: Any, input_dir: str, configure: Any
) -> None:
    configure({"spark.sql.analyzer.failAmbiguousSelfJoin": "false"})
    planned = extract_plan(*_using_join(spark, input_dir), None)
    assert [(op.node.kind, op.uid) for op in planned.operators] == [("symmetricHashJoin", "join")]


def test_a_join_in_one_store_with_column_families(
    spark: Any, input_dir: str, tmp_path: Path, configure: Any
) -> None:
    if spark.version.startswith("3."):
        pytest.skip("join state format 3 is new in Spark 4")
    configure({**BACKENDS["rocksdb"], "spark.sql.streaming.join.stateFormatVersion": "3"})
    df, mode = _using_join(spark, input_dir)
    planned = extract_plan(df, mode, None)
    assert "left-keyToNumValues" in {s.name for s in planned.operators[0].node.stores}
    compare(planned, really_run(df, mode, tmp_path / "checkpoint"))


def test_a_spark_source_name_counts_as_uid(spark: Any, input_dir: str, configure: Any) -> None:
    if tuple(map(int, spark.version.split(".")[:2])) < (4, 2):
        pytest.skip("readStream.name is new in Spark 4.2")
    configure({"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"})
    reader = spark.readStream.format("rate").name("ticks")
    planned = extract_plan(reader.load().groupBy("value").count(), "update", None)
    assert next(iter(planned.graph)).uid == "ticks"
    named = extract_plan(reader.load().transform(uid("mine")), "append", None)
    assert next(iter(named.graph)).uid == "mine"
