"""What a compatibility table says, as plain data. The files' form: ``data/schema.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

SPARK = "spark"
FLINK = "flink"
FRAMEWORKS = (SPARK, FLINK)

STATELESS = "stateless"  # the operator of cells and uses that speak of a query without state
NO_BACKEND = "none"


class CompatVerdict(str, Enum):
    """Whether a savepoint can be resumed, from the best answer to the worst."""

    OK = "ok"
    OK_WITH_LIMITATIONS = "ok-with-limitations"
    UNKNOWN = "unknown"
    NEEDS_MIGRATION = "needs-migration"
    FAILS = "fails"

    @property
    def badness(self) -> int:
        """0 for the best verdict; the higher, the worse."""
        return list(CompatVerdict).index(self)


@dataclass(frozen=True)
class Version:
    """A version as a user wrote it; ``patch`` is None when only the line was given."""

    line: str
    patch: int | None = None

    def __str__(self) -> str:
        return self.line if self.patch is None else f"{self.line}.{self.patch}"


@dataclass(frozen=True)
class Releases:
    """Some releases of one line: those with a patch number from ``low`` to ``high``, or all."""

    line: str
    low: int | None = None
    high: int | None = None

    def may_contain(self, version: Version) -> bool:
        """True when ``version`` is among them, or could be as its patch number is not said."""
        if version.line != self.line:
            return False
        if version.patch is None or self.low is None or self.high is None:
            return True
        return self.low <= version.patch <= self.high


class Rewrite(str, Enum):
    """What the state-migration engine has to do, so that a Spark can go on with a savepoint."""

    CHECKPOINT_FORMAT_1 = "checkpoint-format-1"
    JOIN_FORMAT_2 = "join-format-2"
    LISTS = "lists"  # as that Spark has them in RocksDB


@dataclass(frozen=True)
class Limitation:
    """What does not work, or only in some way, and the way out.

    ``rewrite`` is what the engine can do about it at a restore, if it can. ``releases`` is for
    those that concern only some releases of the lines in their cells: pairs of (created with,
    resumed with); empty: all releases.
    """

    id: str
    text: str
    advice: str
    rewrite: Rewrite | None = None
    releases: tuple[tuple[Releases, Releases], ...] = ()

    def concerns(self, created: Version, resumed: Version) -> bool:
        """True when it holds for these two versions, or could as a patch number is not said."""
        return not self.releases or any(
            old.may_contain(created) and new.may_contain(resumed) for old, new in self.releases
        )


@dataclass(frozen=True)
class Precondition:
    """What must hold for any migration, whatever the versions."""

    id: str
    text: str
    advice: str


@dataclass(frozen=True)
class Cell:
    """The verdict for one pair of lines; in Spark's table for one operator, backend and formats.

    ``formats`` are the state and log formats in use that are not the default; ``error`` is the
    first line of what Spark said where it failed.
    """

    created: str
    resumed: str
    verdict: CompatVerdict
    limitations: tuple[str, ...] = ()
    operator: str | None = None
    backend: str | None = None
    formats: frozenset[str] = frozenset()
    error: str | None = None


@dataclass(frozen=True)
class VersionLine:
    """A version line of the table, and the release it was measured with, where it was."""

    line: str
    measured: str | None = None


@dataclass(frozen=True)
class Matrix:
    """A whole table."""

    framework: str
    scope: str
    versions: tuple[VersionLine, ...]
    limitations: Mapping[str, Limitation]
    cells: tuple[Cell, ...]
    preconditions: tuple[Precondition, ...] = ()
    measured: str | None = None  # the day, as YYYY-MM-DD
    source: str | None = None  # the page, when it was not measured

    @property
    def lines(self) -> tuple[str, ...]:
        """Its version lines, oldest first."""
        return tuple(version.line for version in self.versions)

    def between(self, created: str, resumed: str) -> tuple[Cell, ...]:
        """The cells of a pair of lines; none when the table says nothing about it."""
        return self._by_pair.get((created, resumed), ())

    @cached_property
    def _by_pair(self) -> Mapping[tuple[str, str], tuple[Cell, ...]]:
        pairs: dict[tuple[str, str], tuple[Cell, ...]] = {}
        for cell in self.cells:
            pair = (cell.created, cell.resumed)
            pairs[pair] = (*pairs.get(pair, ()), cell)
        return pairs
