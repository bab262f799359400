"""Figures of the package that may only fall: its modules, its repetition, its prose.

Whoever lowers one lowers the record with it; a change that raises one finds another way, or says in
its commit why the longer form is clearer, and raises the record. Modules that are too thin are
counted by their number. The sources are read by regular expressions, because parsing all of them
takes seconds.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "flinkish"
RECORD = {
    "modules": 561,
    "modules above 350 lines": 34,
    "modules above 500 lines": 0,
    "docstrings, lines in a thousand": 183,
    "pairs of dataclasses that share fields": 32,
    "local names that name an act": 18,
}
#: Two dataclasses that share as many field names are probably one thing.
SHARED = 5
#: Local names that say how a value was come by, not what it is.
ACTS = ("found", "known", "given", "shown", "made", "told", "done")
_DOCSTRING = re.compile(r'^[ \t]*r?"""(?:[^"\\]|\\.|"(?!""))*"""\n', re.MULTILINE)
_DATACLASS = re.compile(r"^@dataclass.*\n(?:@.*\n)*class (\w+).*\n((?:(?: .*)?\n)*)", re.MULTILINE)
_FIELD = re.compile(r"^    ([a-z]\w*): (?!ClassVar)", re.MULTILINE)
_WORD = re.compile(rf"\b(?:{'|'.join(ACTS)})\b")
_ACT = re.compile(
    rf"^\s+(?:\w+, )*({'|'.join(ACTS)})(?:, \w+)*(?:: [^=]+)? = "
    rf"|\bfor (?:\w+, )*({'|'.join(ACTS)})(?:, \w+)* in\b|\bas ({'|'.join(ACTS)}):"
)


@functools.cache
def sources() -> dict[str, str]:
    """The text of every module, by its path."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in paths}


def longer_than(lines: int) -> list[str]:
    counts = {name: text.count("\n") for name, text in sources().items()}
    return [f"{name}: {count} lines" for name, count in counts.items() if count > lines]


def docstrings() -> int:
    """The lines of docstrings in a thousand lines."""
    text = "".join(sources().values())
    lines: int = sum(each.count("\n") for each in _DOCSTRING.findall(text))
    return 1000 * lines // text.count("\n")


def alike() -> list[str]:
    """The pairs of dataclasses that share fields, those of one name in two modules too."""
    fields = {
        f"{module}:{name}": frozenset(_FIELD.findall(body))
        for module, text in sources().items()
        for name, body in _DATACLASS.findall(_DOCSTRING.sub("", text))
    }
    pairs = (
        (one, other, fields[one] & fields[other])
        for one, other in itertools.combinations(fields, 2)
    )
    return [
        f"{one} and {other}: {', '.join(sorted(both))}"
        for one, other, both in pairs
        if len(both) >= SHARED
    ]


def acts() -> list[str]:
    lines = {
        (module, text[text.rfind("\n", 0, word.start()) + 1 : text.find("\n", word.start())])
        for module, text in sources().items()
        for word in _WORD.finditer(text)
    }
    return [f"{module}: {line.strip()}" for module, line in sorted(lines) if _ACT.search(line)]


FIGURES: dict[str, Callable[[], int | list[str]]] = {
    "modules": lambda: list(sources()),
    "modules above 350 lines": lambda: longer_than(350),
    "modules above 500 lines": lambda: longer_than(500),
    "docstrings, lines in a thousand": docstrings,
    "pairs of dataclasses that share fields": alike,
    "local names that name an act": acts,
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_may_only_fall(name: str) -> None:
    measured = FIGURES[name]()
    number, which = (measured, []) if isinstance(measured, int) else (len(measured), measured)
    shown = "\n".join(which) if len(which) < 100 else ""
    assert number <= RECORD[name], f"{name}: {number}, and {RECORD[name]} are recorded\n{shown}"
