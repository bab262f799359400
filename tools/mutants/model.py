"""What a mutant is, and what became of one. Plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from tools.mutants.operators import Operator
from tools.mutants.source import Source, Unfit, mutated


@dataclass(frozen=True)
class Mutant:
    """One deliberate fault.

    Parameters
    ----------
    id: what it is called in reports and after ``--only``.
    what: the fault, one sentence.
    place: the function, class or constant it is made in: its qualified name, with a room or module
        before it where several have that name (see :mod:`tools.mutants.source`).
    operator: what becomes of it.
    near: test files (or tests, ``file::test``) that are run first: the likeliest to notice it.
    """

    id: str
    what: str
    place: str
    operator: Operator
    near: tuple[str, ...]


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
        kept = {key: mutant[key] for key in ("id", "what", "place")}
        return {**kept, **found, "fate": self.fate.value, "seconds": round(self.seconds, 1)}


class OutOfDate(Exception):
    """The list of mutants does not fit the source any more."""


def check_list(source: Source, mutants: Sequence[Mutant]) -> None:
    """Raise OutOfDate, naming all that is wrong, when the list does not fit the checkout."""
    wrong: list[str] = []
    seen: set[str] = set()
    for mutant in mutants:
        if mutant.id in seen:
            wrong.append(f"{mutant.id}: there is another mutant of this id")
        seen.add(mutant.id)
        wrong += [f"{mutant.id}: {problem}" for problem in _problems(source, mutant)]
    if wrong:
        raise OutOfDate("\n".join(wrong))


def _problems(source: Source, mutant: Mutant) -> list[str]:
    found: list[str] = []
    try:
        compile(mutated(source.find(mutant.place), mutant.operator), mutant.id, "exec")
    except (Unfit, SyntaxError) as error:
        found.append(str(error))
    if not mutant.near:
        found.append("it names no tests that are near")
    for near in mutant.near:
        path, test = source.root / near.partition("::")[0], near.partition("::")[2]
        if not path.is_file() or f"def {test}" not in path.read_text("utf-8"):
            found.append(f"there is no {near}")
    return found
