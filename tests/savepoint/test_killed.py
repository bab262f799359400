"""kill -9 while savepoints are written, disposed of or pruned: whole, or not shown, and garbage."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.cli.entry import main
from flinkish.messages.requests import SavepointSummary
from flinkish.savepoint.directory.catalog import read_catalog
from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.directory.leases import Kind, LeaseRecord, read_leases
from flinkish.savepoint.format.reader import FULL, QUICK, check_files, open_savepoint
from flinkish.savepoint.manage.prune import collect_garbage, prune
from flinkish.savepoint.manage.retention import Policy
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.savepoint import killed_processes as killing
from tests.support.savepoint.killed_processes import Point, Work
from tests.support.savepoint.places import place as a_place

SEED = 5
#: Seconds after which an unfinished savepoint is garbage, and some.
LATER = 7200.0


@dataclass
class World:
    """A directory of savepoints of one job, whose checkpoint goes on."""

    place: str
    environment: dict[str, str]
    checkpoint: CheckpointLikeness
    capsys: pytest.CaptureFixture[str]
    known: list[str] = field(default_factory=list)
    _needed: dict[str, set[str]] = field(default_factory=dict)

    def work(self, what: str, **more: Any) -> Work:
        return Work(what, self.place, self.environment, str(self.checkpoint.root), **more)

    def go_on(self) -> None:
        """The job commits a batch: some files are new, some gone, some as they were."""
        self.checkpoint.run(self.checkpoint.batch + 1)

    def take(self, *, full: bool = False) -> SavepointSummary:
        """A savepoint that nobody disturbs."""
        info = killing.take(self.place, str(self.checkpoint.root), full=full)
        self.known.append(info.path)
        return info

    def command(self, *words: str) -> Any:
        """What a command says as JSON; it must succeed."""
        self.capsys.readouterr()
        code = main([*words, "--json"])
        said = self.capsys.readouterr()
        assert code == 0, said.err
        return json.loads(said.out)

    def shown(self) -> list[str]:
        """Savepoints that ``savepoint list`` shows, newest first: complete ones and no others."""
        rows = self.command("savepoint", "list", self.place)["savepoints"]
        assert {row["state"] for row in rows} <= {"complete"}
        return [row["path"] for row in rows]

    def all_objects(self) -> set[str]:
        """Whatever lies below the place."""
        return killing.all_objects(self.place)

    def needed_objects(self) -> set[str]:
        """What must be there for the savepoints that are complete, and nothing else."""
        paths = [entry.path for entry in read_catalog(self.place).savepoints]
        for path in paths:
            if path not in self._needed:
                self._needed[path] = killing.needed_by(path)
        return {each for path in paths for each in self._needed[path]}

    def clear(self) -> None:
        """An hour later ``--garbage`` removes all that no complete savepoint needs."""
        done = collect_garbage(self.place, (), now=time.time() + LATER)
        assert [each.error for each in done if each.error is not None] == []
        assert self.all_objects() == self.needed_objects()
        directories = {path.partition("/")[0] for path in self.needed_objects()}
        assert set(storage.list_directory(self.place).directories) == directories

    def dispose_of_all(self) -> None:
        """Remove every savepoint: nothing at all is left."""
        for path in self.shown():
            dispose(path)
        assert self.all_objects() == set()
        self.known.clear()


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command has a registry and a configuration of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


#: Other storages; a kill there costs many requests, so that they have fewer.
ON_SERVERS = [
    pytest.param("moto_s3", 4, marks=[pytest.mark.servers, pytest.mark.deep]),
    pytest.param("hdfs", 2, marks=[pytest.mark.servers, pytest.mark.deep]),
]


@pytest.fixture(
    params=[
        pytest.param("moto_s3", marks=[pytest.mark.servers, pytest.mark.deep]),
        pytest.param("hdfs", marks=[pytest.mark.servers, pytest.mark.deep]),
        "other_disk",
    ]
)
def world(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    alone: None,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[World]:
    """The world on a storage where files are not linked but shared."""
    kind = request.param
    root = tmp_path / "checkpoint"
    checkpoint = CheckpointLikeness(root, partitions=1, sidecars=False).run_to(4)
    if kind == "other_disk":
        yield World(f"{request.getfixturevalue(kind)}/s", {}, checkpoint, capsys)
        return
    environment = request.getfixturevalue(kind).environment()
    with a_place(kind, request, tmp_path) as place:
        yield World(place, environment, checkpoint, capsys)


def after_a_kill(world: World) -> None:
    """What must hold after each kill of a writer; leaves one complete savepoint more."""
    shown = world.shown()
    new = [path for path in shown if path not in world.known]
    assert len(new) <= 1
    assert set(shown) == {*world.known, *new}
    for path in new:
        killing.verify_whole(path)
        world.known.append(path)
    # The dead process' lease does not hold up the next savepoint.
    world.go_on()
    check_files(open_savepoint(world.take().path), QUICK)


def nothing_young_goes(world: World) -> None:
    """``--garbage`` leaves what was written within the last hour."""
    before = world.all_objects()
    pruned = world.command("savepoint", "prune", "--garbage", "--yes", world.place)
    assert [each for each in pruned["garbage"] if each["removed"]] == []
    assert {each["reason"] for each in pruned["garbage"]} <= {"it was changed within the last hour"}
    assert world.all_objects() == before


def keep_two(world: World) -> None:
    """Remove the older savepoints; what they hold for others is kept by these, and no more."""
    for path in world.known:
        check_files(open_savepoint(path), QUICK)
    prune(world.place, Policy(keep_last=2), {})
    world.known = world.shown()
    assert world.all_objects() == world.needed_objects()
    for path in world.known:
        killing.verify_whole(path)


@pytest.mark.timeout(600)
def test_a_killed_writer(world: World) -> None:
    on_s3 = world.place.startswith("s3:")
    points = 20 if on_s3 else 6
    randomly = random.Random(SEED)
    world.checkpoint.run_to(30)  # every batch leaves a file in the log of the source
    changes = world.take().files
    world.go_on()
    requests = {
        full: killing.count_requests(world.work("write", full=full)) for full in (False, True)
    }
    world.known = world.shown()
    killed = 0
    for number in range(points):
        # One half of it shares files with the savepoint before, the other takes all anew.
        full = number % 2 == 1
        world.go_on()
        if on_s3:
            work = world.work("write", full=full)
            killed += killing.kill_at_request(work, randomly.randrange(requests[full]))
        else:
            point = Point(randomly.randrange(changes if full else 10))
            killed += killing.kill_at(world.work("write", full=full, die=point))
        after_a_kill(world)
        if number % 4 == 3:
            nothing_young_goes(world)
        world.clear()
        if number % 5 == 4:
            keep_two(world)
    assert killed >= points / 2, "a kill that comes too late proves nothing"
    keep_two(world)


#: Where a savepoint that shares files dies: what it has left there, and whether it is complete.
AWKWARD = {
    "with nothing but its lease": (Point(part="_locks/write", after=True), False),
    "with an empty directory": (Point(part="savepoint-", after=True), False),
    "before its references": (Point(part="_refs/"), False),
    "after its references": (Point(part="/_refs/savepoint", after=True), False),
    "before its metadata": (Point(part="/_metadata"), False),
    "after its metadata": (Point(part="/_metadata", after=True), True),
    "before it gives back its lease": (Point(1, part="_locks/write"), True),
}


def test_a_writer_killed_at_an_awkward_point(world: World) -> None:
    world.take()
    # Without any change all files are shared: on S3 it has no directory before its metadata.
    changes = (False,) if storage.scheme_of(world.place) != "file" else (True, False)
    for name, (point, complete) in AWKWARD.items():
        for changed in changes:
            if changed:
                world.go_on()
            before = world.shown()
            assert killing.kill_at(world.work("write", die=point)), name
            assert len(world.shown()) == len(before) + complete, name
            assert len(read_leases(world.place)) == 1, name
            after_a_kill(world)
            nothing_young_goes(world)
            world.clear()
    keep_two(world)


def three(world: World) -> None:
    """Three savepoints, of which each shares files with those before it."""
    for _ in range(3):
        world.go_on()
        world.take()


def unfinished(world: World) -> None:
    """A savepoint, and what is left of one that was killed before it was complete."""
    world.take()
    world.go_on()
    assert killing.kill_at(world.work("write", die=Point(part="/_metadata")))


def removal(world: World, what: str) -> Work:
    """Make what there is to remove; the work that removes it."""
    if what == "garbage":
        unfinished(world)
        return world.work(what, now=time.time() + LATER)
    three(world)
    return world.work(what, path=world.known[0])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", ["dispose", "prune", "garbage"])
@pytest.mark.parametrize(
    ("world", "points"),
    [("other_disk", 3), pytest.param("other_disk", 20, marks=pytest.mark.deep), *ON_SERVERS],
    indirect=["world"],
)
def test_a_killed_removal(world: World, points: int, what: str) -> None:
    """Killed before one of the changes it makes, at random."""
    total = killing.count_changes(removal(world, what))
    world.dispose_of_all()
    numbers = random.Random(SEED).sample(range(total), min(points, total))
    for number in numbers:
        work = removal(world, what)
        assert killing.kill_at(replace(work, die=Point(number))), (number, total)
        shown = world.shown()
        assert world.known[-1] in shown, "the newest is never removed"
        assert set(shown) <= set(world.known)
        for path in shown:
            check_files(open_savepoint(path), FULL)
        world.clear()
        assert world.shown() == shown
        for path in shown:
            check_files(open_savepoint(path), QUICK)
        world.dispose_of_all()


def test_one_that_was_not_waited_for_holds_no_lease(tmp_path: Path) -> None:
    """In a container whose first process waits for nobody, a killed driver stays a zombie."""
    child = subprocess.Popen(["sleep", "60"])
    now = time.time()
    record = LeaseRecord("write-1", Kind.WRITE, "me@h", os.uname().nodename, child.pid, now, now)
    assert not record.is_stale(now)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
    assert record.is_stale(now)
    child.wait()
    assert record.is_stale(now)


def test_a_renamed_one_keeps_its_lists(other_disk: Path, tmp_path: Path) -> None:
    """The list in the holder has the old name; it is all that tells a disposal what to leave."""
    checkpoint = CheckpointLikeness(tmp_path / "checkpoint").run_to(4)
    holder, user = (killing.take(str(other_disk), str(checkpoint.root)) for _ in range(2))
    os.rename(user.path, other_disk / "precious")
    before = killing.all_objects(str(other_disk))
    assert collect_garbage(str(other_disk), (), now=time.time() + LATER) == ()
    assert killing.all_objects(str(other_disk)) == before
    os.unlink(f"{holder.path}/_metadata")
    (husk,) = collect_garbage(str(other_disk), (), now=time.time() + LATER)
    assert husk.reason == "other savepoints use its files"
    check_files(open_savepoint(str(other_disk / "precious")), FULL)


def test_what_one_that_cannot_be_read_may_use_stays(other_disk: Path, tmp_path: Path) -> None:
    checkpoint = CheckpointLikeness(tmp_path / "checkpoint").run_to(4)
    holder, user = (killing.take(str(other_disk), str(checkpoint.root)) for _ in range(2))
    os.unlink(f"{holder.path}/_metadata")
    metadata = Path(user.path, "_metadata")
    sound = metadata.read_bytes()
    metadata.write_bytes(sound[:-1])
    (husk,) = collect_garbage(str(other_disk), (), now=time.time() + LATER)
    name = Path(user.path).name
    assert husk.reason == f"{name} may use its files, and cannot be read"
    metadata.write_bytes(sound)
    check_files(open_savepoint(user.path), FULL)
