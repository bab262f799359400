"""Checkpoints that an export makes, continued by Spark without flinkish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.cut import read_cut
from flinkish.client.context import Context
from flinkish.client.exporting import export
from flinkish.config import Config
from flinkish.driver.script import run_callable
from flinkish.driver.tasks.export_task import ExportedProgram
from flinkish.errors import FlinkishError, NonRestoredState
from flinkish.messages.calls import Exported, ExportTask, RestoreQuestion
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from tests.driver.test_gate import rate, rate_key, start_counting
from tests.driver.test_restore import Saved
from tests.driver.test_restore import saved as saved

pytestmark = pytest.mark.spark


def planned(
    path: str, directory: Path, program: Callable[[], Any], **spec: Any
) -> tuple[Exported | None, FlinkishError | None]:
    """The driver's part of an export into a directory that it does not rename."""
    question = RestoreQuestion(RestoreSpec(path, **spec))
    exported = ExportedProgram(ExportTask(question, str(directory), str(directory)), {})
    error = exported.failure(exported.run(lambda: run_callable(program)))
    answer = None if error is not None else exported.answer()
    exported.close()
    return answer, error


def check_that_spark_continues(spark: Any, checkpoint: Path) -> None:
    """Every batch of Spark alone puts out the counts of all rows up to it."""
    first = read_cut(str(checkpoint)).batch_id + 1
    batches: dict[int, dict[int, int]] = {}

    def keep(frame: Any, batch: int) -> None:
        batches[batch] = {row["k"]: row["count"] for row in frame.collect()}

    writer = rate(spark).groupBy(rate_key()).count().writeStream.outputMode("update")
    query = writer.foreachBatch(keep).option("checkpointLocation", f"file:{checkpoint}").start()
    try:
        while len(batches) < 2:
            assert query.isActive, query.exception()
            query.awaitTermination(0.1)
    finally:
        query.stop()
    assert sorted(batches)[:2] == [first, first + 1]
    for batch, counts in batches.items():
        assert counts == dict.fromkeys(range(5), 2 * (batch + 1)), "10 rows a batch, in 5 groups"


def test_spark_alone_continues(spark: Any, saved: Saved, tmp_path: Path) -> None:
    savepoint, query_id = saved("counts")
    context = Context(Config.load(flags={"registry.url": f"sqlite:///{tmp_path}/registry.db"}))
    with context.writable_registry:
        result = export(context, None, savepoint["path"], str(tmp_path / "as-it-is"), NO_OPTIONS)
    (checkpoint,) = result.checkpoints
    assert (checkpoint.query_id, checkpoint.partitions) == (query_id, 2)
    check_that_spark_continues(spark, tmp_path / "as-it-is" / "counts")

    started: list[bool] = []
    done, error = planned(
        savepoint["path"],
        tmp_path / "rescaled",
        lambda: started.append(start_counting(spark).isActive),
        parallelism=3,
    )
    assert error is None
    assert done is not None
    assert (done.directories, done.plan.verdict) == ({"counts": "counts"}, "ok")
    assert started == [False]
    (operator,) = read_cut(str(tmp_path / "rescaled" / "counts")).operators
    assert operator.partitions == 3
    check_that_spark_continues(spark, tmp_path / "rescaled" / "counts")


@pytest.mark.deep
def test_what_a_program_leaves_needs_consent(spark: Any, saved: Saved, tmp_path: Path) -> None:
    savepoint, _ = saved("counts", "others")
    _, error = planned(savepoint["path"], tmp_path / "one", lambda: start_counting(spark))
    assert isinstance(error, NonRestoredState)
    assert error.data["plan"]["exit_code"] == NonRestoredState.code
    assert not (tmp_path / "one" / "counts").exists(), "nobody else would remove it"
    options = RestoreOptions(allow_non_restored=True)
    done, error = planned(
        savepoint["path"], tmp_path / "two", lambda: start_counting(spark), options=options
    )
    assert error is None
    assert done is not None
    assert list(done.directories) == ["counts"]
