"""Flink's table against a second reading of "Upgrading Applications and Flink Versions".

The rows of 1.1 to 1.7 and their limitations are on the page of Flink 1.18, those up to 1.20 on that
of 1.20 and all later ones; what holds between 1.x and 2.x is in the release notes of 2.0.
"""

from __future__ import annotations

import itertools

import pytest

from flinkish.compat.data import load
from flinkish.compat.lookup import compare_versions, route
from flinkish.compat.model import FLINK, CompatVerdict, parse_version

LINES = [f"1.{minor}" for minor in range(1, 21)]
NEXT = ["2.0", "2.1", "2.2"]
#: Marks in each row of the page; they begin at the row's own version.
MARKS = dict(
    zip(LINES, [3, 15, 14, 13, 12, 11, 10, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1], strict=True)
)


def _to(created: str, first: int, last: int) -> set[tuple[str, str]]:
    return {(created, f"1.{minor}") for minor in range(first, last + 1)}


#: Limitation -> the pairs of lines it concerns, read from the page's last column.
CONCERNED = {
    "fixed-parallelism": _to("1.1", 2, 3),
    "operator-chains": _to("1.1", 3, 3) | _to("1.2", 3, 16),
    "parallelism-at-the-same-time": _to("1.2", 3, 16),
    "cep-applications": _to("1.2", 4, 16),
    "traversable-serializer": _to("1.2", 8, 16),
    "scala-case-classes": {("1.3", "1.4")},
    "broadcast-state": {("1.5", "1.6"), ("1.5", "1.7")},
    "unaligned-checkpoint": {("1.12", "1.13")},
    "table-api-uids": _to("1.15", 15, 20),
}


def _verdict(created: str, resumed: str) -> tuple[str, list[str]]:
    found = compare_versions(
        load(FLINK), parse_version(created, FLINK), parse_version(resumed, FLINK)
    )
    return found.verdict.value, [limitation.id for limitation in found.limitations]


def test_all_lines_are_there() -> None:
    assert load(FLINK).lines == (*LINES, *NEXT)
    assert len(load(FLINK).cells) == (len(LINES) + len(NEXT)) ** 2 - len(NEXT) ** 2


def test_nothing_is_said_of_2_x_but_that_1_x_is_not_guaranteed() -> None:
    for created, resumed in itertools.product(LINES, NEXT):
        assert _verdict(created, resumed) == ("unknown", ["major-version"])
        assert _verdict(resumed, created)[0] == "fails"
    for created, resumed in itertools.product(NEXT, NEXT):
        assert _verdict(created, resumed) == ("ok" if created == resumed else "unknown", [])


@pytest.mark.parametrize("created", LINES)
def test_a_row_has_the_page_s_marks(created: str) -> None:
    start = LINES.index(created)
    marked = LINES[start : start + MARKS[created]]
    assert len(marked) == MARKS[created]
    assert [to for to in LINES if _verdict(created, to)[0] != "fails"] == marked


def test_where_the_rows_end() -> None:
    last = {created: LINES[LINES.index(created) + marks - 1] for created, marks in MARKS.items()}
    assert last["1.1"] == "1.3"
    assert {last[line] for line in LINES[1:7]} == {"1.16"}
    assert {last[line] for line in LINES[7:]} == {"1.20"}


@pytest.mark.parametrize("limitation", CONCERNED)
def test_a_limitation_concerns_these_pairs(limitation: str) -> None:
    pairs = itertools.product(LINES, LINES)
    assert {(a, b) for a, b in pairs if limitation in _verdict(a, b)[1]} == CONCERNED[limitation]


def test_there_are_no_other_limitations() -> None:
    assert set(load(FLINK).limitations) == {"not-in-table", "major-version", *CONCERNED}
    limited = set().union(*CONCERNED.values())
    for pair in itertools.product(LINES, LINES):
        verdict, limitations = _verdict(*pair)
        if verdict == "fails":
            assert limitations == ["not-in-table"]
        else:
            assert verdict == ("ok-with-limitations" if pair in limited else "ok")


@pytest.mark.parametrize(
    ("created", "resumed", "limitation", "concerned"),
    [
        ("1.3.0", "1.4.0", "scala-case-classes", True),
        ("1.3.0", "1.4.1", "scala-case-classes", True),
        ("1.3.0", "1.4.2", "scala-case-classes", False),
        ("1.3.1", "1.4.0", "scala-case-classes", False),
        ("1.3", "1.4.1", "scala-case-classes", True),
        ("1.3.x", "1.4.2", "scala-case-classes", False),
        ("1.3.0", "1.4", "scala-case-classes", True),
        ("1.5.2", "1.6.0", "broadcast-state", True),
        ("1.5.2", "1.6.2", "broadcast-state", True),
        ("1.5.2", "1.6.3", "broadcast-state", False),
        ("1.5.2", "1.6.4", "broadcast-state", False),
        ("1.5", "1.6", "broadcast-state", True),
        ("1.5.6", "1.7.0", "broadcast-state", True),
        ("1.5.6", "1.7.1", "broadcast-state", False),
        ("1.5.6", "1.8.0", "broadcast-state", False),
        ("1.15.0", "1.15.1", "table-api-uids", True),
        ("1.15.1", "1.16.0", "table-api-uids", True),
        ("1.15.2", "1.16.0", "table-api-uids", False),
        ("1.15.x", "1.18.1", "table-api-uids", True),
        ("1.12.7", "1.13.6", "unaligned-checkpoint", True),
        ("1.2.0", "1.8.0", "traversable-serializer", True),
        ("1.2.1", "1.7.2", "traversable-serializer", False),
        ("1.2", "1.3", "cep-applications", False),
    ],
)
def test_releases(created: str, resumed: str, limitation: str, concerned: bool) -> None:
    verdict, limitations = _verdict(created, resumed)
    assert (limitation in limitations) == concerned
    assert verdict == ("ok-with-limitations" if limitations else "ok")


@pytest.mark.parametrize(
    ("limitation", "words"),
    [
        ("fixed-parallelism", "maximum parallelism"),
        ("operator-chains", "chaining"),
        ("parallelism-at-the-same-time", "at the same time"),
        ("cep-applications", "CEP"),
        ("traversable-serializer", "between 1.3 and 1.7"),
        ("scala-case-classes", "1.4.2 or later"),
        ("broadcast-state", "FLINK-11087"),
        ("unaligned-checkpoint", "use a savepoint"),
        ("table-api-uids", "table.exec.uid.generation=ALWAYS"),
    ],
)
def test_a_limitation_says_what_the_page_says(limitation: str, words: str) -> None:
    record = load(FLINK).limitations[limitation]
    assert words in f"{record.text} {record.advice}"


def test_the_hard_preconditions() -> None:
    first, second = load(FLINK).preconditions
    assert "semi-asynchronous" in first.text
    assert "fully-asynchronous" in first.advice
    assert "same absolute path" in second.text


@pytest.mark.parametrize(
    ("created", "resumed", "steps"),
    [
        ("1.1", "1.8", ("1.1", "1.3", "1.8")),
        ("1.1", "1.20", ("1.1", "1.3", "1.16", "1.20")),
        ("1.7", "1.18", ("1.7", "1.16", "1.18")),
        ("1.8", "1.18", ("1.8", "1.18")),
        ("1.8", "1.7", ()),
        ("1.8", "9.9", ()),
        ("1.20", "2.0", ()),
    ],
)
def test_the_way_in_steps(created: str, resumed: str, steps: tuple[str, ...]) -> None:
    versions = [parse_version(text, FLINK) for text in (created, resumed)]
    assert route(load(FLINK), versions[0], versions[1]) == steps
    for one in itertools.pairwise(steps):
        assert _verdict(*one)[0] != CompatVerdict.FAILS.value
