"""Jobs that write numbered rows to a table, and what must be in it (`programs/tabled.py`)."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flinkish.savepoint.format.reader import open_savepoint
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish, Result, wait_until

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
    """

    flinkish: Flinkish
    root: Path
    options: tuple[str, ...]
    format: str
    ids: Callable[[], Counter[int]]
    written: int = field(default=0)

    @property
    def source(self) -> Path:
        """The directory of the input files."""
        return self.root / "in"

    def feed(self, files: int) -> None:
        """Write so many more files, each with one id, in the order of their times."""
        self.source.mkdir(exist_ok=True)
        for number in range(self.written, self.written + files):
            hidden = self.source / f".{number}.json"
            hidden.write_text(json.dumps({"id": number}) + "\n")
            os.utime(hidden, (1_700_000_000 + number,) * 2)
            hidden.rename(self.source / f"{number}.json")
        self.written += files

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
        program = (self.format, str(self.source), target, *words)
        return self.flinkish.run(PROGRAM, *program, options=options)

    def check(self, target: str, *words: str, restore: tuple[str, ...]) -> Result:
        """Plan a restore, without running it."""
        options = ("--json", "-m", "local[2]", *LIGHT, *self.options, *restore)
        program = (str(PROGRAMS / PROGRAM), self.format, str(self.source), target, *words)
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

    def successor_of(self, job: str) -> str:
        """Wait for the job that an upgrade starts; returns its id."""
        found: list[str] = []

        def started() -> bool:
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


def saved_sink(flinkish: Flinkish, savepoint: str) -> Any:
    """What a savepoint says of the sink of its query."""
    (query,) = open_savepoint(savepoint).queries
    return query.sink
