"""Where the commands of a page are typed: a directory with programs, input and settings."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise, takewhile
from pathlib import Path
from typing import IO

from tests.support.cli.command import LIGHT, PATIENCE, PROGRAMS, Flinkish, wait_until
from tests.support.guides.blocks import Block, Step, commands, steps

#: Second versions: of which program, and what they change in it.
VERSIONS = {
    "rides_v2.py": ("rides.py", 'uid("rides"))', 'uid("rides")).filter("rides > 1")'),
    "counts_v2.py": (
        "counts.py",
        '.dropDuplicates(["flight_id"]).transform(uid("seen-flights"))',
        "",
    ),
    "totals_v2.py": ("totals.py", '.alias("total")', '.alias("total"), F.max("w").alias("most")'),
    "app_v2.py": ("app.py", '"visits": [visits]', '"visits": [visits + 0]'),
}
#: The password manager of the page about secrets.
PASS = """#!/bin/sh
case $2 in
warehouse) echo secret ;;
warehouse-arguments) printf '%s\\n' --db-password secret ;;
*) exit 1 ;;
esac
"""
#: Rows of an input file, three keys among them.
ROWS = 10_000
#: The first line of a table.
_HEADER = re.compile(r"[A-Z]+(?:  +[A-Z]+)+")
_SAVEPOINT = re.compile(r"(?:s3:/)?[\w./-]*/savepoint-[\w…-]+")


class Desk:
    """Types a page's commands.

    The page's places become places below ``directory``; ``places`` has more of them. A savepoint
    that the page names is the newest of its directory.
    """

    def __init__(self, directory: Path, places: Mapping[str, str] = {}) -> None:
        self.directory = directory
        self.flinkish = Flinkish(directory)
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        self._places = {
            "/opt/spark-4.3": str(Path(spec.origin).parent),
            "/srv/savepoints": str(directory / "savepoints"),
            "--input /data": "--input in",
            **places,
        }
        self._attached: dict[str, subprocess.Popen[str]] = {}
        (directory / "bin").mkdir(parents=True)
        (directory / "bin" / "pass").write_text(PASS)
        (directory / "bin" / "pass").chmod(0o755)
        # As in an activated virtual environment: Spark's workers are the python3 of the PATH.
        paths = (directory / "bin", Path(sys.executable).parent, os.environ["PATH"])
        self.flinkish.environ["PATH"] = os.pathsep.join(map(str, paths))
        self.flinkish.environ["NO_COLOR"] = "1"
        self.settings(dict(word.removeprefix("--conf=").split("=", 1) for word in LIGHT))
        for path in (PROGRAMS / "guides").iterdir():
            shutil.copy(path, directory)
        for name, (first, old, new) in VERSIONS.items():
            text = (directory / first).read_text()
            assert text.count(old) == 1, f"{name}: {old}"
            (directory / name).write_text(text.replace(old, new))
        (directory / "in").mkdir()
        self.write_input()

    def settings(self, more: Mapping[str, str]) -> None:
        """Set settings for all commands, which the page need not show."""
        with (self.directory / "flinkish.toml").open("a") as file:
            file.writelines(f"{json.dumps(k)} = {json.dumps(v)}\n" for k, v in more.items())

    def write_input(self) -> None:
        """One more input file."""
        number = len(list((self.directory / "in").iterdir()))
        rows = (
            {
                "flight_id": number * ROWS + i,
                "carrier": ("AA", "DL", "UA")[i % 3],
                "k": "abc"[i % 3],
                "v": i,
                "w": 1,
            }
            for i in range(ROWS)
        )
        hidden = self.directory / "in" / f".{number}.json"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        hidden.rename(hidden.with_name(f"{number}.json"))

    @contextmanager
    def fed(self) -> Iterator[None]:
        """Write an input file every half second in the block."""
        over = threading.Event()

        def feed() -> None:
            while not over.wait(0.5):
                self.write_input()

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def start(self, program: str, *options: str) -> str:
        """Start a program for a page that has it running, and wait for a batch."""
        self.type(shlex.join(["flinkish", "run", "-d", *options, program]))
        return program.removesuffix(".py")

    def script(self, block: Block, before: Mapping[str, Callable[[], None]] = {}) -> None:
        """Type the commands of a bash block: each has to succeed.

        Parameters
        ----------
        before
            What happens before a command that begins so.
        """
        for command in commands(block):
            for beginning in before:
                if command.startswith(beginning):
                    before[beginning]()
            if command.startswith("export "):
                name, _, value = command.removeprefix("export ").partition("=")
                self.flinkish.environ[name] = value
                continue
            code, shown = self.type(command)
            assert code == 0, f"{block}: {command}: exit {code}\n{shown}"

    def console(self, block: Block) -> list[Step]:
        """Type the commands of a console block; returns what they showed."""
        return [self._shown(step.head.removeprefix("$ ")) for step in steps(block.text)]

    def _shown(self, command: str) -> Step:
        command = self.here(command)
        _, shown = self.type(command)
        return Step(f"$ {self._elsewhere(command)}", tuple(map(str.rstrip, shown.splitlines())))

    def type(self, command: str) -> tuple[int, str]:
        """Run a command; returns its exit status, and what a terminal would show.

        What it starts has committed a batch then; an attached ``run`` goes on behind it.
        """
        words = shlex.split(command, comments=True)
        starts = words[:2] == ["flinkish", "run"]
        if starts and "--if-not-running" not in words:
            self.end(_name(words))
        command = self.here(command)
        if starts and not {"-s", "--plan", "--resume", "--if-not-running", "--sink-ahead"} & set(
            words
        ):
            # A page starts its program more than once, each time to show another start of it.
            command = command.replace("flinkish run", "flinkish run --sink-ahead rebase", 1)
        if starts and "-d" not in words:
            return self._attach(command, _name(words)), ""
        with tempfile.TemporaryFile("w+") as shown:
            code = self._popen(command, shown).wait(PATIENCE)
            shown.seek(0)
            text = shown.read()
        if code == 0 and words[:2] in (["flinkish", w] for w in ("run", "restart", "recover")):
            self._wait_for_batches()
        return code, self._elsewhere(text)

    def here(self, command: str) -> str:
        """Return a command of a page with the places that there are here."""
        for place, mine in self._places.items():
            command = command.replace(place, mine)
        return _SAVEPOINT.sub(lambda match: self._newest(os.path.dirname(match[0])), command)

    def _elsewhere(self, text: str) -> str:
        return elsewhere(text, str(self.directory), "/srv")

    def end(self, name: str) -> None:
        """Stop the job of this name when one runs; an attached ``run`` of it has to end well."""
        with self.flinkish.registry() as registry:
            running = [j.job_id for j in registry.jobs() if j.name == name and not j.state.is_final]
        for job in running:
            self.flinkish.ok("stop", job, "-p", "ended")
        attached = self._attached.pop(name, None)
        if attached is not None:
            assert attached.wait(PATIENCE) == 0

    def kill(self, *kinds: str) -> None:
        """Kill the processes that have such words in their command line; without words, all."""
        for pid in self.flinkish.processes():
            with suppress(OSError):  # ended with one that was killed before it
                line = Path(f"/proc/{pid}/cmdline").read_text()
                if not kinds or any(kind in line for kind in kinds):
                    os.kill(pid, signal.SIGKILL)
        if not kinds:
            wait_until(lambda: not self.flinkish.processes())

    def close(self) -> None:
        """End the attached runs as they should end, then what still runs."""
        try:
            for name in list(self._attached):
                self.end(name)
        finally:
            self.flinkish.clean_up()

    def _attach(self, command: str, name: str) -> int:
        with (self.directory / f"{name}.shown").open("w") as shown:
            attached = self._attached[name] = self._popen(command, shown)
        self._wait_for_batches(attached)
        return 0

    def _wait_for_batches(self, attached: subprocess.Popen[str] | None = None) -> None:
        """Until all jobs run, and each of their queries has a batch."""

        def ready() -> bool:
            assert attached is None or attached.poll() is None, self._log()
            with self.flinkish.registry() as registry:
                jobs = [job.job_id for job in registry.jobs() if not job.state.is_final]
            records = [self.flinkish.job(job) for job in jobs]
            queries = [query for record in records for query in record["queries"]]
            return (
                bool(jobs)
                and all(record["state"] == "RUNNING" for record in records)
                and all(query["batch_id"] is not None for query in queries)
            )

        wait_until(ready)

    def _log(self) -> str:
        return "\n".join(path.read_text() for path in self.directory.glob("*.shown"))

    def _popen(self, command: str, shown: IO[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.directory,
            env=self.flinkish.environ,
            stdin=subprocess.DEVNULL,
            stdout=shown,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _newest(self, directory: str) -> str:
        listed = self.flinkish.ok("savepoint", "list", directory, "--json").json()["savepoints"]
        path: str = listed[0]["path"]
        return path if "://" in path else os.path.join(directory, os.path.basename(path))


def elsewhere(text: str, place: str, other: str) -> str:
    """Return what a command shows as if it had run in another directory: tables fit its name."""
    lines, at = text.splitlines(keepends=True), 0
    while at < len(lines):
        rows = _table(lines[at:])
        if any(place in cell for row in rows for cell in row):
            rows = [[cell.replace(place, other) for cell in row] for row in rows]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            padded = (map(str.ljust, row, widths) for row in rows)
            lines[at : at + len(rows)] = ["  ".join(row).rstrip() + "\n" for row in padded]
        at += len(rows) or 1
    return "".join(lines).replace(place, other)


def _table(lines: list[str]) -> list[list[str]]:
    """Return the cells of the table that the lines begin with; none where they begin with none."""
    if not _HEADER.fullmatch(lines[0].strip()):
        return []
    starts = [match.start() for match in re.finditer(r"\S+", lines[0])]
    rows = (line.rstrip("\n").ljust(starts[-1]) for line in lines)
    whole = takewhile(lambda row: all(row[at - 2 : at] == "  " for at in starts[1:]), rows)
    return [[row[at:end].strip() for at, end in pairwise([*starts, None])] for row in whole]


def _name(words: list[str]) -> str:
    """The name of the job that ``flinkish run`` starts: its option, or its program."""
    if "--name" in words:
        return words[words.index("--name") + 1]
    (program,) = (word for word in words if word.endswith(".py"))
    return program.removesuffix(".py")


@contextmanager
def desk(directory: Path, places: Mapping[str, str] = {}) -> Iterator[Desk]:
    """A desk at which nothing runs when one leaves it."""
    made = Desk(directory, places)
    try:
        yield made
    finally:
        made.close()
