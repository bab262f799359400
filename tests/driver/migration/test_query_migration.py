"""What ``migrate`` asks of the engine for one query: new schemas of values, and what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException

from flinkish.client.savepoints import Savepoint
from flinkish.driver.migration.query_migration import engine_work, rewrite_query, told_by_spark
from flinkish.driver.migration.savepoint_migration import write_rewritten
from flinkish.engine.avro.schemas import avro_schema
from flinkish.engine.rows.types import parse_struct
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.files import LocalDirectory
from flinkish.errors import Corrupt, FlinkishError, Incompatible, StorageError, UsageError
from flinkish.messages.codec import decode, encode
from flinkish.messages.migration import MigratedOperator, Migration, NewSchema
from flinkish.savepoint.format.contents import QueryRecord
from flinkish.savepoint.format.reader import open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from tests.engine.migration.test_checkpoint_migration import all_rows
from tests.support.checkpoints.recorded import unpack
from tests.support.checkpoints.saved import save
from tests.support.engine.inline_spark import InlineContext


def run(source: Path, target: Path, **wanted: Any) -> list[MigratedOperator]:
    [batch] = [read_checkpoint(LocalDirectory(str(source))).batch]
    query = QueryRecord("id", batch, name="counts", directory="0-counts")
    # As it goes through the environment of the driver.
    asked = decode(Migration, json.loads(json.dumps(encode(Migration("/s", "/t", **wanted)))))
    directories = LocalDirectory(str(source)), LocalDirectory(str(target))
    return rewrite_query(InlineContext(), *directories, query, asked, lambda _rows, _size: None)


def wider(source: Path, state: str, query: str = "counts") -> NewSchema:
    """The Avro schema of a variable's values with a field more."""
    [operator] = read_checkpoint(LocalDirectory(str(source))).operators
    family = next(f for f in operator.stores[0].families if f.name == state)
    schema = avro_schema(parse_struct(family.value), "value")
    schema["fields"].append({"name": "note", "type": ["null", "string"], "default": None})
    return NewSchema(query, 0, state, schema, f"uid/{state}")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return unpack("spark43-rocksdb-tws", tmp_path / "recorded")


def test_values_get_the_schema_that_was_asked_for(recorded: Path, tmp_path: Path) -> None:
    [facts] = run(recorded, tmp_path / "new", schemas=(wider(recorded, "count"),))
    assert facts.rows == len(all_rows(recorded))
    [operator] = read_checkpoint(LocalDirectory(str(tmp_path / "new"))).operators
    fields = {f.name: [c["name"] for c in f.value["fields"]] for f in operator.stores[0].families}
    assert fields["count"] == ["n", "note"]
    assert fields["values"] == ["v"]


def test_a_schema_for_another_query_is_not_looked_at(recorded: Path, tmp_path: Path) -> None:
    run(recorded, tmp_path / "new", schemas=(wider(recorded, "count", query="other"),))
    assert all_rows(tmp_path / "new") == all_rows(recorded)


def test_the_states_of_a_join_have_the_names_of_its_stores(tmp_path: Path) -> None:
    """A join of state format 1 or 2 has four stores, each with one family of the default name."""
    join = unpack("spark35-hdfs-join", tmp_path / "join")
    asked = NewSchema("counts", 0, "", {"type": "record", "name": "r", "fields": []}, "uid")
    with pytest.raises(UsageError, match="several states: left-keyToNumValues, ") as refused:
        run(join, tmp_path / "new", schemas=(asked,))
    assert "--schema uid/left-key" in refused.value.hint
    asked = replace(asked, state="default", name="uid/default")
    with pytest.raises(UsageError, match="has no state 'default'; it has: left-keyToNumValues, "):
        run(join, tmp_path / "new", schemas=(asked,))


def test_what_is_refused_and_how(recorded: Path, tmp_path: Path) -> None:
    asked = wider(recorded, "count")
    with pytest.raises(UsageError, match="has several states: "):
        run(recorded, tmp_path / "new", schemas=(replace(asked, state="", name="uid"),))
    with pytest.raises(UsageError, match="the operator 'uid' has no state 'x'"):
        run(recorded, tmp_path / "new", schemas=(replace(asked, state="x", name="uid/x"),))
    with pytest.raises(UsageError, match="0/count names a state that another --schema"):
        run(recorded, tmp_path / "new", schemas=(asked, replace(asked, name="0/count")))
    with pytest.raises(UsageError, match="the schema for uid/count is not an Avro schema"):
        run(recorded, tmp_path / "new", schemas=(replace(asked, schema={"type": "nothing"}),))
    with pytest.raises(Incompatible, match=r"query counts: .* only RocksDB has"):
        run(recorded, tmp_path / "new", backend="hdfs")
    shutil.rmtree(recorded / "state/0/1/SSTs")
    with pytest.raises(Corrupt, match=r"query counts: .*missing"):
        run(recorded, tmp_path / "new", partitions=3)
    assert not [path for path in (tmp_path / "new").rglob("*") if path.is_file()]


WORKER = """Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/worker.py", line 1247, in main
    process()
  File "/x/flinkish/engine/canonical.py", line 226, in write_canonical
    with create(COUNTS) as file:
OSError: [Errno 28] No space left on device
"""
JAVA = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 8.0 failed
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:1)
"""


def test_what_a_python_worker_says_is_the_reason() -> None:
    python = f"\n  An exception was thrown from the Python worker:\n{WORKER}"
    java = JAVA.replace(
        "failed\n", f"failed: org.apache.spark.api.python.PythonException: {WORKER}"
    )
    for text in (python, java):
        error = told_by_spark(text, "counts")
        assert type(error) is StorageError
        assert error.message == (
            "query counts: state could not be rewritten: "
            "OSError: [Errno 28] No space left on device"
        )


def test_without_one_it_is_sparks_own() -> None:
    error = told_by_spark(JAVA, "counts")
    assert type(error) is FlinkishError
    assert error.message.endswith(
        "rewritten: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in "
        "stage 8.0 failed"
    )
    assert told_by_spark("odd\nmore", "counts").message.endswith("rewritten: odd")


def test_a_refusal_of_the_storage_is_told_before_its_cause() -> None:
    error = told_by_spark(
        WORKER.replace("OSError: [Errno 28]", "Exception: IO error:")
        + """
The above exception was the direct cause of the following exception:

Traceback (most recent call last):
flinkish.errors.StorageError: disk full: cannot use RocksDB's files
"""
    )
    assert type(error) is StorageError
    assert error.message.endswith("StorageError: disk full: cannot use RocksDB's files")


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.IOException: No space left on device",
        "java.io.IOException: Mkdirs failed to create file:/out/_temporary/0",
        "java.io.FileNotFoundException: /out/part-00000.json (Permission denied)",
        "java.nio.file.FileSystemException: /out: Read-only file system",
        "org.apache.hadoop.security.AccessControlException: Permission refused: user=a",
    ],
)
def test_what_java_says_of_a_file_is_storage_with_the_cause_as_the_reason(cause: str) -> None:
    error = told_by_spark(f"{JAVA}Caused by: {cause}\n", "counts", "state could not be exported")
    assert type(error) is StorageError
    assert error.message == f"query counts: state could not be exported: {cause}"


def test_a_worker_that_crashed_is_not_storage() -> None:
    crashed = f"{JAVA}Caused by: java.io.EOFException\n"
    assert type(told_by_spark(crashed, "counts")) is FlinkishError


@pytest.mark.parametrize("query", ["counts", None])
def test_a_full_disk_of_an_executor_is_storage_wherever_state_is_rewritten(
    query: str | None,
) -> None:
    with pytest.raises(StorageError, match="No space left on device"), engine_work(query):
        raise PythonException(WORKER)


def test_damage_names_the_whole_command_that_shows_it() -> None:
    with pytest.raises(Corrupt, match="query counts: KeyError: 7") as caught, engine_work("counts"):
        raise KeyError(7)
    assert caught.value.hint.startswith("flinkish savepoint verify --level deep PATH ")


@pytest.mark.parametrize(("name", "known"), [("rocksdb-dedup", True), ("ids-join", False)])
def test_rows_that_rocksdb_did_not_count_are_no_count_of_the_new_savepoint(
    tmp_path: Path, name: str, known: bool
) -> None:
    opened = open_savepoint(save(tmp_path, name))
    query = opened.queries[0]
    uncounted = [replace(op, facts=replace(op.facts, rows=0)) for op in query.operators]
    context = InlineContext()
    context._flinkish_shipped = True  # type: ignore[attr-defined]
    info, [written] = write_rewritten(
        context,
        replace(opened, queries=(replace(query, operators=tuple(uncounted)),)),
        Migration(opened.path, str(tmp_path / "new"), backend="hdfs"),
        scratch=str(tmp_path / "scratch"),
        job=opened.header.job,
        trigger="migrate",
        reporter=SilentSavepointReporter(),
        progress=lambda rows, size: None,
    )
    [operator] = open_savepoint(info.path).queries[0].operators
    assert written.rows > 0
    assert operator.facts.rows == (written.rows if known else None)
    assert Savepoint.open(info.path).verify("deep").ok
