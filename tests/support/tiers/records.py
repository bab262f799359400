"""What ``tests/deep_record.json`` says of the slow tiers, and whether that will do.

Pure but for :func:`load` and :func:`save`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parents[2] / "deep_record.json"
TIERS = ("deep", "matrix")
#: A tier that was last run more commits ago than this has not been run.
OLDEST = 60
#: The number of the commit from which on this is demanded: a tier never recorded counts from it.
BEGAN = 177
_VERSION = 1


@dataclass(frozen=True)
class Failure:
    """A test that failed in a recorded run, and what somebody found out about it."""

    test: str
    explanation: str = ""


@dataclass(frozen=True)
class Run:
    """One run of a whole tier.

    Parameters
    ----------
    commit, number
        The commit that was tested, and how many commits lead to it (its own included).
    date
        When the run ended, UTC, ISO 8601.
    machine
        Cores, memory and versions; no name.
    duration
        Seconds of testing, the sum over all parts and shards.
    again
        Tests that failed at first and passed when they were run again on the same commit.
    """

    commit: str
    number: int
    date: str
    machine: str
    passed: int
    failed: int
    skipped: int
    duration: float
    failures: tuple[Failure, ...] = ()
    again: tuple[str, ...] = ()

    @property
    def is_green(self) -> bool:
        return self.failed == 0 and self.passed > 0


@dataclass(frozen=True)
class Tier:
    """The newest run of a tier, and its newest run without a failure."""

    last: Run
    green: Run | None = None


@dataclass(frozen=True)
class Records:
    tiers: Mapping[str, Tier] = field(default_factory=dict)

    def with_run(self, tier: str, run: Run) -> Records:
        """Return the records after another run of a tier."""
        before = self.tiers.get(tier)
        green = run if run.is_green else (before.green if before else None)
        return Records({**self.tiers, tier: Tier(run, green)})

    def explained(self, test: str, explanation: str) -> Records:
        """Return the records with a reason behind a failure.

        Raises
        ------
        KeyError
            No newest run of a tier has a failure of this test.
        """
        tiers = dict(self.tiers)
        found = False
        for name, tier in self.tiers.items():
            if test in {failure.test for failure in tier.last.failures}:
                found = True
                failures = tuple(
                    replace(failure, explanation=explanation) if failure.test == test else failure
                    for failure in tier.last.failures
                )
                tiers[name] = replace(tier, last=replace(tier.last, failures=failures))
        if not found:
            raise KeyError(test)
        return Records(tiers)


def describe(records: Records, number: int) -> list[str]:
    """Return a line for each tier: when it was last run, and how many commits ago it was green."""
    lines = []
    for name in TIERS:
        tier = records.tiers.get(name)
        if tier is None:
            lines.append(f"test-{name}: never recorded")
            continue
        last = tier.last
        green = "never green" if tier.green is None else f"green {_ago(number, tier.green)}"
        lines.append(
            f"test-{name}: {green}; last run {_ago(number, last)}, {last.date[:10]}: "
            f"{last.passed} passed, {last.failed} failed, {last.skipped} skipped "
            f"in {last.duration / 60:.0f} min of tests"
        )
    return lines


def complaints(records: Records, number: int) -> list[str]:
    """Return why the records will not do, by rule; nothing where they will.

    Parameters
    ----------
    number
        How many commits lead to the one that is tested now.
    """
    found = []
    for name in TIERS:
        tier = records.tiers.get(name)
        if tier is None:
            if number - BEGAN > OLDEST:
                found.append(f"test-{name} was never recorded: run `make test-{name}`")
            continue
        age = number - tier.last.number
        if age > OLDEST:
            found.append(
                f"test-{name} was last run {age} commits ago, {OLDEST} are allowed: "
                f"run `make test-{name}`"
            )
        unexplained = [f.test for f in tier.last.failures if not f.explanation.strip()]
        found += [
            f"test-{name}: nobody has explained why {test} failed: mend it, or write why with "
            f"`python -m tests.support.tiers explain`"
            for test in unexplained
        ]
    return found


def _ago(number: int, run: Run) -> str:
    commits = number - run.number
    return "at this commit" if commits == 0 else f"{commits} commits ago"


def load(path: Path = RECORD) -> Records:
    """Read the records; none where there is no file."""
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return Records()
    if document["schema_version"] != _VERSION:
        raise ValueError(f"{path}: schema_version {document['schema_version']}, not {_VERSION}")
    return Records(
        {
            name: Tier(_run(tier["last"]), tier["green"] and _run(tier["green"]))
            for name, tier in document["tiers"].items()
        }
    )


def save(records: Records, path: Path = RECORD) -> None:
    """Write the records."""
    tiers = {name: asdict(tier) for name, tier in sorted(records.tiers.items())}
    path.write_text(json.dumps({"schema_version": _VERSION, "tiers": tiers}, indent=1) + "\n")


def _run(document: dict[str, Any]) -> Run:
    failures: Sequence[Any] = document["failures"]
    return Run(
        **{
            **document,
            "failures": tuple(Failure(**failure) for failure in failures),
            "again": tuple(document["again"]),
        }
    )
