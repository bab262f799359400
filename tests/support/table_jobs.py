"""Jobs that write numbered rows to a table, and what must be in it (`programs/tabled.py`)."""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinkish.savepoint.format.reader import open_savepoint
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish, Result, wait_until

if TYPE_CHECKING:
    from tests.support.servers.kafka import KafkaServer

PROGRAM = "tabled.py"


@dataclass
class TableJobs:
    """``flinkish`` with jobs of one table.

    Attributes
    ----------
    options
        Those of ``run`` that bring the Spark and the jars.
    format
        That of the table.
    ids
        Returns how often each id is in the table, read without Spark.
    topic
        The broker and the topic that the jobs read instead of files.
    """

    flinkish: Flinkish
    root: Path
    options: tuple[str, ...]
    format: str
    ids: Callable[[], Counter[int]]
    topic: tuple[KafkaServer, str] | None = None
    written: int = field(default=0)

    @property
    def source(self) -> str:
        """What the program reads, as its argument."""
        if self.topic is not None:
            broker, name = self.topic
            return f"kafka:{broker.bootstrap}/{name}"
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
        options = ("--name", "rows", *self.options, *restore)
        program = (self.format, self.source, target, *words)
        return self.flinkish.run(PROGRAM, *program, options=options)

    def check(self, target: str, *words: str, restore: tuple[str, ...]) -> Result:
        """Plan a restore, without running it."""
        options = ("--json", "-m", "local[2]", *LIGHT, *self.options, *restore)
        program = (str(PROGRAMS / PROGRAM), self.format, self.source, target, *words)
        return self.flinkish("check", *options, *program)

    def wait_for_ids(
        self, job: str, count: int, ids: Callable[[], Counter[int]] | None = None
    ) -> None:
        """Wait until the table, or another one, has so many different ids."""

        def there() -> bool:
            record = self.flinkish.job(job)
            assert record["state"] != "FAILED", record
            return len((ids or self.ids)()) >= count

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


def check_from_kafka(jobs: TableJobs, target: str) -> None:
    """Run a job from a topic to a table: each row is there once, and again after a rollback."""
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


def saved_sink(flinkish: Flinkish, savepoint: str) -> Any:
    """What a savepoint says of the sink of its query."""
    (query,) = open_savepoint(savepoint).queries
    return query.sink
