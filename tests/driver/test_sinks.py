"""Sinks that are ahead of a restored query: what real Spark does, and with the checkpoints that are
made against it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.checkpoint.cut import newest_committed_batch, read_cut
from flinkish.restore.check.file_sinks import file_sink_status
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.plan.sinks import Continuation, SinkPlan, judge_sink
from flinkish.restore.recipe import OriginCheckpoint, Recipe
from tests.support.driver.changed_checkpoint import World
from tests.support.driver.operator_programs import BACKENDS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> World:
    return World(spark, tmp_path)


@pytest.fixture
def configure(spark: Any) -> Iterator[Callable[[str], None]]:
    known: dict[str, str | None] = {}

    def setting(backend: str) -> None:
        for key, value in {"spark.sql.shuffle.partitions": "2", **BACKENDS[backend]}.items():
            known.setdefault(key, spark.conf.get(key, None))
            spark.conf.set(key, value)

    yield setting
    for key, value in known.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


class Files:
    """A query into a file sink; ``per_batch`` input files are read at a time. With state it passes
    on each key once."""

    def __init__(self, world: World, *, stateful: bool) -> None:
        self.world = world
        self.stateful = stateful
        self.sink = str(world.root / "out")

    def write(self, *keys: str) -> None:
        """One more input file."""
        self.world.write("a", *((key, 1, 0) for key in keys))

    def run(self, checkpoint: str, per_batch: int = 1) -> None:
        reader = self.world.spark.readStream.schema("k string, v long, ts timestamp")
        frame = reader.option("maxFilesPerTrigger", per_batch).json(str(self.world.root / "in/a"))
        query = (
            (frame.dropDuplicates(["k"]) if self.stateful else frame)
            .select("k")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.world.root / checkpoint))
            .trigger(availableNow=True)
            .start(self.sink)
        )
        assert query.awaitTermination(100), f"{checkpoint} did not end"

    def rows(self) -> str:
        """The keys in the sink, as its log has them."""
        return "".join(sorted(r.k for r in self.world.spark.read.parquet(self.sink).collect()))

    def save(self, checkpoint: str, *, crashed: bool = False) -> Recipe:
        """The checkpoint as it is now; ``crashed``: as if the driver had died between the sink's
        commit of the newest batch and its own."""
        root = self.world.root / "saved"
        shutil.copytree(self.world.root / checkpoint, root)
        if crashed:
            for path in (root / "commits").glob(f"*{read_cut(str(root)).batch_id}*"):
                path.unlink()
        cut = read_cut(str(root))
        return Recipe((OriginCheckpoint(cut.root, tuple(cut.files), cut.batch_id),))

    def plan(self, recipe: Recipe, mode: Any = None) -> SinkPlan:
        position = file_sink_status("parquet", self.sink, storage)
        assert position is not None
        planned = recipe.replays_planned
        query = Continuation(recipe.batch_id, True, stateful=self.stateful, replays_planned=planned)
        return judge_sink(position, query, mode)

    def make(self, target: str, recipe: Recipe, plan: SinkPlan | None = None) -> None:
        made = replace(recipe, rebase_to=plan.rebase_to if plan is not None else None)
        make_checkpoint(made, str(self.world.root / target))
        assert read_cut(str(self.world.root / target)).batch_id == made.batch_id


DEEP = pytest.mark.deep


@pytest.mark.parametrize(
    "backend",
    ["hdfs", *(pytest.param(b, marks=DEEP) for b in (None, "rocksdb", "rocksdb-changelog"))],
)
def test_a_file_sink_that_is_ahead(
    world: World, configure: Callable[[str], None], backend: str | None
) -> None:
    """Four batches, restored at the second: Spark drops what comes next, unless it is rebased."""
    from pyspark.errors import StreamingQueryException

    configure(backend or "hdfs")
    files = Files(world, stateful=backend is not None)
    files.write("a")
    files.write("b")
    files.run("one")
    recipe = files.save("one")
    files.write("c")
    files.write("d")
    files.run("one")
    assert files.rows() == "abcd"
    assert not recipe.replays_planned
    refused = files.plan(recipe)
    assert (refused.verdict, refused.newest_batch, refused.blocks) == ("ahead", 3, True)
    assert files.plan(recipe, "accept").blocks is files.stateful

    # Not told: batches 2 and 3 hold other input now, and all that they wrote is gone.
    for key in "efg":
        files.write(key)
    files.make("silent", recipe)
    files.run("silent", per_batch=3)
    assert files.rows() == "abcd"
    assert newest_committed_batch(str(world.root / "silent")) == 3  # they were c, d, e and f, g
    files.write("h")
    if files.stateful:
        # Of the batches that were skipped there is no state to go on from.
        with pytest.raises(StreamingQueryException, match=r"3\.(delta|zip|changelog)|SNAPSHOT"):
            files.run("silent")
    assert files.rows() == "abcd"

    told = files.plan(recipe, "rebase")
    assert (told.verdict, told.rebase_to, told.blocks) == ("rebase", 3, False)
    files.make("rebased", recipe, told)
    files.write("a", "b", "i")
    files.run("rebased", per_batch=3)
    # Nothing is missing; c and d are there twice: once of the time after the savepoint. The state
    # still knows a and b.
    again = "" if files.stateful else "ab"
    assert files.rows() == "".join(sorted("abcd" + "cdefghi" + again))


def test_accepting_drops_no_row_where_the_batches_are_the_same(
    world: World, configure: Callable[[str], None]
) -> None:
    configure("hdfs")
    files = Files(world, stateful=False)
    files.write("a")
    files.run("one")
    recipe = files.save("one")
    files.write("b")
    files.write("c")
    files.run("one")
    assert files.plan(recipe, "accept").verdict == "accept"
    files.make("two", recipe)
    files.write("d")
    files.run("two")
    assert files.rows() == "abcd"


@pytest.mark.parametrize(
    "backend", [None, *(pytest.param(b, marks=DEEP) for b in ("hdfs", "rocksdb"))]
)
def test_a_sink_that_has_the_planned_batch(
    world: World, configure: Callable[[str], None], backend: str | None
) -> None:
    """Saved at batch 0 with batch 1 planned, which the sink has already."""
    from pyspark.errors import StreamingQueryException

    configure(backend or "hdfs")
    files = Files(world, stateful=backend is not None)
    files.write("a")
    files.write("b")
    files.run("one")
    recipe = files.save("one", crashed=True)
    assert recipe.replays_planned
    plan = files.plan(recipe)
    assert (plan.reason, plan.newest_batch) == ("sink-has-planned", 1)
    files.make("two", recipe)
    files.write("b", "c")
    if not files.stateful:
        assert plan.verdict == "as-is"
        files.run("two", per_batch=5)  # the planned batch keeps its range whatever the size now
        assert files.rows() == "abbc"  # b was written, and then comes again
        return
    assert plan.verdict == "ahead"
    with pytest.raises(StreamingQueryException, match=r"2\.(delta|zip|changelog)|SNAPSHOT"):
        files.run("two")  # batch 1 was skipped, and left no state
    assert files.rows() == "ab"
    told = files.plan(recipe, "rebase")
    assert told.rebase_to == 1
    files.make("three", recipe, told)
    files.run("three")
    assert files.rows() == "abbc"  # b twice: its batch had to be computed; then the state has it


@pytest.mark.parametrize("stateful", [pytest.param(False, marks=DEEP), True])
def test_a_rebased_planned_batch(
    world: World, configure: Callable[[str], None], stateful: bool
) -> None:
    """Saved at batch 0 with batch 1 planned; the sink has batches 1 (the planned one) to 3."""
    configure("hdfs")
    files = Files(world, stateful=stateful)
    files.write("a")
    files.write("b")
    files.run("one")
    recipe = files.save("one", crashed=True)
    files.write("c")
    files.write("d")
    files.run("one")
    assert files.plan(recipe).verdict == "ahead"
    told = files.plan(recipe, "rebase")
    assert (told.newest_batch, told.rebase_to) == (3, 3 if stateful else 2)
    files.make("two", recipe, told)
    assert read_cut(str(world.root / "two")).planned_batch == recipe.batch_id + (
        4 if stateful else 3
    )
    files.write("e")
    files.run("two")
    # Without state the planned batch is not written twice; c and d are, as a rebase has it.
    assert files.rows() == "".join(sorted("abcd" + "cde" + ("b" if stateful else "")))
