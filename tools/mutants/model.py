"""What a mutant is, and what became of one. Plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """One deliberate fault.

    Parameters
    ----------
    id: what it is called in reports and after ``--only``.
    what: the fault, one sentence.
    file: the file it is made in, relative to the checkout.
    old: the text that is replaced; it stands in the file ``count`` times.
    new: what stands there instead.
    near: test files (or tests, ``file::test``) that are run first: the likeliest to notice it.
    """

    id: str
    what: str
    file: str
    old: str
    new: str
    near: tuple[str, ...]
    count: int = 1


class Fate(str, Enum):
    """What became of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    #: Its module cannot be imported or its tests not be collected: that proves nothing.
    INVALID = "invalid"
    #: The test that failed fails without the fault, too.
    BROKEN = "broken"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant; ``test`` noticed it (or failed), in the stage ``stage``."""

    mutant: Mutant
    fate: Fate
    seconds: float
    test: str = ""
    stage: str = ""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for a report."""
        found = asdict(self)
        mutant = found.pop("mutant")
        kept = {key: mutant[key] for key in ("id", "what", "file")}
        return {**kept, **found, "fate": self.fate.value, "seconds": round(self.seconds, 1)}


class OutOfDate(Exception):
    """The list of mutants does not fit the source any more."""


def check_list(root: Path, mutants: Sequence[Mutant]) -> None:
    """Raise OutOfDate, naming all that is wrong, when the list does not fit the checkout."""
    wrong: list[str] = []
    seen: set[str] = set()
    for mutant in mutants:
        if mutant.id in seen:
            wrong.append(f"{mutant.id}: there is another mutant of this id")
        seen.add(mutant.id)
        wrong += [f"{mutant.id}: {problem}" for problem in _problems(root, mutant)]
    if wrong:
        raise OutOfDate("\n".join(wrong))


def _problems(root: Path, mutant: Mutant) -> list[str]:
    path = root / mutant.file
    if not path.is_file():
        return [f"there is no {mutant.file}"]
    found: list[str] = []
    count = path.read_text(encoding="utf-8").count(mutant.old)
    if count != mutant.count:
        found.append(f"its text stands in {mutant.file} {count} times, not {mutant.count}")
    if mutant.old == mutant.new:
        found.append("it changes nothing")
    if not mutant.near:
        found.append("it names no tests that are near")
    for near in mutant.near:
        file, _, test = near.partition("::")
        if not (root / file).is_file() or f"def {test}" not in (root / file).read_text("utf-8"):
            found.append(f"there is no {near}")
    return found
