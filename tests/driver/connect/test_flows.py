"""Where Spark looks for the checkpoint of a pipeline's flow, and where a restored one goes."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.driver.connect.flows import Flow, newest_checkpoint, next_version
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime import pipeline_run
from flinkish.driver.runtime.pipeline_run import PipelineRun
from flinkish.driver.runtime.query_setup import Prepared
from flinkish.errors import StorageError

TABLE = ("spark_catalog", "default", "rides")
PARENT = "_checkpoints/spark_catalog/default/rides/counts"


@pytest.mark.parametrize(
    ("there", "newest"),
    [
        ([], "0"),
        (["0"], "0"),
        (["2", "10", "9"], "10"),
        (["3", ".4-before-rewriting", "05", "backup", "-7"], "3"),
    ],
)
def test_the_newest_is_the_largest_number(tmp_path: Path, there: list[str], newest: str) -> None:
    """As ``SystemMetadata.getLatestCheckpointDir`` chooses; other names are no numbers to it."""
    for name in there:
        (tmp_path / PARENT / name).mkdir(parents=True)
    for storage in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}/"):
        expected = f"{storage.rstrip('/')}/{PARENT}/{newest}"
        assert newest_checkpoint(storage, TABLE, "counts") == expected


def test_a_restored_one_gets_the_next_number(tmp_path: Path) -> None:
    first = tmp_path / "0"
    assert next_version(str(first)) == str(first), "it has none yet"
    first.mkdir()
    assert next_version(f"{first}/") == str(first), "a full refresh begins with an empty one"
    (first / "metadata").touch()
    (tmp_path / "backup").mkdir()
    assert next_version(str(first)) == str(tmp_path / "1")


class Pipeline(PipelineRun):
    """A pipeline whose storage flinkish cannot read."""

    def __init__(self) -> None:
        self._request = SimpleNamespace(full_refresh_selection=[], full_refresh_all=False)
        self.session = None

    def flows(self) -> list[Flow]:
        raise StorageError("cannot open s3://bucket/storage: install s3fs")


@pytest.mark.parametrize(("is_guest", "restores"), [(True, False), (False, False), (False, True)])
def test_storage_that_flinkish_cannot_read_ends_no_guest(
    monkeypatch: pytest.MonkeyPatch, is_guest: bool, restores: bool
) -> None:
    monkeypatch.setattr(pipeline_run, "at_each_start", lambda *_: nullcontext())
    job: Any = SimpleNamespace(
        is_guest=is_guest, restores=restores, flows_prepared=lambda waiting: {}
    )
    run = Pipeline()
    if is_guest:
        assert list(run.carry_out(job, lambda: iter(["event"]))) == ["event"]
    else:
        with pytest.raises(StorageError, match="install s3fs"):
            list(run.carry_out(job, lambda: iter(["event"])))


def test_a_checkpoint_that_flinkish_cannot_read_ends_no_pipeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(root: str) -> str:
        raise StorageError("access denied")

    monkeypatch.setattr(pipeline_run, "query_id_of", fail)
    writer: Any = SimpleNamespace(_spark=None)
    flow = Flow("counts", writer, WriterFacts(), {})
    prepared = Prepared("counts", False, "/own", None, None, (), own="/own")
    assert pipeline_run._waiting(flow, prepared).query_id == ""
