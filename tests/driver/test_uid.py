"""``flinkish.uid`` and ``uid_hash`` on real DataFrames, and where there is nothing to name."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest

import flinkish
from flinkish import uid, uid_hash
from flinkish.driver.plan.plan_extraction import PlannedQuery, extract_plan
from flinkish.errors import DuplicateUid, InvalidUid, UsageError
from flinkish.operators import tagging
from flinkish.operators.hasher import HasherVersion
from flinkish.operators.tagging import Tag, merge
from tests.support.driver.operator_programs import _read, _timed

HASH = "0123456789abcdef0123456789abcdef"


def _tags(df: Any) -> list[tuple[str | None, str | None]]:
    planned = extract_plan(df, "append", None)
    return [(n.uid, n.uid_hash) for n in planned.graph]


@pytest.mark.parametrize("wrong", ["", None, 7])
def test_what_is_no_uid_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(InvalidUid):
        uid(wrong)


@pytest.mark.parametrize("wrong", ["", "abc", HASH + "0", "x" * 32, None])
def test_what_is_no_uid_hash_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(InvalidUid):
        uid_hash(wrong)


def test_only_dataframes_can_be_named() -> None:
    with pytest.raises(UsageError, match="not str"):
        uid("x")("a text")


def test_merging_keeps_the_first_call() -> None:
    first, second = Tag("1", uid="a", location="x:1"), Tag("2", uid_hash=HASH, location="x:2")
    assert merge(first, second) == Tag("1", "a", HASH, "x:1")
    with pytest.raises(InvalidUid, match=r"already has the uid 'a' \(x:1\).*'b'"):
        merge(first, Tag("3", uid="b"))


class Plan:
    """A plan of Connect's client: what ``pyspark.sql.connect.plan.LogicalPlan`` is known by."""

    def __init__(self, number: int, child: Plan | None = None) -> None:
        self._root_plan_id, self._child = number, child


def connect_frame(plan: Plan) -> Any:
    kind = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "_plan": plan})
    return kind()


def test_a_server_elsewhere_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagging, "_warned", False)
    monkeypatch.setattr(tagging, "_of_client", {})
    monkeypatch.delenv("SPARK_LOCAL_REMOTE", raising=False)
    remote = connect_frame(Plan(1))
    with pytest.warns(UserWarning, match="Spark Connect"):
        assert uid("a")(remote) is remote
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert uid_hash(HASH)(remote) is remote


def test_a_plan_of_a_server_here_is_known_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagging, "_of_client", {})
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    alias = type("SubqueryAlias", (Plan,), {})(8, Plan(7))
    uid("a")(connect_frame(alias))
    uid_hash(HASH)(connect_frame(Plan(7)))
    assert {n: (t.uid, t.uid_hash) for n, t in tagging._of_client.items()} == {7: ("a", HASH)}
    with pytest.raises(InvalidUid, match="cannot have 'b' too"):
        uid("b")(connect_frame(alias))


def test_importing_flinkish_imports_nothing_else() -> None:
    script = (
        "import sys; before = set(sys.modules); import flinkish; "
        "print(sorted(set(sys.modules) - before)); flinkish.uid; "
        "print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["['flinkish']", "False"], done.stderr


def test_what_flinkish_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'uuid'"):
        flinkish.uuid  # type: ignore[attr-defined]  # noqa: B018 - the access is the test


@pytest.mark.spark
class TestOnSpark:
    def test_the_dataframe_is_the_same_and_its_columns_are(
        self, spark: Any, input_dir: str
    ) -> None:
        df = _read(spark, input_dir)
        named = df.transform(uid("source"))
        assert named is df
        assert named.select("id", df.k).columns == ["id", "k"]
        assert _tags(named) == [("source", None), (None, None)]

    def test_a_batch_dataframe_is_not_harmed(self, spark: Any) -> None:
        df = spark.range(4).transform(uid("numbers"))
        assert df.groupBy().sum().transform(uid("sum")).collect()[0][0] == 6

    def test_every_step_has_its_own_name(self, spark: Any, input_dir: str) -> None:
        df = _read(spark, input_dir).transform(uid("source"))
        df = df.select("id", "ts").transform(uid("narrow"))
        df = df.withWatermark("ts", "1 minute").transform(uid("time"))
        df = df.dropDuplicates(["id", "ts"]).transform(uid("dedup"))
        df = df.filter("id > 3").transform(uid("some"))
        assert [name for name, _ in _tags(df)] == [
            *("source", "narrow", "time", "dedup", "some"),
            None,
        ]

    def test_an_alias_names_what_is_below_it(self, spark: Any, input_dir: str) -> None:
        df = _timed(spark, input_dir).dropDuplicates(["id", "ts"]).alias("x")
        assert ("dedup", None) in _tags(df.transform(uid("dedup")).select("x.id"))
        with pytest.raises(InvalidUid, match="already has the uid 'dedup'"):
            df.alias("y").transform(uid("other"))

    def test_a_second_name_is_refused_the_same_is_not(self, spark: Any, input_dir: str) -> None:
        df = _read(spark, input_dir).transform(uid("a"))
        assert df.transform(uid("a")) is df
        with pytest.raises(InvalidUid, match=r"already has the uid 'a' \(.*test_uid.py:\d+\).*'b'"):
            df.transform(uid("b"))

    def test_uid_and_hash_together(self, spark: Any, input_dir: str) -> None:
        df = _timed(spark, input_dir).dropDuplicates(["id", "ts"])
        df = df.transform(uid_hash(HASH.upper())).transform(uid("dedup"))
        planned = extract_plan(df, "append", None)
        (operator,) = planned.operators
        identity = planned.identities[operator.key]
        assert identity.lookup_ids(HasherVersion.V3) == (HASH, operator.operator_id)
        assert operator.uid == "dedup"

    def test_a_hash_counts_once_where_its_dataframe_is_used_twice(
        self, spark: Any, input_dir: str
    ) -> None:
        df = _timed(spark, input_dir).dropDuplicates(["id", "ts"]).transform(uid_hash(HASH))
        hashes = [given for _, given in _tags(df.union(df)) if given]
        assert hashes == [HASH]

    def test_one_hash_for_two_operators_is_refused(self, spark: Any, input_dir: str) -> None:
        df = _timed(spark, input_dir).dropDuplicates(["id", "ts"]).transform(uid_hash(HASH))
        df = df.groupBy("id", "ts").count().transform(uid_hash(HASH))
        with pytest.raises(DuplicateUid, match=HASH):
            extract_plan(df, "append", None)

    def test_the_second_use_of_a_dataframe_is_told(self, spark: Any, input_dir: str) -> None:
        df = _timed(spark, input_dir).dropDuplicates(["id", "ts"]).transform(uid("d"))
        planned = extract_plan(df.union(df), "append", None)
        assert [op.uid for op in planned.operators] == ["d", "d#2"]
        (note,) = planned.notes
        assert "'d' is used more than once" in note
        assert "'d#2'" in note

    def test_names_travel_through_views(self, spark: Any, input_dir: str) -> None:
        df = _timed(spark, input_dir).dropDuplicates(["id", "ts"]).transform(uid("d"))
        df.createOrReplaceTempView("uid_view")
        query = spark.table("uid_view").select("id")
        assert ("d", None) in _tags(query)

    def test_a_module_of_the_program_is_named_by_its_path(self, spark: Any, input_dir: str) -> None:
        df = _read(spark, input_dir).transform(uid("here"))
        node = next(n for n in extract_plan(df, "append", None).graph if n.uid == "here")
        assert str(node.location).rpartition(":")[0].endswith("test_uid.py")

    def test_ids_do_not_depend_on_columns_of_stateless_steps(
        self, spark: Any, input_dir: str
    ) -> None:
        from pyspark.sql import functions as F

        def planned(key: str, time: str) -> PlannedQuery:
            df = _read(spark, input_dir).select(F.col("k").alias(key), F.col("ts").alias(time))
            df = (
                df.withColumn(key, F.col(key) + 1)
                .filter(f"{key} > 2")
                .withWatermark(time, "1 minute")
            )
            df = df.dropDuplicates([key, time]).groupBy(F.window(time, "1 minute"), key).count()
            return extract_plan(df, "append", None)

        first, second = planned("carrier", "at"), planned("airline", "departed")
        for one, other in zip(first.operators, second.operators, strict=True):
            assert one.node.stores != other.node.stores, "the names are in the state's schema"
        assert [
            (i.operator_id_v2, i.operator_id_v3, i.generated_v3) for i in first.identities.values()
        ] == [
            (i.operator_id_v2, i.operator_id_v3, i.generated_v3) for i in second.identities.values()
        ]
        assert len(first.operators) == 2
