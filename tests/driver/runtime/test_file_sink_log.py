"""A file sink's log that lacks the batches before the query's next one: completed for Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.connectors.path_map import NO_MAP
from flinkish.driver.runtime import file_sink_log
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.driver.spark.jvm import configured
from flinkish.errors import Corrupt, FlinkishError
from flinkish.messages.launch import RestoreSpec
from flinkish.registry.jobs import JobState
from tests.support.driver.in_process_job import InProcessJob

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_restore_writes_to_another_place_over_two_compactions(
    spark: Any, new_job: Callable[..., InProcessJob], tmp_path: Path
) -> None:
    """A new place, and one with an older log that ends before the savepoint's batch."""

    def start(sink: str, checkpoint: str | None = None) -> Any:
        frame = spark.readStream.schema("k string").option("maxFilesPerTrigger", 1)
        writer = frame.json(str(tmp_path / "in")).coalesce(1).writeStream.queryName("q")
        if checkpoint is not None:
            writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        return writer.trigger(availableNow=True).format("json").start(str(tmp_path / sink))

    def restored(sink: str) -> None:
        job = new_job(restore=RestoreSpec(str(tmp_path / "plain")))
        assert job.start(lambda: start(sink).awaitTermination()).wait().state is JobState.FINISHED

    def write(*keys: str) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        for key in keys:
            (tmp_path / "in" / f"{key}.json").write_text(f'{{"k": "{key}"}}\n')

    def rows(sink: str) -> str:
        return "".join(sorted(r.k for r in spark.read.json(str(tmp_path / sink)).collect()))

    interval = {"spark.sql.streaming.fileSink.log.compactInterval": "2"}
    with configured(spark, interval):  # batches 1, 3 and 5 have compact entries
        write("a")
        assert start("older", "another").awaitTermination(100)
        write("b", "c")
        assert start("old", "plain").awaitTermination(100)
        write("d", "e", "f")
        restored("older")
        restored("new")
        assert (rows("new"), rows("older")) == ("def", "adef")
    names = {path.name for path in (tmp_path / "new" / "_spark_metadata").glob("[0-9]*")}
    assert names == {"1.compact", "2", "3.compact", "4", "5.compact"}


@pytest.mark.parametrize("error", [Corrupt("entry 3 is damaged"), OSError("read-only storage")])
def test_a_query_whose_log_cannot_be_completed_runs_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Spark swallows what is raised at the start of a query."""
    said: list[str] = []

    @contextmanager
    def at_start(_session: Any, _name: str, call: Callable[[Any], None]) -> Iterator[None]:
        yield
        call("jsq")

    def broken(_: Any) -> None:
        raise error

    def end(_jvm: Any, jsq: Any) -> None:
        said.append(f"{jsq} ends")

    def fail(failure: FlinkishError) -> None:
        said.append(failure.message.rpartition(": ")[2])

    monkeypatch.setattr(file_sink_log, "at_start", at_start)
    monkeypatch.setattr(file_sink_log, "complete_log", broken)
    monkeypatch.setattr(spark_jvm, "is_told_to_end", lambda _: False)
    monkeypatch.setattr(spark_jvm, "end_after_batch", end)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").touch()
    session = SimpleNamespace(_jvm=None)
    with file_sink_log.file_sink_log_ready(session, "q", "json", str(tmp_path), NO_MAP, fail):
        pass
    assert said == ["jsq ends", str(error).partition("\n")[0]]
