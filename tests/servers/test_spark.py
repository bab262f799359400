"""Spark keeps its checkpoints on every server, and another Spark goes on from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.support.servers.hdfs import HdfsServer
from tests.support.servers.jars import Unavailable, spark_s3_jars
from tests.support.servers.s3 import S3Server

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.deep]

_STATE = "org.apache.spark.sql.execution.streaming.state"
PROVIDERS = {
    "rocksdb": f"{_STATE}.RocksDBStateStoreProvider",
    "hdfs-backed": f"{_STATE}.HDFSBackedStateStoreProvider",
}


def run(request: dict[str, Any], environment: dict[str, str]) -> dict[str, dict[str, int]]:
    """What the queries put out in a driver of their own."""
    driver = Path(__file__).parents[1] / "support" / "servers" / "checkpoint_program.py"
    done = subprocess.run(
        [sys.executable, str(driver), json.dumps(request)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    printed: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return printed


@pytest.mark.timeout(600)
def test_checkpoints_of_spark(
    moto_s3: S3Server, second_s3: S3Server, hdfs: HdfsServer, tmp_path: Path
) -> None:
    try:
        jars = spark_s3_jars()
    except Unavailable as why:
        pytest.skip(f"needs {why}")
    moto_s3.create_bucket("spark-moto")
    second_s3.create_bucket("spark-second")
    roots = ["s3a://spark-moto", "s3a://spark-second", f"{hdfs.url}/spark"]
    source = tmp_path / "input"
    source.mkdir()
    request = {
        "input": str(source),
        "checkpoints": {
            f"{root}/{name}": provider for root in roots for name, provider in PROVIDERS.items()
        },
        "settings": {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.jars": ",".join(str(jar) for jar in jars),
            **moto_s3.spark_settings("spark-moto"),
            **second_s3.spark_settings("spark-second"),
        },
    }
    (source / "1.json").write_text('{"key": "a"}\n{"key": "b"}\n{"key": "a"}\n')
    first = run(request, hdfs.environment())
    assert first == {checkpoint: {"a": 2, "b": 1} for checkpoint in request["checkpoints"]}

    # Another driver, which has nothing but the checkpoints, goes on counting.
    (source / "2.json").write_text('{"key": "a"}\n{"key": "c"}\n')
    second = run(request, hdfs.environment())
    assert second == {checkpoint: {"a": 3, "c": 1} for checkpoint in request["checkpoints"]}

    # And they are where they are said to be, and of the kind they are said to be.
    for server, bucket in ((moto_s3, "spark-moto"), (second_s3, "spark-second")):
        with server.configured():
            filesystem = fsspec.filesystem("s3a")
            for name, suffixes in (("rocksdb", {"zip", "changelog"}), ("hdfs-backed", {"delta"})):
                commits = filesystem.ls(f"{bucket}/{name}/commits", detail=False)
                assert {path.rpartition("/")[2] for path in commits} >= {"0", "1"}
                state = filesystem.find(f"{bucket}/{name}/state/0/0")
                assert {path.rpartition(".")[2] for path in state} & suffixes, state
