"""The sources of planned queries, compared with the checkpoints of the same queries."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flinkish import uid
from flinkish.checkpoint.format.logs import parse_offsets
from flinkish.driver.plan.plan_extraction import PlannedQuery, extract_plan
from flinkish.errors import Incompatible
from flinkish.operators.uids import uid_to_operator_id
from tests.support.driver.operator_programs import SCHEMA, _read, _timed, write_input

pytestmark = pytest.mark.spark

#: Files in the two input directories: a source's last offset tells which of them it reads.
FILES = {"a": 2, "b": 1}


@dataclass(frozen=True)
class Shape:
    """A query and its sources: (what it reads, its directory, the ordinals it feeds)."""

    program: Callable[[Any, str], Any]
    sources: tuple[tuple[str, str, tuple[int, ...]], ...]


def _sql(text: str) -> Callable[[Any, str], Any]:
    def program(spark: Any, directory: str) -> Any:
        _timed(spark, directory).createOrReplaceTempView("sources_a")
        _timed(spark, directory, "b").createOrReplaceTempView("sources_b")
        return spark.sql(text)

    return program


def _joined(spark: Any, directory: str, left: str, right: str) -> Any:
    sides = [_timed(spark, directory, stream).select("id", "ts") for stream in (left, right)]
    return sides[0].join(sides[1], ["id", "ts"])


def _self_join(spark: Any, directory: str) -> Any:
    frame = _timed(spark, directory).select("id", "ts")
    return frame.join(frame, ["id", "ts"])


def _self_union(spark: Any, directory: str) -> Any:
    frame = _read(spark, directory)
    return frame.union(frame)


def _deduplicated_self_union(spark: Any, directory: str) -> Any:
    frame = _read(spark, directory).select("id", "k")
    return frame.dropDuplicates(["k"]).union(frame).dropDuplicates(["id"])


def _three(spark: Any, directory: str) -> Any:
    twice, once = (_read(spark, directory, stream).select("id") for stream in ("a", "b"))
    return twice.union(once.dropDuplicates(["id"])).union(twice)


def _metadata(spark: Any, directory: str) -> Any:
    frame = _read(spark, directory)
    return frame.select("id").union(frame.selectExpr("_metadata.file_size"))


def _ticks(spark: Any) -> Any:
    rate = spark.readStream.format("rate").option("rowsPerSecond", "7")
    return rate.option("useManualClock", "false").load().select("value")


def _rate_first(spark: Any, directory: str) -> Any:
    return _ticks(spark).union(_read(spark, directory).select("id"))


def _rate_last(spark: Any, directory: str) -> Any:
    ticks = _ticks(spark)
    return ticks.union(_read(spark, directory, "b").select("id")).union(ticks)


A, B, RATE = "a", "b", "rate"
SHAPES: dict[str, Shape] = {
    "one": Shape(lambda s, d: _read(s, d), ((A, "0", ()),)),
    "two joined": Shape(lambda s, d: _joined(s, d, "b", "a"), ((B, "0", (0,)), (A, "1", (0,)))),
    "self-union": Shape(_self_union, ((A, "0", ()), (A, "0", ()))),
    "union of branches": Shape(_deduplicated_self_union, ((A, "0", (0, 1)), (A, "0", (0,)))),
    "self-join": Shape(_self_join, ((A, "0", (0,)), (A, "1", (0,)))),
    "three": Shape(_three, ((A, "0", ()), (B, "1", (0,)), (A, "0", ()))),
    "file metadata": Shape(_metadata, ((A, "0", ()), (A, "1", ()))),
    "rate first": Shape(_rate_first, ((RATE, "0", ()), (A, "1", ()))),
    "rate last": Shape(_rate_last, ((RATE, "0", ()), (B, "1", ()), (RATE, "0", ()))),
    "expression used twice": Shape(
        _sql(
            "with c as (select distinct id, ts from sources_a) select id from sources_b "
            "union all select id from c union all select id from c"
        ),
        ((A, "0", (0, 1)), (B, "1", ())),
    ),
    "expression not used": Shape(
        _sql(
            "with u as (select k from sources_b), c as (select id from sources_a) "
            "select id from c union all select id from sources_b"
        ),
        ((B, "0", ()), (A, "1", ()), (B, "0", ())),
    ),
}


@pytest.fixture(scope="module")
def two_inputs(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("sources")
    write_input(str(directory), last=max(FILES.values()))
    for stream, files in FILES.items():
        for name in sorted(os.listdir(directory / stream))[files:]:
            os.remove(directory / stream / name)
    return str(directory)


def _signatures(directory: str) -> dict[str, str]:
    found = {stream: f"file[{directory}/{stream}/*.json]" for stream in FILES}
    return {**found, RATE: "rate[rowsPerSecond=7]"}


#: Run for real each time; the others are only planned, and run in the deep tier.
FAST = {"three", "rate first", "expression used twice"}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_sources_are_numbered(spark: Any, two_inputs: str, name: str) -> None:
    shape = SHAPES[name]
    df = shape.program(spark, two_inputs)
    planned = extract_plan(df, "append", None)
    signatures = _signatures(two_inputs)
    assert [(s.signature, s.directory, s.feeds) for s in planned.sources] == [
        (signatures[what], directory, feeds) for what, directory, feeds in shape.sources
    ]
    assert [s.entry for s in planned.sources] == list(range(len(shape.sources)))
    for source in planned.sources:
        node = planned.graph.by_key[source.key]
        identity = planned.identities[source.key]
        assert node.kind == f"{source.signature.partition('[')[0]} source"
        assert not node.in_edges
        assert (source.operator_id_v2, source.operator_id_v3) == (
            identity.operator_id_v2,
            identity.operator_id_v3,
        )


@pytest.mark.parametrize(
    "name",
    [n if n in FAST else pytest.param(n, marks=pytest.mark.deep) for n in sorted(SHAPES)],
)
def test_spark_numbers_them_so(spark: Any, two_inputs: str, tmp_path: Path, name: str) -> None:
    df = SHAPES[name].program(spark, two_inputs)
    planned = extract_plan(df, "append", None)
    _check_checkpoint(planned, df, tmp_path / "checkpoint", two_inputs)


def _check_checkpoint(planned: PlannedQuery, df: Any, checkpoint: Path, inputs: str) -> None:
    """Run the query over all its input; what its logs then say of every source."""
    rate = any(source.signature.startswith(RATE) for source in planned.sources)
    writer = df.writeStream.format("noop")
    writer = writer.trigger(once=True) if rate else writer.trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"file://{checkpoint}").start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    entry = parse_offsets(newest.read_bytes(), newest.name)
    assert len(entry.offsets) == len(planned.sources)
    assert sorted(os.listdir(checkpoint / "sources")) == sorted(
        {source.directory for source in planned.sources}
    )
    by_signature = {text: what for what, text in _signatures(inputs).items()}
    for source, offset in zip(planned.sources, entry.offsets, strict=True):
        what = by_signature[source.signature]
        log = (checkpoint / "sources" / source.directory / "0").read_text()
        if what == RATE:
            assert isinstance(json.loads(offset), int)
            assert '"path"' not in log
        else:
            assert json.loads(offset) == {"logOffset": 0 if rate else FILES[what] - 1}
            assert f"{inputs}/{what}/f000.json" in log


def test_a_source_is_known_by_its_uid(spark: Any, two_inputs: str) -> None:
    frame = _read(spark, two_inputs).transform(uid("events"))
    planned = extract_plan(frame.union(frame), "append", None)
    assert [s.uid for s in planned.sources] == ["events", "events#2"]
    assert planned.sources[0].operator_id_v3 == uid_to_operator_id("events")
    assert planned.sources[0].operator_id_v2 == uid_to_operator_id("events")


def test_names_that_spark_knows_are_its_directories(
    spark: Any, two_inputs: str, tmp_path: Path
) -> None:
    if tuple(map(int, spark.version.split(".")[:2])) < (4, 2):
        pytest.skip("readStream.name is new in Spark 4.2")
    key = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    spark.conf.set(key, "true")
    try:
        frames = [
            spark.readStream.schema(SCHEMA).name(name).json(f"{two_inputs}/{stream}/*.json")
            for name, stream in (("second", "b"), ("first", "a"))
        ]
        df = frames[0].union(frames[1])
        planned = extract_plan(df, "append", None)
        query = (
            df.writeStream.format("noop")
            .option("checkpointLocation", f"file://{tmp_path}")
            .trigger(once=True)
            .start()
        )
        assert query.awaitTermination(120)
    finally:
        spark.conf.unset(key)
    assert [(s.directory, s.uid) for s in planned.sources] == [
        ("second", "second"),
        ("first", "first"),
    ]
    assert sorted(os.listdir(tmp_path / "sources")) == ["first", "second"]
    entry = parse_offsets((tmp_path / "offsets/0").read_bytes(), "offsets/0")
    assert set(entry.sources) == {"first", "second"}
    assert "/b/f000.json" in (tmp_path / "sources/second/0").read_text()


def test_a_source_that_no_operator_reads_is_refused(spark: Any, two_inputs: str) -> None:
    df = _sql("with u as (select * from sources_b) select id from sources_a")(spark, two_inputs)
    with pytest.raises(Incompatible, match=r"file\[.*/b/\*\.json\]"):
        extract_plan(df, "append", None)


def test_directories_named_like_a_name_are_none(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "name=x").mkdir()
    df = spark.readStream.schema(SCHEMA).json(f"{tmp_path}/name=x/")
    (source,) = extract_plan(df, "append", None).sources
    assert (source.uid, source.signature) == (None, f"file[{tmp_path}/name=x]")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_secrets_of_a_source_are_not_looked_at(spark: Any) -> None:
    reader = spark.readStream.format("socket").option("host", "localhost").option("port", "1")
    df = reader.option("password", "hunter2").option("includeTimestamp", "true").load()
    (source,) = extract_plan(df, "append", None).sources
    assert source.signature == "socket[host=localhost, port=1]"
