"""``flinkish.history_batch`` in a ``foreachBatch`` function: the shift of its own query."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import flinkish
from flinkish.driver.restore import history
from flinkish.errors import UsageError

pytestmark = pytest.mark.spark


@pytest.fixture
def installed() -> Iterator[None]:
    history.install()
    yield
    history.uninstall()


def run_once(spark: Any, directory: Path, call: Callable[[Any, int], None]) -> str:
    """Run a query of one batch with this function; returns its id."""
    source = directory / "in"
    source.mkdir(exist_ok=True)
    (source / "a.json").write_text('{"id": 1}')
    writer = spark.readStream.schema("id long").json(str(source)).writeStream.foreachBatch(call)
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return str(query.id)


def test_without_flinkish_it_is_the_batch_id() -> None:
    assert flinkish.history_batch(7) == 7
    code = "import flinkish, sys; print(flinkish.history_batch(7), 'pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "7 False\n"


@pytest.mark.usefixtures("installed")
def test_each_query_has_its_own_shift(spark: Any, tmp_path: Path) -> None:
    """Two queries run at a time; the shift of one must not be the other's."""
    seen: dict[str, set[int]] = {"a": set(), "b": set()}
    together = threading.Barrier(2, timeout=120)

    def function(name: str) -> Callable[[Any, int], None]:
        def call(frame: Any, batch: int) -> None:
            frame.count()
            together.wait()
            seen[name].add(flinkish.history_batch(batch))

        return call

    def checkpoint(name: str, query_id: str) -> Path:
        directory = tmp_path / name
        (directory / "checkpoint").mkdir(parents=True)
        (directory / "checkpoint" / "metadata").write_text(f'{{"id":"{query_id}"}}')
        return directory

    ids = {"a": "11111111-1111-4111-8111-111111111111", "b": "22222222-2222-4222-8222-222222222222"}
    history.remember(ids["a"], 5 << 32)
    threads = [
        threading.Thread(target=run_once, args=(spark, checkpoint(name, query_id), function(name)))
        for name, query_id in ids.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"a": {5 << 32}, "b": {0}}
    assert history.described({"format": "x"}, ids["a"]) == {"format": "x", "history_shift": 5 << 32}
    assert history.described({"format": "x"}, ids["b"]) == {"format": "x"}


@pytest.mark.usefixtures("installed", "spark")
def test_elsewhere_it_says_that_it_does_not_know() -> None:
    with pytest.raises(UsageError, match="which query"):
        flinkish.history_batch(7)
