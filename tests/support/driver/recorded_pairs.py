"""What the old programs of the pairs in ``VERDICTS`` left behind, recorded once: their savepoints
(all but the state itself) and, for pairs that start from a plain checkpoint, their checkpoints.

A verdict is found with it by planning alone; what Spark really makes of the state, the live pairs
say.

``python -m tests.support.driver.recorded_pairs record`` writes the archive anew, with the installed
Spark: after a change of an old program, and when ``VERDICTS`` has a new one.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flinkish.driver.plan.restore_environment import DriverRestoreEnvironment
from flinkish.driver.spark.jvm import configured
from flinkish.restore.origin.restore_origin import RestoreOrigin, open_path
from tests.support.driver.pair_runner import Bench, Pair, Saved
from tests.support.driver.pairs import PAIRS, VERDICTS

ARCHIVE = Path(__file__).parents[2] / "data" / "pair_savepoints.tar.xz"
#: The line of Spark that wrote the archive: another one plans other states.
SPARK = "4.3."
SETTINGS = {"spark.sql.shuffle.partitions": "1"}


def run_of(pair: Pair) -> str:
    """The name of the recorded run of a pair's old program: that of its first pair."""
    first = next(other for other in PAIRS if Bench.run_of(other) == Bench.run_of(pair))
    return first.name.replace(" ", "-").replace(",", "")


class _WithoutFiles(DriverRestoreEnvironment):
    """The recorded runs have read files of another place, and not all their files are kept."""

    def source(self, *_: object, **__: object) -> None:
        return None

    def materialisation(self, *_: object, **__: object) -> None:
        return None


class RecordedBench(Bench):
    """Plans the pairs against the recorded runs; nothing is run."""

    def __init__(self, spark: Any, root: Path) -> None:
        super().__init__(spark, root)
        self.write_input(root)
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(root / "recorded", filter="data")

    def environment(self) -> DriverRestoreEnvironment:
        return _WithoutFiles(lambda _: ())

    def saved(self, pair: Pair) -> Saved:
        return Saved(self.root, *recorded_offers(self.root / "recorded", pair), ())


def recorded_offers(directory: Path, pair: Pair) -> tuple[RestoreOrigin, RestoreOrigin]:
    """The savepoint and the checkpoint of a pair's old program; one stands for the other where
    that is not recorded."""
    run = directory / run_of(pair)
    assert run.is_dir(), f"{pair.name}: its old program is not recorded, see {__file__}"
    found = [open_path(str(path)) for path in sorted(run.iterdir(), reverse=True)]
    return found[0], found[-1]


def record(spark: Any, work: Path) -> None:
    """Run every old program once, and pack what it left."""
    assert spark.version.startswith(SPARK), f"the archive is of Spark {SPARK}x"
    bench, tree = Bench(spark, work / "bench"), work / "recorded"
    recorded = [pair for pair in PAIRS if pair.name in VERDICTS]
    plain = {run_of(pair) for pair in recorded if pair.plain}
    for pair in recorded:
        run = tree / run_of(pair)
        if run.exists():
            continue
        with configured(spark, pair.conf):
            saved = bench.saved(pair)
        (offer,) = saved.savepoint.by_key.values()
        savepoint = Path(offer.origin.root).parent
        shutil.copytree(savepoint, run / "savepoint", ignore=shutil.ignore_patterns("state"))
        if run.name in plain:
            shutil.copytree(saved.root / "old", run / "checkpoint")
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        for path in sorted(tree.rglob("*")):
            if path.is_file():
                archive.add(path, path.relative_to(tree).as_posix(), filter=_nobodys)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes, {len(list(tree.iterdir()))} runs")


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 1_700_000_000
    entry.mode = 0o644
    return entry


@contextmanager
def session() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    # Else Spark's workers run on the first python3 of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in (
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.adaptive.enabled", "false"),
        ("spark.sql.streaming.pollingDelay", "10ms"),
    ):
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with configured(spark, SETTINGS):
            yield spark
    finally:
        spark.stop()


if __name__ == "__main__":
    assert sys.argv[1:] == ["record"], __doc__
    with tempfile.TemporaryDirectory() as directory, session() as spark:
        record(spark, Path(directory))
