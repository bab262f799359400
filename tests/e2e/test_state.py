"""``flinkish state`` with Spark: conditions, and exports to files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest

from flinkish import storage
from flinkish.driver.tasks import state_export
from flinkish.errors import StorageError
from tests.cli.commands.test_state import save
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
