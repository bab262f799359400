"""Exactly-once, measured: for each backend and each operator kind, a program over a bounded file
source writing through an idempotent sink is savepointed at a random moment, stopped with a
savepoint and resumed; its output equals an uninterrupted run, row for row, whichever of the two
savepoints it was resumed from."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.spark.jvm import configured
from flinkish.messages.launch import RestoreSpec
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobState, RequestKind
from tests.support.driver.in_process_job import InProcessJob
from tests.support.driver.operator_programs import (
    BACKENDS,
    FILES,
    OF_PANDAS,
    PROGRAMS,
    ROCKSDB_ONLY,
    write_input,
)

pytestmark = pytest.mark.spark


def write_batch(out: Path) -> Callable[[Any, int], None]:
    """The idempotent sink: one parquet directory a batch, overwritten when replayed."""

    def write(frame: Any, batch: int) -> None:
        frame.coalesce(1).write.mode("overwrite").parquet(f"{out}/batch={batch}")

    return write


def program(
    spark: Any, name: str, input_dir: str, out: Path, *, available_now: bool, location: str = ""
) -> None:
    """What a user's script would do; nothing of flinkish in it."""
    frame, mode = PROGRAMS[name](spark, input_dir)
    writer = frame.writeStream.outputMode(mode).queryName(name).foreachBatch(write_batch(out))
    writer = writer.trigger(availableNow=True) if available_now else writer
    if location:
        writer = writer.option("checkpointLocation", location)
    writer.start().awaitTermination()


def rows(spark: Any, out: Path) -> dict[str, Counter[str]]:
    """Output rows by batch, as a multiset of their text."""
    found = {}
    for directory in sorted(out.glob("batch=*")):
        frame = spark.read.parquet(str(directory))
        found[directory.name] = Counter(str(row) for row in frame.collect())
    return {batch: counter for batch, counter in found.items() if counter}


_references: dict[tuple[str, int], dict[str, Counter[str]]] = {}


def reference(
    spark: Any, name: str, input_dir: str, files: int, base: Path
) -> dict[str, Counter[str]]:
    """An uninterrupted run without flinkish; the same for all backends."""
    if (name, files) not in _references:
        out = base / f"reference-{name}-{files}"
        backend = BACKENDS["rocksdb" if name in ROCKSDB_ONLY else "hdfs"]
        with configured(spark, backend):
            program(spark, name, input_dir, out, available_now=True, location=f"{out}-ck")
        _references[name, files] = rows(spark, out)
        shutil.rmtree(out)
    return _references[name, files]


class Moments:
    """The moments of a query's batches, told by the files that are there from then on."""

    def __init__(self, checkpoint: Path, out: Path) -> None:
        self._checkpoint = checkpoint
        self._out = out

    def of(self, batch: int, rng: random.Random) -> Callable[[], bool]:
        """Whether a moment of ``batch`` has come: planned, in the sink's hands, or committed."""
        path = rng.choice(
            [
                self._checkpoint / "offsets" / str(batch),
                self._out / f"batch={batch}",
                self._checkpoint / "commits" / str(batch),
            ]
        )
        return path.exists


#: One is proven at every run, with few files; all operators and ways to keep state are deep.
CASES = [pytest.param("aggregation", "hdfs", 3, id="aggregation-hdfs-short")] + [
    pytest.param(name, backend, FILES, id=f"{name}-{backend}", marks=pytest.mark.deep)
    for name in PROGRAMS
    for backend in BACKENDS
    if not (name in ROCKSDB_ONLY and backend == "hdfs")
    and not (name == "stateless" and backend != "hdfs")
]


@OF_PANDAS
@pytest.mark.parametrize(("name", "backend", "files"), CASES)
def test_output_equals_an_uninterrupted_run(
    spark: Any,
    registry: Registry,
    new_job: Callable[..., InProcessJob],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    backend: str,
    files: int,
) -> None:
    if name in ROCKSDB_ONLY and spark.version < "4":
        pytest.skip(f"{name} exists from Spark 4.0 on")
    if backend == "rocksdb-format2" and spark.version < "4":
        pytest.skip("checkpoint format 2 exists from Spark 4.0 on")
    input_dir = str(tmp_path / "in")
    write_input(input_dir, last=files)
    expected = reference(spark, name, input_dir, files, tmp_path_factory.getbasetemp())
    rng = random.Random(f"{name}-{backend}")
    out = tmp_path / "out"
    target = str(tmp_path / "savepoints")

    with configured(spark, BACKENDS[backend]):
        first = new_job().start(lambda: program(spark, name, input_dir, out, available_now=False))
        checkpoint = Path(str(first.job().checkpoint_dir)) / name
        moments = Moments(checkpoint, out)
        batch = rng.randrange(1, max(files // 2, 2))
        first.wait_until(moments.of(batch, rng))
        live = first.request(RequestKind.SAVEPOINT, target)["savepoint"]
        first.wait_until(moments.of(rng.randrange(batch, files), rng))
        last = first.request(RequestKind.STOP, target)["savepoint"]
        assert first.wait().state is JobState.FINISHED

    stopped_at = rows(spark, out)
    from_live = bool(rng.randrange(2))
    path = (live if from_live else last)["path"]
    shutil.rmtree(str(first.job().checkpoint_dir))  # the savepoint is self-contained

    # The session's own settings are the defaults again: the pins of the savepoint must win.
    second = new_job(restore=RestoreSpec(path=path)).start(
        lambda: program(spark, name, input_dir, out, available_now=True)
    )
    final = second.wait()
    assert final.state is JobState.FINISHED, final.failure
    assert len(stopped_at) <= len(expected)
    resumed = second.runtime.queries()[0]
    batch = (live if from_live else last)["queries"][0]["batch_id"]
    assert resumed.restored_batch == batch
    if batch == files - 1:
        # All input was consumed, only the closing batch without data was still to come. Spark
        # never runs that one right after a restart (MicroBatchExecution looks at lastExecution,
        # which a new run does not have), with flinkish or without: it comes with the next input.
        closing = f"batch={files}"
        expected = {name: found for name, found in expected.items() if name != closing}
    assert rows(spark, out) == expected
