"""``flinkish state`` with Spark: conditions, and exports to files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest
from pyspark.errors import NumberFormatException, PythonException

from flinkish import storage
from flinkish.driver.tasks import state_export
from flinkish.errors import StorageError, UsageError
from flinkish.messages.calls import StateTask
from tests.support.checkpoints.saved import save
from tests.support.cli.command import LIGHT, Flinkish


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.timeout(300)
def test_conditions_and_exports_run_on_spark(flinkish: Flinkish, tmp_path: Path) -> None:
    path = save(tmp_path, "rocksdb-tws")
    spark = ("-m", "local[2]", *LIGHT)
    every = flinkish.ok("state", "show", path, "rocksdb-tws/values", "--json").json()
    where = "key.k = 'k3' AND size(value) = 24"
    found = flinkish.ok(
        "state", "show", path, "rocksdb-tws/values", "--where", where, "--json", *spark
    ).json()
    assert found["rows"] == [row for row in every["rows"] if row["key"]["k"] == "k3"]
    assert len(found["rows"]) == 1
    refused = flinkish(
        "state", "show", path, "rocksdb-tws/values", "--where", "nothing > 1", "--json", *spark
    )
    assert refused.code == 2
    assert "nothing" in refused.error()["message"]
    place = (path, "rocksdb-tws/values")
    for command in (("show", *place), ("export", *place, str(tmp_path / "x"), "--format", "json")):
        ansi = ("--where", "CAST(key.k AS INT) > 3", "--conf", "spark.sql.ansi.enabled=true")
        refused = flinkish("state", *command, *ansi, "--json", *spark)
        assert refused.code == 2
        assert "[CAST_INVALID_INPUT]" in refused.error()["message"]
    assert not (tmp_path / "x").exists()
    avro, lines = tmp_path / "avro", tmp_path / "lines"
    answer = flinkish.ok(
        "state", "export", path, "rocksdb-tws/values", str(avro), "--format", "avro", "--json",
        *spark,
    ).json()  # fmt: skip
    assert answer["export"] == {"path": str(avro), "format": "avro", "rows": 5}
    assert sorted(os.listdir(avro)) == ["_SUCCESS", "part-00000.avro", "part-00001.avro"]
    records: list[Any] = []
    for part in sorted(avro.glob("*.avro")):
        with part.open("rb") as file:
            records += fastavro.reader(file)
    assert records == [{"key": r["key"], "value": r["value"]} for r in every["rows"]]
    quiet = flinkish.ok(
        "state", "export", path, "rocksdb-tws/values", str(lines), "--format", "json", "-q", *spark
    )
    assert quiet.out == f"{lines}\n"
    assert (lines / "_SUCCESS").exists()
    written = [
        json.loads(line)
        for part in sorted(lines.glob("part-*.json"))
        for line in part.read_text().splitlines()
    ]
    assert written == every["rows"]


class _Frame:
    """A DataFrame of which only the schema is there: each action fails."""

    def __init__(self, error: Exception, schema: Any = None) -> None:
        self._error = error
        self.schema = schema

    def mapInArrow(self, function: Any, schema: Any) -> _Frame:
        return _Frame(self._error, self.schema or schema)

    def where(self, condition: str) -> _Frame:
        return self

    def limit(self, rows: int) -> _Frame:
        return self

    def collect(self) -> Any:
        raise self._error


def failing(error: Exception) -> Any:
    context = SimpleNamespace(_flinkish_shipped=True)
    return SimpleNamespace(sparkContext=context, range=lambda *_: _Frame(error))


def test_a_condition_that_fails_for_a_row_is_refused_with_the_columns(tmp_path: Path) -> None:
    where = "CAST(key.k AS INT) > 3"
    task = StateTask(save(tmp_path, "rocksdb-tws"), "rocksdb-tws/count", where=where)
    error = NumberFormatException("[CAST_INVALID_INPUT] The value 'k1' is malformed.\n== SQL ==")
    with pytest.raises(UsageError) as refused:
        state_export.run(failing(error), task)
    assert refused.value.message == (
        f"Spark refuses the condition '{where}': [CAST_INVALID_INPUT] The value 'k1' is malformed."
    )
    assert "key struct<k:string>" in str(refused.value.hint)


def test_an_error_of_a_task_is_no_fault_of_the_condition(tmp_path: Path) -> None:
    task = StateTask(save(tmp_path, "rocksdb-tws"), "rocksdb-tws/count", where="key.k = 'k1'")
    error = PythonException("Traceback (most recent call last):\nOSError: [Errno 5] I/O error\n")
    reason = "query rocksdb-tws: state could not be read: OSError: .Errno 5"
    with pytest.raises(StorageError, match=reason):
        state_export.run(failing(error), task)


def test_an_export_never_touches_the_files_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked before the first has made the directory."""
    target = tmp_path / "out"
    target.mkdir()
    (target / "part-00000.avro").write_text("of the first")
    monkeypatch.setattr(storage, "exists", lambda _: False)

    def refuse(*_: Any) -> Any:
        raise RuntimeError("Spark refuses to write")

    rdd = SimpleNamespace(mapPartitions=refuse)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(parallelize=lambda *_: rdd))
    operator = SimpleNamespace(partitions=1)
    state: Any = SimpleNamespace(source=None, table=SimpleNamespace(operator=operator))
    task: Any = SimpleNamespace(format="avro")
    with pytest.raises(StorageError, match="out"):
        state_export._export(session, state, task, str(target))
    assert (target / "part-00000.avro").read_text() == "of the first"
    with pytest.raises(RuntimeError, match="Spark refuses"):
        state_export._export(session, state, task, str(tmp_path / "new" / "own"))
    assert not (tmp_path / "new" / "own").exists()
