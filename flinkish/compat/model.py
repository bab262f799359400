"""Versions, and the contents of a compatibility table (``data/schema.json`` describes its file)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from flinkish.errors import UsageError

SPARK = "spark"
FLINK = "flink"
FRAMEWORKS = (SPARK, FLINK)

STATELESS = "stateless"  # the operator of a query without state, in a ``Cell`` or a ``Use``
NO_BACKEND = "none"

_NUMBER = r"(0|[1-9][0-9]{0,3})"
#: A line, with or without a name, ``v``, a patch (``x``: any) and the suffix of a build or vendor.
_VERSION = re.compile(
    rf"(?:(?:apache[-_ ])?(?P<name>[a-z]+)[-_ ])?v?{_NUMBER}\.{_NUMBER}(?:\.(?:{_NUMBER}|x|\*))?"
    r"(?:[-.+_][a-z0-9][a-z0-9.+_-]*|(?:a|b|rc|dev|preview)[0-9]+)?",
    re.IGNORECASE,
)
_NAMES = {"spark": SPARK, "pyspark": SPARK, "flink": FLINK, "pyflink": FLINK}


class CompatVerdict(str, Enum):
    """The answer to whether a savepoint can be resumed, from the best to the worst."""

    OK = "ok"
    OK_WITH_LIMITATIONS = "ok-with-limitations"
    UNKNOWN = "unknown"
    NEEDS_MIGRATION = "needs-migration"
    FAILS = "fails"

    @property
    def badness(self) -> int:
        """0 for the best verdict; a higher number is worse."""
        return list(CompatVerdict).index(self)


@dataclass(frozen=True)
class Version:
    """A version line and a patch number; ``patch`` is None if only the line is known."""

    line: str
    patch: int | None = None

    def __str__(self) -> str:
        return self.line if self.patch is None else f"{self.line}.{self.patch}"


@dataclass(frozen=True)
class Releases:
    """Releases of one line: those with a patch number from ``low`` to ``high``, or all."""

    line: str
    low: int | None = None
    high: int | None = None

    def may_contain(self, version: Version) -> bool:
        """Return whether the releases contain ``version``, or may if it has no patch number."""
        if version.line != self.line:
            return False
        if version.patch is None or self.low is None or self.high is None:
            return True
        return self.low <= version.patch <= self.high


class Rewrite(str, Enum):
    """A rewrite by the state-migration engine so that another Spark can resume a savepoint."""

    CHECKPOINT_FORMAT_1 = "checkpoint-format-1"
    JOIN_FORMAT_2 = "join-format-2"
    LISTS = "lists"  # list state, into the form that the other Spark keeps in RocksDB


@dataclass(frozen=True)
class Limitation:
    """Something that does not work, or works only partly, and the advice for it.

    Attributes
    ----------
    rewrite
        The rewrite that removes the limitation at a restore, if there is one.
    releases
        Pairs of (created with, resumed with), for a limitation that concerns only some releases of
        the lines in its cells; empty if it concerns all.
    """

    id: str
    text: str
    advice: str
    rewrite: Rewrite | None = None
    releases: tuple[tuple[Releases, Releases], ...] = ()

    def concerns(self, created: Version, resumed: Version) -> bool:
        """Return whether it applies to these versions, or may if one has no patch number."""
        return not self.releases or any(
            old.may_contain(created) and new.may_contain(resumed) for old, new in self.releases
        )


@dataclass(frozen=True)
class Precondition:
    """A condition of every migration, between any versions."""

    id: str
    text: str
    advice: str


@dataclass(frozen=True)
class Cell:
    """The verdict for two lines or releases; Spark's also has an operator, a backend and formats.

    Attributes
    ----------
    formats
        The state and log formats in use that are not the default.
    error
        The first line of Spark's error message, if resuming failed.
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
    """A version line of the table, and the release that stands for it, if it was measured.

    ``also`` are other measured releases of the line; they have their own cells where the answer
    differs from the line's.
    """

    line: str
    measured: str | None = None
    also: tuple[str, ...] = ()

    @property
    def releases(self) -> tuple[str, ...]:
        """All its measured releases, oldest first."""
        measured = () if self.measured is None else (self.measured,)
        return tuple(sorted((*self.also, *measured), key=_patch))


class Evidence(str, Enum):
    """How the table's answer for a release is known: from the release itself, or from others.

    MEASURED means that the release itself was measured, BETWEEN that an older and a newer release
    of its line were measured, LINE that some release of its line was measured, NONE that no release
    of its line was measured.
    """

    MEASURED = "measured"
    BETWEEN = "between"
    LINE = "line"
    NONE = "none"


@dataclass(frozen=True)
class Matrix:
    """The compatibility table of one framework."""

    framework: str
    scope: str
    versions: tuple[VersionLine, ...]
    limitations: Mapping[str, Limitation]
    cells: tuple[Cell, ...]
    preconditions: tuple[Precondition, ...] = ()
    measured: str | None = None  # the day of the measurement, as YYYY-MM-DD
    source: str | None = None  # the page of the documentation, when it was not measured

    @property
    def lines(self) -> tuple[str, ...]:
        """Its version lines, oldest first."""
        return tuple(version.line for version in self.versions)

    def between(self, created: str, resumed: str) -> tuple[Cell, ...]:
        """Return the cells of a pair of lines or releases; empty if the table has none."""
        return self._by_pair.get((created, resumed), ())

    def line_of(self, version: Version) -> VersionLine | None:
        """Return the line of a version; None if the table does not have it."""
        return next((one for one in self.versions if one.line == version.line), None)

    def evidence(self, version: Version) -> tuple[Evidence, tuple[str, ...]]:
        """Return how the answer for a version is known, and from which releases it comes."""
        line = self.line_of(version)
        releases = () if line is None else line.releases
        if not releases:
            return Evidence.NONE, ()
        if version.patch is None:
            return Evidence.LINE, releases
        if str(version) in releases:
            return Evidence.MEASURED, (str(version),)
        older = [release for release in releases if _patch(release) < version.patch]
        newer = [release for release in releases if _patch(release) > version.patch]
        both = (*older[-1:], *newer[:1])
        return (Evidence.BETWEEN if len(both) == 2 else Evidence.LINE), both

    @cached_property
    def _by_pair(self) -> Mapping[tuple[str, str], tuple[Cell, ...]]:
        pairs: dict[tuple[str, str], tuple[Cell, ...]] = {}
        for cell in self.cells:
            pair = (cell.created, cell.resumed)
            pairs[pair] = (*pairs.get(pair, ()), cell)
        return pairs


def _patch(release: str) -> int:
    """Return the patch number of a measured release."""
    return int(release.rpartition(".")[2])


def parse_version(text: str, framework: str, lines: Sequence[str] = ()) -> Version:
    """Parse ``1.8``, ``1.8.x``, ``1.8.2``, ``v4.3.0``, ``4.3.0-SNAPSHOT``, ``spark-3.5.9``.

    Suffixes of builds and vendors do not affect the state format and are dropped. A line that no
    table has is still a valid version; ``lines`` are the table's lines, for the error's hint.
    Raises UsageError if the text is not a version, or names another framework.
    """
    hint = f"give a version such as {lines[-1]} or {lines[-1]}.0" if lines else ""
    if lines:
        hint += f"; the table knows {', '.join(lines)}"
    match = _VERSION.fullmatch(text.strip())
    name = (match["name"] or framework).lower() if match else framework
    if match is None or name not in _NAMES:
        raise UsageError(f"{text!r} is not a version of {framework}", hint=hint)
    if _NAMES[name] != framework:
        other = next(one for one in FRAMEWORKS if one == _NAMES[name])
        raise UsageError(
            f"{text!r} is a version of {other}, not of {framework}",
            hint=f"ask for the other table with --framework {other}",
        )
    major, minor, patch = match.group(2, 3, 4)
    return Version(f"{major}.{minor}", None if patch is None else int(patch))
