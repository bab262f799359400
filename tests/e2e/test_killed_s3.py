"""kill -9 of a driver, and of the command, at 20 points of a savepoint to S3.

When to kill is decided by what has happened, not by a clock: by the state of the request, and by
how many objects of the savepoint there are. So it means the same on every machine.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import Request, RequestState
from flinkish.savepoint.manage.prune import collect_garbage
from tests.e2e.test_killed import processes_of
from tests.e2e.test_lifecycle import expected_counts, final_counts, write_files
from tests.support.cli.command import PATIENCE, Flinkish, wait_until
from tests.support.savepoint.killed_processes import all_objects, needed_by, verify_whole
from tests.support.servers.s3 import S3Server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.servers,
    pytest.mark.deep,
    pytest.mark.timeout(3600),
]

POINTS = 20
SEED = 20
#: When the command is killed: before it has asked, as soon as it has, while the driver works, and
#: when the driver has answered.
MOMENTS = ("at once", "asked", "under way", "done")
#: After a few batches, more than a hundred state files.
MANY = ("--name", "counts", "--conf=spark.sql.shuffle.partitions=30")


@dataclass
class World:
    """A job, and the directory in S3 that has its savepoints."""

    flinkish: Flinkish
    place: str
    directory: Path
    known: list[str] = field(default_factory=list)
    files: int = 0

    def registry(self) -> Registry:
        return self.flinkish.registry()

    def start(self, *options: str) -> str:
        """Start the job on one input file more, and wait until it is through with them."""
        self.go_on()
        paths = [str(self.directory / name) for name in ("in", "out")]
        job = self.flinkish.run("counts.py", *paths, options=(*MANY, *options))
        self.flinkish.wait_for_batch(job, self.files - 1, PATIENCE)
        return job

    def go_on(self) -> None:
        """One input file more, which is one batch more."""
        write_files(self.directory / "in", self.files, self.files + 1)
        self.files += 1

    def shown(self) -> list[str]:
        """What ``savepoint list`` shows, newest first: complete ones and no others."""
        rows = self.flinkish.ok("savepoint", "list", self.place, "--json").json()["savepoints"]
        assert {row["state"] for row in rows} <= {"complete"}
        return [row["path"] for row in rows]

    def look(self) -> bool:
        """What must hold after a kill; whether there is a savepoint more, complete then."""
        shown = self.shown()
        new = [path for path in shown if path not in self.known]
        assert len(new) <= 1
        assert set(shown) == {*self.known, *new}
        for path in new:
            verify_whole(path)
        self.known += new
        return bool(new)

    def clear(self) -> None:
        """What is not complete stays for an hour, and nothing of it is left by ``--garbage``."""
        before = all_objects(self.place)
        words = ("savepoint", "prune", "--garbage", "--yes", self.place, "--json")
        pruned = self.flinkish.ok(*words).json()
        assert [each for each in pruned["garbage"] if each["removed"]] == []
        assert all_objects(self.place) == before
        collect_garbage(self.place, (), now=time.time() + 7200)
        needed = {each for path in self.known for each in needed_by(path)}
        assert all_objects(self.place) == needed
        assert set(self.shown()) == set(self.known)

    def request(self, identity: str) -> Request:
        with self.registry() as registry:
            return registry.request(identity)

    def is_final(self, identity: str) -> bool:
        return self.request(identity).state.is_final

    def completed(self, identity: str) -> bool:
        """Whether a request of a job that has ended was completed; else it has failed by now."""
        wait_until(lambda: self.request(identity).state.is_final)
        return self.request(identity).state is RequestState.COMPLETED

    def objects_of(self, job: str) -> int:
        """How many objects a full savepoint makes when nothing disturbs it."""
        before = all_objects(self.place)
        done = self.flinkish.ok("savepoint", job, self.place, "--full", "--json").json()
        self.known.append(done["savepoint"]["path"])
        made = len(all_objects(self.place) - before)
        assert made > 30
        return made

    def wait_for_request(self, job: str, known: set[str]) -> str:
        """The job's request that is not among the known ones, as soon as there is one."""
        new: set[str] = set()
        with self.registry() as registry:

            def asked() -> bool:
                new.update(r.request_id for r in registry.requests(job))
                new.difference_update(known)
                return bool(new)

            wait_until(asked, poll=0.005)
        (request,) = new
        return request

    def wait_for_objects(self, request: str, before: set[str], count: int) -> None:
        """Until the driver has taken the request and made so many objects, or is done."""

        def far_enough() -> bool:
            state = self.request(request).state
            if state is RequestState.PENDING:
                return False
            return state.is_final or len(all_objects(self.place) - before) >= count

        wait_until(far_enough, poll=0.005)


@pytest.fixture
def world(flinkish: Flinkish, moto_s3: S3Server, tmp_path: Path) -> Iterator[World]:
    flinkish.environ.update(moto_s3.environment())
    with moto_s3.configured():
        yield World(flinkish, f"{moto_s3.create_bucket('killed')}/{uuid.uuid4().hex}", tmp_path)
        flinkish.clean_up()


def kill_driver(job: str) -> None:
    """End the driver's process group, which is Spark's JVM and Python, at one blow."""
    os.killpg(os.getpgid(processes_of(job)["jvm"]), signal.SIGKILL)


def test_the_driver_is_killed(world: World) -> None:
    flinkish, randomly = world.flinkish, random.Random(SEED)
    job = world.start()
    objects = world.objects_of(job)
    unfinished = 0
    for number in range(POINTS):
        # One half of it shares files with the savepoint that the job was restored from.
        full = ("--full",) if number % 2 else ()
        before = all_objects(world.place)
        request = flinkish.ok("savepoint", job, world.place, *full, "-detached", "-q").out.strip()
        world.wait_for_objects(request, before, randomly.randrange(objects))
        kill_driver(job)
        flinkish.wait(job, lambda record: record["state"] == "FAILED", PATIENCE)
        found = world.look()
        # Killed behind `_metadata`, it may not have told the registry any more.
        assert found or not world.completed(request)
        unfinished += not found
        world.clear()
        newest = world.shown()[0]
        job = world.start("-s", newest)
    print(f"driver: {unfinished} of {POINTS} unfinished; of {objects} objects")
    assert unfinished >= POINTS / 4, "kills that come too late prove nothing"
    flinkish.ok("stop", job, "-p", world.place)
    assert final_counts(world.directory / "out") == expected_counts(world.files)
    for path in world.shown():
        verify_whole(path)


def test_the_command_is_killed(world: World) -> None:
    flinkish, randomly = world.flinkish, random.Random(SEED)
    job = world.start()
    objects = world.objects_of(job)
    asked = 0
    for number in range(POINTS):
        with world.registry() as registry:
            before = {request.request_id for request in registry.requests(job)}
        objects_before = all_objects(world.place)
        full = ("--full",) if randomly.random() < 0.5 else ()
        command = subprocess.Popen(
            [sys.executable, "-m", "flinkish", "savepoint", job, world.place, *full],
            env=flinkish.environ,
            cwd=flinkish.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        moment = MOMENTS[number % len(MOMENTS)]
        if moment != "at once":
            request = world.wait_for_request(job, before)
            if moment == "under way":
                world.wait_for_objects(request, objects_before, randomly.randrange(objects))
            elif moment == "done":
                wait_until(partial(world.is_final, request), poll=0.005)
        command.kill()
        command.wait()
        with world.registry() as registry:
            new = [r.request_id for r in registry.requests(job) if r.request_id not in before]
        assert len(new) <= 1
        for request in new:  # it goes on without anybody who waits for it
            done = flinkish.ok("request", "wait", request, "--json").json()
            assert done["state"] == "COMPLETED"
            assert world.look()
            assert world.known[-1] == done["savepoint"]["path"]
        if not new:
            assert not world.look()
        asked += len(new)
        if number % 5 == 4:
            world.clear()
            world.go_on()
            flinkish.wait_for_batch(job, world.files - 1, PATIENCE)
    print(f"command: {asked} of {POINTS} were asked for")
    assert asked >= POINTS * 3 // 4
    flinkish.ok("stop", job, "-p", world.place)
    assert final_counts(world.directory / "out") == expected_counts(world.files)
    for path in world.shown():
        verify_whole(path)
