"""What a release may change: Flink's table of annotations and releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum


class Annotation(str, Enum):
    """The decorators of :mod:`flinkish.annotations`; what has none is internal."""

    PUBLIC = "public"
    PUBLIC_EVOLVING = "public_evolving"
    EXPERIMENTAL = "experimental"


class Release(IntEnum):
    """The kinds of releases, the least one first."""

    PATCH = 0
    MINOR = 1
    MAJOR = 2


class Level(str, Enum):
    """What a change breaks.

    SOURCE: a program that uses what is documented, by name, has to be changed. CALL: a call is
    accepted as before, but may mean something else, such as another default.
    """

    SOURCE = "source"
    CALL = "call"


#: The least release that may break what has the annotation.
MAY_BREAK: Mapping[Annotation, Mapping[Level, Release]] = {
    Annotation.PUBLIC: {Level.SOURCE: Release.MAJOR, Level.CALL: Release.MINOR},
    Annotation.PUBLIC_EVOLVING: {Level.SOURCE: Release.MINOR, Level.CALL: Release.MINOR},
    Annotation.EXPERIMENTAL: {Level.SOURCE: Release.PATCH, Level.CALL: Release.PATCH},
}


@dataclass(frozen=True)
class Change:
    """A change that may break who uses ``what``."""

    what: str
    text: str
    annotation: Annotation
    level: Level = Level.SOURCE

    @property
    def needs(self) -> Release:
        """The least release that may have it."""
        return MAY_BREAK[self.annotation][self.level]

    def is_allowed(self, release: Release) -> bool:
        """Return whether a release may have it."""
        return release >= self.needs

    def __str__(self) -> str:
        return f"{self.what}: {self.text} ({self.annotation.value}, {self.level.value})"


def release_between(recorded: str, now: str) -> Release:
    """Return the kind of release that leads from one version to another.

    The same version stands for its next patch release. Before 1.0 a minor release is what a major
    one is later, as Semantic Versioning has it.
    """
    old, new = ([int(part) for part in text.split(".")[:2]] for text in (recorded, now))
    if old[0] != new[0]:
        return Release.MAJOR
    if old[1] != new[1]:
        return Release.MAJOR if old[0] == 0 else Release.MINOR
    return Release.PATCH
