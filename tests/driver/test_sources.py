"""Sources that start afresh, lack their files or cannot be read again: what real Spark does with
the checkpoints that are made for them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.cut import read_cut
from flinkish.connectors.source_plan import FileMove
from flinkish.connectors.sources import SavedSource
from flinkish.restore.check.file_places import file_reading
from flinkish.restore.check.source_files import missing_files
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.origin.mapped_paths import with_mapped_paths
from flinkish.restore.origin.restore_origin import open_path
from flinkish.restore.recipe import FreshSource, Recipe, TakenSource
from tests.support.driver.changed_checkpoint import World

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> World:
    return World(spark, tmp_path)


def counted(world: World, *streams: str) -> Any:
    frame = world.stream(streams[0])
    for name in streams[1:]:
        frame = frame.union(world.stream(name))
    return frame.groupBy("k").count()


def sizes(rows: list[tuple[Any, ...]]) -> dict[str, int]:
    """The last count of each key."""
    return dict(rows)


def test_a_source_starts_afresh_and_state_is_kept(world: World) -> None:
    """Its files are read again, so what they have counted is counted twice; the other's once."""
    for _ in range(2):
        world.write("a", ("a", 1, 0))
        world.write("b", ("b", 1, 0))
    world.run(counted(world, "a", "b"), "one", "update")
    world.make("two", "one", sources=(FreshSource(), TakenSource(0, 1, "1", "1")))
    world.write("b", ("b", 1, 0))
    after = sizes(world.run(counted(world, "a", "b"), "two", "update"))
    assert after == {"a": 4, "b": 3}


@pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_source_starts_afresh_while_a_batch_is_planned(world: World, everything: bool) -> None:
    """The planned batch keeps what it reads of the other source; the one that starts afresh has no
    part in it, and reads all of its files after it. Without another source it is dropped."""
    for _ in range(2):
        world.write("a", ("a", 1, 0))
        world.write("b", ("b", 1, 0))
    frame = counted(world, "a", "b")
    world.run(frame, "one", "update", fail_at=1)
    cut = read_cut(str(world.root / "one"))
    assert (cut.batch_id, cut.planned_batch) == (0, 1)
    kept = FreshSource() if everything else TakenSource(0, 1, "1", "1")
    recipe = Recipe((world.origin("one"),), sources=(FreshSource(), kept))
    assert recipe.replays_planned is not everything
    make_checkpoint(recipe, str(world.root / "two"))
    made = read_cut(str(world.root / "two"))
    assert made.planned_batch == (None if everything else 1)
    rows = world.run(frame, "two", "update")
    if everything:
        assert sizes(rows) == {"a": 3, "b": 3}
    else:
        assert rows[0] == ("b", 2)  # the planned batch: nothing of a
        assert sizes(rows) == {"a": 3, "b": 2}


@pytest.mark.parametrize("gone", [pytest.param(False, marks=pytest.mark.deep), True])
def test_spark_passes_over_a_planned_file_that_is_gone(world: World, gone: bool) -> None:
    """The reason for the check: no error, and no row."""
    for name in "abc":
        world.write("a", (name, 1, 0))
    frame = counted(world, "a")
    world.run(frame, "one", "update", fail_at=1)
    (check,) = missing_files(world.origin("one"))
    assert (check.planned, check.planned_gone, check.read, check.read_gone) == (1, (), 1, 0)
    first, second, _ = sorted((world.root / "in/a").iterdir())
    if gone:
        first.unlink()  # read already: not missed
        second.unlink()
    (check,) = missing_files(world.origin("one"))
    assert check.planned_gone == ((str(second),) if gone else ())
    assert check.read_gone == int(gone)
    assert bool(check.warnings()) is gone
    world.make("two", "one")
    rows = world.run(frame, "two", "update")
    assert sorted(rows) == ([("c", 1)] if gone else [("b", 1), ("c", 1)])


def test_files_that_were_moved_are_not_read_again(world: World) -> None:
    """Also those of a planned batch, which Spark refuses elsewhere, go on under their new paths."""
    for name in "ab":
        world.write("old", (name, 1, 0))
    world.run(counted(world, "old"), "one", "update", fail_at=1)
    (world.root / "in/old").rename(world.root / "in/new")
    world.write("new", ("c", 1, 0))
    move = ((world.root / "in/old").as_uri(), (world.root / "in/new").as_uri())
    moved = TakenSource(0, 0, "0", "0", move=move)
    place = SavedSource("one", 0, "0", '{"logOffset":0}', signature=f"file[{world.root}/in/old]")
    found = file_reading(world.origin("one"), place, f"{world.root}/in/new", move[1], {})
    assert found is not None
    assert (found.move, found.moved, found.planned_moved) == (FileMove(*move), 2, 1)
    world.make("two", "one", sources=(moved,))
    assert sorted(world.run(counted(world, "new"), "two", "update")) == [("b", 1), ("c", 1)]


def test_a_directory_that_was_moved_is_gone_on_with_by_a_map(world: World) -> None:
    """What was read there is not read again, be it still there or not; a planned batch goes on."""
    for name in "abc":
        world.write("old", (name, 1, 0))
    world.run(counted(world, "old"), "one", "update", fail_at=2)
    (world.root / "in/old").rename(world.root / "in/new place")
    world.write("new place", ("c", 1, 0))
    first, *_ = sorted((world.root / "in/new place").iterdir())
    first.unlink()
    pairs = ((f"{world.root}/in/old", f"{world.root}/in/new place"),)
    (offer,) = with_mapped_paths(open_path(f"{world.root}/one"), pairs).by_key.values()
    make_checkpoint(Recipe((offer.origin,)), str(world.root / "two"))
    assert world.run(counted(world, "new place"), "two", "update") == [("c", 1), ("c", 2)]


def test_another_path_is_read_where_spark_is_not_asked_for_the_newest_batch(world: World) -> None:
    """But for files that are too old, behind those that were read from the first path."""
    for name in "ab":
        world.write("old", (name, 1, 0))
    world.run(counted(world, "old"), "one", "update")
    world.write("new", ("late", 1, 0))
    (late,) = (world.root / "in/new").iterdir()
    os.utime(late, (world.clock - 30 * 86_400,) * 2)
    world.write("new", ("b", 1, 0))
    place = SavedSource("one", 0, "0", '{"logOffset":1}', signature=f"file[{world.root}/in/old]")
    new = world.root / "in/new"
    found = file_reading(world.origin("one"), place, str(new), new.as_uri(), {})
    assert found is not None
    assert (found.ages.lost, found.ages.days) == (1, 31)
    world.make("as it is", "one")
    with pytest.raises(Exception, match="Wrong basePath"):
        world.run(counted(world, "new"), "as it is", "update")
    world.make("two", "one", sources=(TakenSource(0, 0, "0", "0"),))
    assert world.run(counted(world, "new"), "two", "update") == [("b", 2)]


@contextmanager
def line_server(lines: list[str]) -> Iterator[int]:
    """A TCP server that sends ``lines`` to everyone who connects, and then keeps quiet."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)

        def serve() -> None:
            clients = []
            while not done.is_set():
                try:
                    client, _ = server.accept()
                except TimeoutError:
                    continue
                client.sendall("".join(f"{line}\n" for line in lines).encode())
                clients.append(client)
            for client in clients:
                client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            done.set()
            thread.join()


def run_socket(world: World, port: int, checkpoint: str, until: Callable[[Any], bool]) -> Any:
    """Count words from the socket until told (or 40 s); the last counts, None if it failed."""
    counts: dict[str, int] = {}

    def collect(batch: Any, number: int) -> None:
        counts.update({r.value: r["count"] for r in batch.collect()})

    frame = world.spark.readStream.format("socket").option("host", "127.0.0.1")
    query = (
        frame.option("port", port)
        .load()
        .groupBy("value")
        .count()
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(world.root / checkpoint))
        .foreachBatch(collect)
        .start()
    )
    deadline = time.monotonic() + 40
    while query.isActive and not until(counts) and time.monotonic() < deadline:
        time.sleep(0.1)
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.05)
    if query.isActive:
        query.stop()
        return counts
    return None if query.exception() is not None else counts


@pytest.mark.deep
def test_a_socket_is_not_replayed_and_can_start_afresh(world: World) -> None:
    """Spark counts lines from 0 again: without a reset the first ones are skipped (or it fails)."""
    with line_server(["x", "x", "y"]) as port:
        assert run_socket(world, port, "one", lambda counts: sum(counts.values()) >= 3) == {
            "x": 2,
            "y": 1,
        }
        world.make("as-is", "one")
        world.make("afresh", "one", sources=(FreshSource(),))
        afresh = run_socket(world, port, "afresh", lambda counts: sum(counts.values()) >= 6)
        assert afresh == {"x": 4, "y": 2}
        started = time.monotonic()
        lost = run_socket(world, port, "as-is", lambda counts: time.monotonic() > started + 6)
        assert not lost  # three lines were sent, and none of them was counted


@pytest.mark.parametrize(
    "format_", [pytest.param("rate", marks=pytest.mark.deep), "rate-micro-batch"]
)
def test_sources_that_compute_their_rows_replay_them(world: World, format_: str) -> None:
    """A planned batch has the same rows in another run, on another checkpoint."""

    def run(checkpoint: str, fail_at: int) -> dict[int, list[Any]]:
        batches: dict[int, list[Any]] = {}

        def collect(batch: Any, number: int) -> None:
            batches[number] = sorted(tuple(row) for row in batch.collect())
            if number == fail_at:
                raise InterruptedError("as if killed")

        frame = world.spark.readStream.format(format_)
        query = (
            frame.option("rowsPerSecond" if format_ == "rate" else "rowsPerBatch", 4)
            .load()
            .writeStream.option("checkpointLocation", str(world.root / checkpoint))
            .trigger(processingTime="500 milliseconds" if format_ == "rate" else "0 seconds")
            .foreachBatch(collect)
            .start()
        )
        with pytest.raises(Exception, match="as if killed"):
            query.awaitTermination(60)
        return batches

    first = run("one", 2)
    world.make("two", "one")
    second = run("two", 2)
    assert set(second) == {2}
    assert first[2]
    assert second[2] == first[2]
