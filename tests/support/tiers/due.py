"""Which test files of the slow tiers are due, since when, and why.

A file is due when a file it depends on (:mod:`.graph`) is not what it was at the commit of its
record. Python files are compared by what they do (:func:`.sources.digest`), others by their bytes;
of ``pyproject.toml`` and the ``Makefile`` only the pins of packages count.

For the matrix the modules of ``flinkish/cli`` do not count, though what they import does: the
command line parses and renders and computes nothing, it is the same under every Spark, and the
fast tier calls each command and compares its output on every run.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

from tests.support.tiers import sources
from tests.support.tiers.graph import Graph, module_of
from tests.support.tiers.parts import PARTS, Part
from tests.support.tiers.records import FileRecord, Records
from tests.support.tiers.repository import Repository

#: `make test` warns when a file has been due for this many commits, and fails after so many.
WARNED = 100
OLDEST = 150


def _packages(pyproject: bytes) -> str:
    """Return the required packages, whichever list names them; other settings change no test."""
    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = tomllib.loads(pyproject.decode())["project"]
    lists = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    return str(sorted({each for of in lists for each in of if not each.startswith("flinkish[")}))


def _spark35_packages(makefile: bytes) -> str:
    """Return what jobs have on Spark 3.5; the tools of its tests are no part of what is tested."""
    return str(re.findall(rb"pip install --quiet (pyspark==.*?)\n\t[$@]", makefile, re.S))


_PINS = {"pyproject.toml": _packages, "Makefile": _spark35_packages}


@dataclass(frozen=True)
class Standing:
    """A file of a part and its record.

    Parameters
    ----------
    why
        The first changed dependency, or what else makes it due; None where it is not due.
    commits
        For how many commits it has been due; 0 when what has changed is not committed.
    """

    part: Part
    file: str
    record: FileRecord | None
    why: str | None = None
    commits: int = 0


class Judge:
    """Holds the records against the files as they are now."""

    def __init__(self, repository: Repository, records: Records, cache: Path | None = None) -> None:
        self._repository = repository
        self._records = records
        self._cache = cache
        self._sources: dict[tuple[str, str], sources.Source] = self._cached()
        self._digests: dict[tuple[str, str | None], str | None] = {}
        self._graphs: dict[str, Graph | None] = {}
        self.now = self._graph(repository.work_tree())
        self._keep()

    @cached_property
    def _history(self) -> list[tuple[str, dict[str, tuple[str | None, str | None]]]]:
        return [
            (commit.id, {change.path: (change.before, change.after) for change in commit.changes})
            for commit in self._repository.history()
        ]

    def standings(self) -> list[Standing]:
        """Return all files of the slow tiers, the most due first."""
        found = [
            self.standing(part, file)
            for part in PARTS
            for file in (
                self.now.files_of(part.mark) if part.mark else filter(part.has, self.now.sources)
            )
        ]
        self._keep()
        return sorted(found, key=urgency)

    def standing(self, part: Part, file: str) -> Standing:
        """Return whether a file is due, and since when."""
        record = self._records.of(part.name, file)
        if record is None:
            return Standing(part, file, None, "never recorded", self._in_part_for(part, file))
        then = self._at(record.commit)
        if then is None:
            commits = self._commits_since(self._repository.introduced(record.commit))
            return Standing(part, file, record, "its commit is not in this history", commits)
        first = self._first_change(record.commit, then, self._compared(part, file, then))
        return Standing(part, file, record, *first) if first else Standing(part, file, record)

    def _compared(self, part: Part, file: str, then: Graph) -> set[str]:
        paths = {*then.dependencies(file), *self.now.dependencies(file), "pyproject.toml"}
        if part.tier == "matrix":
            paths = {path for path in paths if not path.startswith("flinkish/cli/")} | {"Makefile"}
        return paths

    def _differs(self, path: str, then: Graph) -> bool:
        before, after = then.tree.get(path), self.now.tree.get(path)
        return self._digest(path, before) != self._digest(path, after)

    def _digest(self, path: str, blob: str | None) -> str | None:
        if blob is None or not (path.endswith(".py") or path in _PINS):
            return blob
        if (path, blob) not in self._digests:
            content = self._repository.contents([blob])[blob]
            pins = _PINS.get(path)
            self._digests[path, blob] = pins(content) if pins else sources.digest(content)
        return self._digests[path, blob]

    def _first_change(
        self, commit: str, then: Graph, paths: Iterable[str]
    ) -> tuple[str, int] | None:
        """Return which path changed first after a commit, and how many commits ago.

        None where all do now what they did then.
        """
        suspects = {path for path in paths if then.tree.get(path) != self.now.tree.get(path)}
        for number in range(self._position(commit) - 1, -1, -1):
            changes = self._history[number][1]
            for path in sorted(suspects & changes.keys()):
                before, after = changes[path]
                if self._digest(path, before) == self._digest(path, after):
                    continue
                if self._differs(path, then):
                    return path, number + 1
                suspects.discard(path)
        return next(((path, 0) for path in sorted(suspects) if self._differs(path, then)), None)

    def _position(self, commit: str) -> int:
        """Return how many commits were made since one; a merged one counts from where it began."""
        ids = [each for each, _ in self._history]
        base: str | None = commit
        while base and base not in ids:
            base = self._repository.branched_from(base)
        return ids.index(base) if base else len(ids)

    def _commits_since(self, commit: str | None) -> int:
        return self._position(commit) + 1 if commit else 0

    def _in_part_for(self, part: Part, file: str) -> int:
        """Return for how many commits a file has been in a part."""
        commits = 0
        for number, (_, changes) in enumerate(self._history):
            if file in changes:
                _, after = changes[file]
                if after is None or not self._has(part, file, after):
                    break
                commits = number + 1
        return commits

    def _has(self, part: Part, file: str, blob: str) -> bool:
        if part.mark is None:
            return part.has(file)
        return self.now.has(file, self._source(file, blob), part.mark)

    def _at(self, commit: str) -> Graph | None:
        if commit not in self._graphs:
            tree = self._repository.tree(commit)
            self._graphs[commit] = None if tree is None else self._graph(tree)
        return self._graphs[commit]

    def _graph(self, tree: dict[str, str]) -> Graph:
        modules = {(path, blob) for path, blob in tree.items() if path.endswith(".py")}
        missing = modules - self._sources.keys()
        contents = self._repository.contents(blob for _, blob in missing)
        for path, blob in missing:
            self._sources[path, blob] = self._read(path, contents[blob])
        return Graph(tree, self._source)

    def _source(self, path: str, blob: str) -> sources.Source:
        if (path, blob) not in self._sources:
            content = self._repository.contents([blob])[blob]
            self._sources[path, blob] = self._read(path, content)
        return self._sources[path, blob]

    @staticmethod
    def _read(path: str, content: bytes) -> sources.Source:
        is_package = path.endswith("/__init__.py")
        return sources.read(content, module_of(path), is_package=is_package)

    def _key(self) -> str:
        """What parsed sources are kept under: who parsed them, and how."""
        code = Path(sources.__file__).read_bytes()
        return hashlib.sha256(code + sys.version.encode()).hexdigest()

    def _cached(self) -> dict[tuple[str, str], sources.Source]:
        if self._cache is None or not self._cache.exists():
            return {}
        key, found = pickle.loads(self._cache.read_bytes())
        return dict(found) if key == self._key() else {}

    def _keep(self) -> None:
        if self._cache is not None:
            self._cache.parent.mkdir(parents=True, exist_ok=True)
            new = self._cache.with_suffix(f".{os.getpid()}")
            new.write_bytes(pickle.dumps((self._key(), self._sources)))
            os.replace(new, self._cache)


def urgency(standing: Standing) -> tuple[bool, bool, bool, int, str]:
    """Order the most due first: never recorded, then due after a failure, then due for long."""
    record = standing.record
    failed = record is not None and bool(record.failures)
    return (standing.why is None, record is not None, not failed, -standing.commits, standing.file)


def seconds_of(standings: Iterable[Standing]) -> tuple[float, int]:
    """Return the recorded seconds of files, and how many of them were never timed."""
    records = [standing.record for standing in standings]
    known = [record.seconds for record in records if record and record.seconds is not None]
    return sum(known), len(records) - len(known)


def describe(standings: Iterable[Standing], workers: int, *, whole: bool = True) -> list[str]:
    """Return what of each tier is due: one line each, and with ``whole`` one for each file."""
    lines = []
    everything = list(standings)
    for tier in dict.fromkeys(standing.part.tier for standing in everything):
        files = [standing for standing in everything if standing.part.tier == tier]
        due = [standing for standing in files if standing.why is not None]
        line = f"test-{tier}: {len(due)} of {len(files)} files are due"
        if due:
            seconds, unknown = seconds_of(due)
            line += f", the oldest for {max(each.commits for each in due)} commits"
            line += f"; {seconds / workers / 60:.0f} minutes with {workers} workers"
            line += f" and {unknown} files that were never timed" if unknown else ""
        lines.append(line)
        for each in due if whole else ():
            taken = each.record.seconds if each.record else None
            time = "      ?" if taken is None else f"{taken / 60:4.1f} min"
            name = each.file + (f" ({each.part.name})" if each.part.name != tier else "")
            age = f"for {each.commits} commits" if each.commits else "not committed"
            lines.append(f"  {age:>15}  {time}  {name}: {each.why}")
    return lines


def complaints(standings: Iterable[Standing], workers: int) -> tuple[list[str], list[str]]:
    """Return what fails `make test`, and what it warns of."""
    everything = list(standings)
    errors = [
        f"nobody has explained why {test} failed in test-{each.part.tier}: mend it, or write why "
        f"with `python -m tests.support.tiers explain`"
        for each in everything
        for test in (each.record.unexplained if each.record else ())
    ]
    warnings: list[str] = []
    for tier in dict.fromkeys(part.tier for part in PARTS):
        due = [each for each in everything if each.part.tier == tier and each.why is not None]
        for bound, told in ((OLDEST, errors), (WARNED - 1, warnings)):
            late = [each for each in due if each.commits > bound]
            if late:
                seconds, unknown = seconds_of(late)
                more = f" and {unknown} files that were never timed" if unknown else ""
                told.append(
                    f"{len(late)} files of test-{tier} have been due for more than {bound} commits,"
                    f" such as {late[0].file}: `make test-{tier}` runs them first"
                    f" ({seconds / workers / 60:.0f} minutes with {workers} workers{more})"
                )
                break
    return errors, warnings
