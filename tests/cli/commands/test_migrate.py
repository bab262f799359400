"""``flinkish migrate --dry-run``: the plan of the real run, of recorded savepoints; no Spark."""

from __future__ import annotations

import json
from pathlib import Path

from flinkish.engine.avro.schemas import avro_schema
from flinkish.engine.rows.types import parse_struct
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.files import LocalDirectory
from flinkish.errors import Incompatible
from tests.cli.conftest import Command
from tests.support.checkpoints.recorded import unpack
from tests.support.checkpoints.saved import save


def test_the_plan_of_every_operator_is_shown(cli: Command, tmp_path: Path) -> None:
    path = save(tmp_path, "rocksdb-tws", "hdfs-agg")
    words = ("migrate", path, str(tmp_path / "new"), "-p", "7", "--dry-run")
    document = cli.ok(*words, "--json").json()
    assert document["changes"] == {"state partitions": 7}
    assert [(op["uid"], op["partitions"], op["shuffle"]) for op in document["operators"]] == [
        ("rocksdb-tws", {"before": 2, "after": 7}, None),
        ("hdfs-agg", {"before": 2, "after": 7}, "neither the old nor the new state is in RocksDB"),
    ]
    assert [op["backend"]["after"] for op in document["operators"]] == ["rocksdb", "hdfs"]
    shown = cli.ok(*words).out
    assert "'hdfs-agg' of query hdfs-agg" in shown
    assert "partitions: 2 -> 7, backend: hdfs" in shown
    assert "rows: without a shuffle" in shown
    assert "rows: shuffled: neither the old nor the new state is in RocksDB" in shown
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_done_is_refused_as_the_real_run_would(cli: Command, tmp_path: Path) -> None:
    path = save(tmp_path, "rocksdb-tws")
    words = ("migrate", path, str(tmp_path / "new"), "--backend", "hdfs", "--dry-run")
    refused = cli(*words)
    assert refused.code == Incompatible.code
    assert "column families, which only RocksDB has" in refused.err


def test_the_fields_of_a_new_schema_are_told(cli: Command, tmp_path: Path) -> None:
    recorded = LocalDirectory(str(unpack("spark43-rocksdb-tws", tmp_path / "other")))
    [operator] = read_checkpoint(recorded).operators
    family = next(f for f in operator.stores[0].families if f.name == "count")
    schema = avro_schema(parse_struct(family.value), "value")
    schema["fields"].append({"name": "note", "type": ["null", "string"], "default": None})
    (tmp_path / "count.avsc").write_text(json.dumps(schema))
    path = save(tmp_path, "rocksdb-tws")
    asked = f"rocksdb-tws/count={tmp_path / 'count.avsc'}"
    words = ("migrate", path, str(tmp_path / "new"), "--schema", asked, "--dry-run", "--json")
    [planned] = cli.ok(*words).json()["operators"]
    assert len(planned["changes"]) == 1
    assert "note" in planned["changes"][0]
    wrong = dict(schema, fields=[{"name": "n", "type": "boolean"}])
    (tmp_path / "count.avsc").write_text(json.dumps(wrong))
    refused = cli(*words)
    assert refused.code == Incompatible.code
    assert "cannot be converted to the new schema" in refused.err
