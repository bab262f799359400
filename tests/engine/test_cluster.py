"""A standalone cluster of a master and two workers rewrites state on a path that all reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.migration.test_checkpoint_migration import all_rows, rows_of, state_of
from tests.support.checkpoints.recorded import unpack
from tests.support.servers.cluster import standalone_cluster

REPOSITORY = Path(__file__).parent.parent.parent
pytestmark = [
    pytest.mark.spark,
    pytest.mark.servers,
    pytest.mark.deep,
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    environ = {"PYTHONPATH": str(REPOSITORY)}
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), environ, workers=2) as url:
        yield url


def rewrite(
    cluster: str, source: Path, target: Path, partitions: int, *marker: str
) -> dict[str, Any]:
    words = [cluster, str(source), str(target), str(partitions), *marker]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.engine.cluster_program", *words],
        cwd=REPOSITORY,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", ["spark43-changelog-join3", "spark43-ids-join"])
def test_state_is_rescaled_and_back_by_executors(cluster: str, name: str, tmp_path: Path) -> None:
    recorded = unpack(name, tmp_path / "recorded")
    count = state_of(recorded).operators[0].partitions
    there = rewrite(cluster, recorded, tmp_path / "five", 5)
    assert there["executors"] == 2
    rows = all_rows(recorded)
    assert there["operators"]["0"]["rows"] == there["progress"][0] == len(rows)
    assert all_rows(tmp_path / "five") == rows
    back = rewrite(cluster, tmp_path / "five", tmp_path / "back", count)
    assert back["operators"] == there["operators"]
    assert rows_of(tmp_path / "back") == rows_of(recorded)


def test_a_task_whose_worker_dies_is_done_again(cluster: str, tmp_path: Path) -> None:
    recorded = unpack("spark43-changelog-join3", tmp_path / "recorded")
    marker = tmp_path / "died"
    done = rewrite(cluster, recorded, tmp_path / "five", 5, str(marker))
    assert marker.exists()
    assert all_rows(tmp_path / "five") == all_rows(recorded)
    assert done["operators"]["0"]["rows"] == len(all_rows(recorded))
    assert not [path.name for path in (tmp_path / "five").iterdir() if "attempts" in path.name]
    state = tmp_path / "five" / "state" / "0"
    assert [len(list((state / str(i)).glob("*.zip"))) for i in range(5)] == [1] * 5
