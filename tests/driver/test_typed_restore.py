"""Typed state over restores: every kind of change, against the same computation in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.spark.jvm import configured
from flinkish.messages.launch import RestoreSpec
from flinkish.registry.jobs import JobState, RequestKind
from flinkish.savepoint.format.reader import open_savepoint
from flinkish.savepoint.state.state_rows import open_state, show_rows
from flinkish.state import apply_in_pandas_with_state, transform_with_state
from tests.support.driver import typed_programs
from tests.support.driver.canonical_state import canonical_of
from tests.support.driver.changed_checkpoint import is_old
from tests.support.driver.in_process_job import InProcessJob
from tests.support.driver.operator_programs import BACKENDS
from tests.support.driver.typed_programs import CHANGES, MODULE, OUTPUT, Change

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:distutils:DeprecationWarning"),
]

NewJob = Callable[..., InProcessJob]
#: Rows as key and value. Key 3 is only in the old program's, key 4 only in the new one's.
BEFORE = [(v % 4, v) for v in range(20)]
AFTER = [(0, 21), (1, 22), (2, 23), (4, 24), (0, 25)]
#: The newest text of each key.
Shown = dict[int, str]
#: What each test runs: the kind of function, the backend, when values are written again.
WAYS = [
    (kind, backend, migration)
    for kind in ("group", "processor")
    for backend in ("hdfs", "rocksdb", "rocksdb-changelog")
    for migration in ("eager", "lazy")
    if kind == "group" or backend != "hdfs"  # Spark keeps state variables in RocksDB only
]
#: The case of `make test`: what the job that goes on with values of both serializers is not.
FAST = {("a field's type changed", "processor", "rocksdb", "eager")}


@pytest.fixture(autouse=True)
def no_version_is_left() -> Iterator[None]:
    yield
    typed_programs.unload()


def write(spark: Any, rows: list[tuple[int, int]], directory: Path) -> None:
    spark.createDataFrame(rows, "k long, v long").coalesce(1).write.parquet(str(directory))


def program(
    spark: Any,
    source: str,
    change: Change,
    kind: str,
    tmp_path: Path,
    newest: Shown,
    *,
    location: str | None = None,
    once: bool = False,
) -> Callable[[], None]:
    """The program of a version, which goes on for ever, or reads what is there once."""
    version = typed_programs.load(source)

    def run() -> None:
        rows = spark.readStream.schema("k long, v long").parquet(str(tmp_path / "in" / "*"))
        states = [typed_programs.descriptor(version, change)]
        grouped = rows.groupBy("k")
        if kind == "group":
            function = typed_programs.per_group(version, change)
            result = apply_in_pandas_with_state(grouped, function, OUTPUT, states, "update")
        else:
            each = typed_programs.processor(version, change)
            result = transform_with_state(grouped, each, OUTPUT, states, "update")

        def take(frame: Any, _: int) -> None:
            newest.update({row.k: row.shown for row in frame.collect()})

        writer = result.writeStream.queryName("q").outputMode("update").foreachBatch(take)
        if location is not None:
            writer = writer.option("checkpointLocation", location)
        if once:
            writer = writer.trigger(availableNow=True)
        writer.start().awaitTermination()

    return run


def run_until_read(job: InProcessJob, newest: Shown, keys: set[int]) -> None:
    job.wait_until(lambda: set(newest) == keys)


def settings(backend: str) -> dict[str, str]:
    return {"spark.sql.shuffle.partitions": "2", **BACKENDS[backend]}


def options(migration: str) -> dict[str, str]:
    return {"state.migration": migration, "engine.snapshot-modules": MODULE}


def saved(spark: Any, new_job: NewJob, change: Change, kind: str, tmp_path: Path) -> str:
    """The savepoint of the old program, stopped when it had read its input."""
    write(spark, BEFORE, tmp_path / "in" / "0")
    newest: Shown = {}
    job = new_job().start(program(spark, change.old, change, kind, tmp_path, newest))
    run_until_read(job, newest, {0, 1, 2, 3})
    path = job.request(RequestKind.STOP, str(tmp_path / "sp"))["savepoint"]["path"]
    assert job.wait().state is JobState.FINISHED
    return str(path)


def cases() -> Iterator[Any]:
    for change in CHANGES:
        for way in WAYS:
            fast = (change.name, *way) in FAST
            marks = () if fast else (pytest.mark.deep,)
            yield pytest.param(change, *way, id="-".join((change.name, *way)), marks=marks)


@pytest.mark.parametrize(("change", "kind", "backend", "migration"), list(cases()))
def test_a_restore(
    spark: Any,
    new_job: NewJob,
    tmp_path: Path,
    change: Change,
    kind: str,
    backend: str,
    migration: str,
) -> None:
    if kind == "processor" and is_old(spark):
        pytest.skip("transformWithState came with Spark 4")
    with configured(spark, settings(backend)):
        path = saved(spark, new_job, change, kind, tmp_path)
        write(spark, AFTER, tmp_path / "in" / "1")
        untouched = contents(path)
        newest: Shown = {}
        job = new_job(restore=RestoreSpec(path=path), options=options(migration))
        job.start(program(spark, change.new, change, kind, tmp_path, newest))
        if change.refused:
            final = job.wait()
            assert final.state is JobState.FAILED
            assert final.failure is not None
            assert final.failure["code"] == 4
            assert "stats" in final.failure["message"]
            assert change.refused in final.failure["message"]
            assert not newest
            assert contents(path) == untouched
            return
        run_until_read(job, newest, {0, 1, 2, 4})
        state = job.request(RequestKind.STOP, str(tmp_path / "sp"))["savepoint"]["path"]
        assert job.wait().state is JobState.FINISHED
    assert newest == typed_programs.expected(change, BEFORE, AFTER)
    generations = snapshots(state)
    lazy = change.migrates and migration == "lazy"
    assert len(generations) == (2 if lazy else 1)
    if lazy:
        return
    (before,) = snapshots(path)
    assert (generations[0] != before) is (change.old != change.new)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "backend", "restored", "migration"),
    [
        ("group", "hdfs", "rocksdb", "eager"),
        ("group", "rocksdb", "hdfs", "lazy"),
        ("processor", "rocksdb", "rocksdb", "eager"),
    ],
)
def test_a_restore_of_canonical_state(
    spark: Any,
    new_job: NewJob,
    tmp_path: Path,
    kind: str,
    backend: str,
    restored: str,
    migration: str,
) -> None:
    """Typed state has no backend there, and goes on with the new serializer."""
    if kind == "processor" and is_old(spark):
        pytest.skip("transformWithState came with Spark 4")
    (change,) = (each for each in CHANGES if each.name == "a field more")
    newest: Shown = {}
    with configured(spark, settings(backend)):
        path = canonical_of(spark, saved(spark, new_job, change, kind, tmp_path), tmp_path)
    with configured(spark, settings(restored)):
        write(spark, AFTER, tmp_path / "in" / "1")
        job = new_job(restore=RestoreSpec(path=path), options=options(migration))
        job.start(program(spark, change.new, change, kind, tmp_path, newest))
        run_until_read(job, newest, {0, 1, 2, 4})
        state = job.request(RequestKind.STOP, str(tmp_path / "sp"))["savepoint"]["path"]
    assert newest == typed_programs.expected(change, BEFORE, AFTER)
    assert len(snapshots(state)) == (2 if migration == "lazy" else 1)


@pytest.mark.parametrize(
    ("kind", "backend"),
    [("group", "hdfs"), pytest.param("processor", "rocksdb", marks=pytest.mark.deep)],
)
def test_a_job_goes_on_in_place_with_values_of_both_serializers(
    spark: Any, new_job: NewJob, tmp_path: Path, kind: str, backend: str
) -> None:
    """After a lazy restore, a second driver of the job reads what both programs have written."""
    if kind == "processor" and is_old(spark):
        pytest.skip("transformWithState came with Spark 4")
    (change,) = (each for each in CHANGES if each.name == "a field more")
    later = [(3, 30), (2, 31), (0, 32)]
    newest: Shown = {}
    with configured(spark, settings(backend)):
        path = saved(spark, new_job, change, kind, tmp_path)
        write(spark, AFTER, tmp_path / "in" / "1")
        run = program(spark, change.new, change, kind, tmp_path, newest)
        job = new_job(restore=RestoreSpec(path=path), options=options("lazy")).start(run)
        run_until_read(job, newest, {0, 1, 2, 4})
        job.request(RequestKind.CANCEL)
        ended = job.wait()
        write(spark, later, tmp_path / "in" / "2")
        run = program(spark, change.new, change, kind, tmp_path, newest)
        again = new_job(again=ended).start(run)
        run_until_read(again, newest, {0, 1, 2, 3, 4})
        state = again.request(RequestKind.STOP, str(tmp_path / "sp"))["savepoint"]["path"]
    assert newest == typed_programs.expected(change, BEFORE, [*AFTER, *later])
    assert len(snapshots(state)) == 2


@pytest.mark.deep
def test_a_program_starts_its_restored_query_again(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    """In the restored checkpoint, with values of both serializers; the program named another."""
    (change,) = (each for each in CHANGES if each.name == "a field more")
    later = [(3, 30), (2, 31), (0, 32)]
    newest: Shown = {}
    with configured(spark, settings("hdfs")):
        path = saved(spark, new_job, change, "group", tmp_path)
        write(spark, AFTER, tmp_path / "in" / "1")
        run = program(
            *(spark, change.new, change, "group", tmp_path, newest),
            location=str(tmp_path / "own"),
            once=True,
        )

        def twice() -> None:
            run()
            write(spark, later, tmp_path / "in" / "2")
            run()

        job = new_job(restore=RestoreSpec(path=path), options=options("lazy")).start(twice)
        assert job.wait().state is JobState.FINISHED
    assert newest == typed_programs.expected(change, BEFORE, [*AFTER, *later])


def test_state_is_shown_without_the_program(spark: Any, new_job: NewJob, tmp_path: Path) -> None:
    (change,) = (each for each in CHANGES if each.name == "a field more")
    with configured(spark, settings("hdfs")):
        path = saved(spark, new_job, change, "group", tmp_path)
    typed_programs.unload()
    rows = show_rows(open_state(open_savepoint(path), "0"), 100).rows
    found = {row["key"]["k"]: row["value"]["groupState"]["stats"] for row in rows}
    values = {key: [v for k, v in BEFORE if k == key] for key in range(4)}
    assert found == {k: {"n": len(v), "total": float(sum(v))} for k, v in values.items()}
    raw = show_rows(open_state(open_savepoint(path), "0", raw=True), 100).rows
    assert all(isinstance(row["value"]["groupState"]["stats"], str) for row in raw)


@pytest.mark.deep
def test_entries_of_a_map_are_shown_without_the_program(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    if is_old(spark):
        pytest.skip("transformWithState came with Spark 4")
    (change,) = (each for each in CHANGES if each.name == "values of a map changed")
    with configured(spark, settings("rocksdb")):
        path = saved(spark, new_job, change, "processor", tmp_path)
    typed_programs.unload()
    rows = show_rows(open_state(open_savepoint(path), "0/stats"), 100).rows
    found = {
        (row["key"]["key"]["k"], row["key"]["userKey"]["key"]): row["value"]["value"]
        for row in rows
    }
    tens = [(k, v // 10) for k, v in BEFORE]
    assert found == {pair: tens.count(pair) for pair in tens}


def contents(path: str) -> dict[str, bytes]:
    files = (each for each in Path(path).rglob("*") if each.is_file())
    return {str(each): each.read_bytes() for each in files}


def snapshots(path: str) -> tuple[str, ...]:
    """The snapshots that a savepoint keeps of the state, the oldest first."""
    (operator,) = open_savepoint(path).queries[0].operators
    assert operator.facts.meaning is not None
    return operator.facts.meaning.serializers["stats"]
