"""Jobs that write numbered rows to a table, and what must be in it (`programs/tabled.py`).

What flinkish promises for a format of tables is checked here once, for each format.
"""

from __future__ import annotations

import json
import os
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkish.savepoint.format.reader import open_savepoint
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish, Result, wait_until

if TYPE_CHECKING:
    from tests.support.servers.kafka import KafkaServer

PROGRAM = "tabled.py"
#: The name of the table that most jobs write to.
TABLE = "t"


@dataclass
class TableJobs:
    """``flinkish`` with jobs of one table.

    Attributes
    ----------
    options
        Those of ``run`` that bring the Spark and the jars.
    format
        That of the table.
    target
        What a job is given to write to the table of a name.
    column
        Returns how often each value is in a column of the table of a name, read without Spark;
        none where there is no table yet.
    topic
        The broker and the topic that the jobs read instead of files.
    first
        The table that they read instead of files.
    name
        That of the jobs.
    """

    flinkish: Flinkish
    root: Path
    options: tuple[str, ...]
    format: str
    target: Callable[[str], str]
    column: Callable[[str, str], Counter[int]]
    topic: tuple[KafkaServer, str] | None = None
    first: str | None = None
    name: str = "rows"
    written: int = field(default=0)

    def ids(self, table: str = TABLE) -> Counter[int]:
        """How often each id is in a table."""
        return self.column("id", table)

    @property
    def source(self) -> str:
        """What the program reads, as its argument."""
        if self.topic is not None:
            broker, name = self.topic
            return f"kafka:{broker.bootstrap}/{name}"
        if self.first is not None:
            return f"{self.format}:{self.target(self.first).removeprefix('table:')}"
        return str(self.root / "in")

    def feed(self, files: int) -> None:
        """Write so many more files, each with one id, in the order of their times; or rows."""
        numbers = range(self.written, self.written + files)
        if self.topic is not None:
            broker, name = self.topic
            broker.write(name, 0, [(1_700_000_000_000 + n, str(n).encode()) for n in numbers])
        else:
            self._write_files(numbers)
        self.written += files

    def _write_files(self, numbers: range) -> None:
        source = self.root / "in"
        source.mkdir(exist_ok=True)
        for number in numbers:
            hidden = source / f".{number}.json"
            hidden.write_text(json.dumps({"id": number}) + "\n")
            os.utime(hidden, (1_700_000_000 + number,) * 2)
            hidden.rename(source / f"{number}.json")

    @contextmanager
    def fed(self, files: int, interval: float = 0.5) -> Iterator[None]:
        """Let a file arrive every ``interval`` seconds, so many at most."""
        over = threading.Event()

        def write() -> None:
            for _ in range(files):
                if over.wait(interval):
                    break
                self.feed(1)

        feeder = threading.Thread(target=write)
        feeder.start()
        try:
            yield
        finally:
            over.set()
            feeder.join()

    def run(self, target: str, *words: str, restore: tuple[str, ...] = ()) -> str:
        """Start a job; returns its id."""
        options = ("--name", self.name, *self.options, *restore)
        program = (self.format, self.source, target, *words)
        return self.flinkish.run(PROGRAM, *program, options=options)

    def refuse(self, target: str, *words: str, options: tuple[str, ...]) -> Result:
        """Start a job that is refused, and return how."""
        program = (str(PROGRAMS / PROGRAM), self.format, self.source, target, *words)
        return self.flinkish("run", "-m", "local[2]", *LIGHT, *options, *program)

    def check(self, target: str, *words: str, restore: tuple[str, ...]) -> Result:
        """Plan a restore, without running it."""
        options = ("--json", "-m", "local[2]", *LIGHT, *self.options, *restore)
        program = (str(PROGRAMS / PROGRAM), self.format, self.source, target, *words)
        return self.flinkish("check", *options, *program)

    def wait_for_ids(self, job: str, count: int, table: str = TABLE) -> None:
        """Wait until the table, or another one, has so many different ids."""

        def there() -> bool:
            record = self.flinkish.job(job)
            assert record["state"] != "FAILED", record
            return len(self.ids(table)) >= count

        wait_until(there)

    def successor_of(self, job: str, upgrade: Future[Result]) -> str:
        """Wait for the job that an upgrade starts; returns its id."""
        found: list[str] = []

        def started() -> bool:
            assert not upgrade.done(), upgrade.result()
            with self.flinkish.registry() as registry:
                found[:] = [each.job_id for each in registry.jobs() if each.job_id != job]
            return bool(found)

        wait_until(started)
        return found[0]

    def stop(self, job: str) -> str:
        """Stop a job; returns its savepoint."""
        found = self.flinkish.ok("stop", "-q", "-p", str(self.root / "sp"), job)
        return found.out.strip()

    def savepoint(self, job: str) -> str:
        """Take a savepoint of a job that goes on."""
        return self.flinkish.ok("savepoint", "-q", job, str(self.root / "sp")).out.strip()

    def check_all_once(self) -> None:
        """Check that each id that was written is in the table exactly once."""
        assert self.ids() == Counter(range(self.written))


def check_that_it_goes_on(jobs: TableJobs, target: str, first: str | None = None) -> None:
    """Stop a job at any moment, and go on with a changed program: each row is there once.

    Parameters
    ----------
    first
        What a job before writes to, that makes the table; None where the job makes it itself.
    """
    jobs.feed(3)
    job = jobs.run(first or target, "--keys")
    jobs.wait_for_ids(job, 3)
    if first is not None:
        path = jobs.stop(job)
        jobs.feed(1)
        job = jobs.run(target, "--keys", restore=("-s", path))
    with jobs.fed(8):
        jobs.wait_for_ids(job, jobs.written)
        taken = jobs.savepoint(job)
        jobs.wait_for_ids(job, random.randint(5, 8))
        path = jobs.stop(job)
    sink = saved_sink(taken)
    assert type(sink["table_version"]) is int, sink
    assert sink["table_id"]

    resumed = jobs.run(target, "--keys", "--version", "2", restore=("-s", path))
    jobs.feed(2)
    jobs.wait_for_ids(resumed, jobs.written)
    jobs.check_all_once()


def check_an_older_savepoint(jobs: TableJobs, mode: str, *words: str, registry: str) -> None:
    """Go on from a savepoint that the table is ahead of, in one of the modes of ``--sink-ahead``.

    With the registry, the query gets a new id; where that is "lost", it keeps the savepoint's.
    """
    target = jobs.target(TABLE)
    jobs.feed(3)
    job = jobs.run(target, *words)
    jobs.wait_for_ids(job, 3)
    older = jobs.savepoint(job)
    jobs.feed(4)
    jobs.wait_for_ids(job, 7)
    later = jobs.stop(job)
    if registry == "lost":
        jobs.flinkish.environ["XDG_STATE_HOME"] = str(jobs.root / "another")

    asked = jobs.check(target, *words, restore=("-s", older))
    assert asked.code == 5, asked
    (sink,) = asked.json()["sinks"]
    assert (sink["verdict"], sink["newest_batch"]) == ("ahead", 6)
    assert "--sink-ahead rollback" in sink["advice"]
    restore = ("-s", older, "--sink-ahead", mode)
    plan = jobs.check(target, *words, restore=restore).json()
    assert plan["sinks"][0]["verdict"] == mode, plan
    assert jobs.ids() == Counter(range(7)), "a check has changed the table"

    if mode == "rollback":
        # A start that is refused when the query has been judged and started: nothing is changed.
        wrong = (*restore, "--accept-partial", "nothing", *jobs.options)
        refused = jobs.refuse(target, *words, options=wrong)
        assert refused.code == 2, refused
        assert jobs.ids() == Counter(range(7)), "a refused start has changed the table"

    again = jobs.run(target, *words, restore=restore)
    jobs.feed(2)
    jobs.wait_for_ids(again, 9)
    jobs.stop(again)
    twice = {3, 4, 5, 6} if mode == "rebase" else set()
    assert jobs.ids() == Counter(range(9)) + Counter(twice)
    if mode != "rollback":
        return

    # The savepoint of the line that was undone, while the table has what was written instead.
    asked = jobs.check(target, *words, restore=("-s", later))
    assert asked.code == 5, asked
    (sink,) = asked.json()["sinks"]
    assert (sink["verdict"], sink["reason"]) == ("ahead", "sink-undone")
    assert ("--sink-ahead rollback" in sink["advice"]) is (registry == "lost")  # its own batches
    if registry == "lost":
        back = jobs.run(target, *words, restore=("-s", later, "--sink-ahead", "rollback"))
        jobs.feed(1)
        jobs.wait_for_ids(back, 10)
        jobs.check_all_once()


def check_an_upgrade_that_fails(jobs: TableJobs) -> None:
    """Upgrade to a program that fails after some batches: none of its rows is left."""
    target = jobs.target(TABLE)
    jobs.feed(3)
    job = jobs.run(target, "--keys")
    jobs.wait_for_ids(job, 3)
    program = (str(PROGRAMS / PROGRAM), "--", jobs.format, jobs.source, target)
    bad = (*program, "--keys", "--version", "2", "--fail-after", "4")
    command = ("upgrade", "in-place", "rows", "--savepointPath", str(jobs.root / "sp"))
    health = ("--sink-ahead", "rollback", "--health-batches", "4", "--health-timeout", "10m")
    with ThreadPoolExecutor() as pool:
        upgrade = pool.submit(jobs.flinkish, *command, *health, "--to", *bad, timeout=900)
        new = jobs.successor_of(job, upgrade)
        jobs.flinkish.wait_for_state(new, "RUNNING")
        jobs.feed(3)  # two of its batches are right
        failed = upgrade.result()
    assert failed.code == 1, failed
    assert "5 is too much" in failed.err
    assert "the table is rolled back to version" in failed.err
    again = jobs.flinkish.ok("list", "-q", "--name", "rows").out.strip()
    jobs.feed(1)
    jobs.wait_for_ids(again, 7)
    jobs.check_all_once()
    assert set(jobs.column("version", TABLE)) == {1}


def check_table_to_table(jobs: TableJobs) -> None:
    """Read one table and write another, and fork that: each goes on with what is new to it."""
    target = jobs.target(TABLE)
    jobs.feed(3)
    feeder = jobs.run(jobs.target("first"))
    words = (jobs.format, f"{jobs.format}:{jobs.target('first').removeprefix('table:')}")
    options = ("--name", "second", *jobs.options)
    jobs.wait_for_ids(feeder, 3, "first")
    second = jobs.flinkish.run(PROGRAM, *words, target, "--keys", options=options)
    jobs.wait_for_ids(second, 3)
    path = jobs.savepoint(second)
    jobs.feed(3)
    jobs.wait_for_ids(second, 6)

    forked = ("--name", "fork", *jobs.options, "-s", path, "--fork")
    other = (*words, jobs.target("other"), "--keys")
    fork = jobs.flinkish.run(PROGRAM, *other, options=forked)
    jobs.wait_for_ids(fork, 3, "other")
    assert jobs.ids("other") == Counter(range(3, 6))
    jobs.stop(fork)

    stopped = jobs.stop(second)
    jobs.feed(2)
    resumed = jobs.flinkish.run(
        PROGRAM, *words, target, "--keys", "--version", "2", options=(*options, "-s", stopped)
    )
    jobs.wait_for_ids(resumed, 8)
    jobs.check_all_once()


def check_a_move(jobs: TableJobs, move: Callable[[], TableJobs], mapping: tuple[str, str]) -> None:
    """Read one table and write another, and go on where both have been moved to.

    Parameters
    ----------
    move
        Moves the tables ``first`` and ``t``; returns the jobs of the new place.
    mapping
        The option ``--map-path`` that says it.
    """
    jobs.feed(3)
    feeder = jobs.run(jobs.target("first"))
    jobs.wait_for_ids(feeder, 3, "first")
    second = replace(jobs, first="first", name="second")
    job = second.run(second.target(TABLE), "--keys")
    jobs.wait_for_ids(job, 3)
    older = jobs.savepoint(job)
    jobs.feed(1)
    jobs.wait_for_ids(job, 4)
    stopped = jobs.stop(job)
    jobs.feed(2)  # which the second job has not read
    jobs.wait_for_ids(feeder, 6, "first")
    fed = jobs.stop(feeder)

    moved = move()
    second = replace(moved, first="first", name="second")
    target = moved.target(TABLE)
    for savepoint, code, verdict in ((older, 5, "ahead"), (stopped, 0, "as-is")):
        asked = second.check(target, "--keys", restore=("-s", savepoint, *mapping))
        assert asked.code == code, asked
        plan = asked.json()
        assert plan["sinks"][0]["verdict"] == verdict, plan
        assert plan["sources"][0]["verdict"] == "as-is", plan
    job = second.run(target, "--keys", restore=("-s", stopped, *mapping))
    moved.run(moved.target("first"), restore=("-s", fed, *mapping))
    moved.feed(2)
    moved.wait_for_ids(job, 8)
    moved.check_all_once()
    assert moved.ids("first") == Counter(range(8))


def check_from_kafka(jobs: TableJobs, broker: KafkaServer, connectors: Iterable[Path]) -> None:
    """Run a job from a topic to a table: each row is there once, and again after a rollback.

    Parameters
    ----------
    connectors
        The jars of both, of the table and of Kafka.
    """
    name = f"to_{jobs.format}_{uuid.uuid4().hex}"
    broker.make_topic(name)
    jobs.topic = broker, name
    jobs.options = (*jobs.options, "--conf=spark.jars=" + ",".join(map(str, connectors)))
    target = jobs.target(TABLE)
    jobs.feed(3)
    job = jobs.run(target, "--keys")
    jobs.wait_for_ids(job, 3)
    older = jobs.savepoint(job)
    with jobs.fed(6):
        jobs.wait_for_ids(job, random.randint(4, 7))
        path = jobs.stop(job)
    changed = jobs.run(target, "--keys", "--version", "2", restore=("-s", path))
    jobs.feed(1)  # at least this one is written after the savepoint that the table goes back to
    jobs.wait_for_ids(changed, jobs.written)
    jobs.stop(changed)
    jobs.check_all_once()

    restore = ("-s", older, "--sink-ahead", "rollback")
    again = jobs.run(target, "--keys", "--version", "3", restore=restore)
    jobs.feed(1)
    jobs.wait_for_ids(again, jobs.written)
    jobs.stop(again)
    jobs.check_all_once()


def saved_sink(savepoint: str) -> Any:
    """What a savepoint says of the sink of its query."""
    (query,) = open_savepoint(savepoint).queries
    return query.sink
