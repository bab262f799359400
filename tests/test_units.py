"""Tables that fit a terminal: what is shortened, what is left out, what never is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.units import first_of, shortened, size_text, table, width_of

HEAD = ("ID", "NAME", "STATE", "N", "PATH")
ROW = ("0123456789abcdef", "flights-by-airport", "RUNNING", "7", "/data/savepoints/savepoint-1")


def fitted(width: int | None) -> list[str]:
    return table(HEAD, [ROW], right="3", width=width, flexible={1: 8, 4: 10}, optional=(4, 3))


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghij", 7, "ab…ghij"),
        ("abcdefghij", 2, "…j"),
        ("abcdefghij", 1, "…"),
        ("abcdefghij", 0, ""),
        ("中文中文中文", 7, "中…中文"),
        ("中文中文中文", 6, "…中文"),
        ("", 0, ""),
    ],
)
def test_the_middle_goes(text: str, width: int, expected: str) -> None:
    assert shortened(text, width) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [("", ""), ("a", "a"), ("abc", "a; b; c"), ("abcd", "a; b; c and 1 more")],
)
def test_the_first_few_and_how_many_more(texts: str, expected: str) -> None:
    assert first_of(list(texts), limit=3, separator="; ") == expected


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024**2 - 52, "1023.9 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (1024**4 - 1, "1.0 TiB"),
    ],
)
def test_a_size_is_below_a_thousand_and_so_many(size: int, text: str) -> None:
    assert size_text(size) == text


@given(st.text(), st.integers(0, 30))
def test_no_more_columns_than_there_are(text: str, width: int) -> None:
    short = shortened(text, width)
    assert width_of(short) <= width or short == text
    assert width_of(text) > width or short == text


def test_titles_are_escaped_like_cells() -> None:
    """A title may be the name of a column of a program's state."""
    assert table(["a\nb"], [["\x1b[2J"]]) == ["a\\nb", "\\x1b[2J"]


def test_without_a_limit_nothing_is_shortened() -> None:
    assert fitted(None) == fitted(1000)
    assert fitted(None)[1] == "  ".join(ROW)


def test_flexible_columns_share_what_is_there() -> None:
    # 16 + 7 + 1 and 8 between them leave 40 of 72 columns for 18 and 28: the narrower grows first.
    (_, line) = fitted(72)
    assert line.split() == [ROW[0], ROW[1], "RUNNING", "7", "/data/s…ts/savepoint-1"]
    assert len(line) <= 72


def test_then_columns_are_left_out_in_their_order() -> None:
    head, line = fitted(49)
    assert head.split() == ["ID", "NAME", "STATE", "N"]
    assert line.split() == [ROW[0], ROW[1], "RUNNING", "7"]
    head, line = fitted(35)
    assert head.split() == ["ID", "NAME", "STATE"]
    assert line.split() == [ROW[0], "fl…rport", "RUNNING"]


def test_an_id_is_never_shortened() -> None:
    for width in range(1, 80):
        assert all(len(line) <= max(width, 30) for line in fitted(width))
        assert fitted(width)[1].startswith(ROW[0])


def test_wide_characters_take_two_columns() -> None:
    assert [width_of(text) for text in ("abc", "é", "中文", "🎉", "e\u0301")] == [3, 1, 4, 2, 1]
    assert table(("A", "B"), [("中文", "x"), ("abc", "y")]) == ["A     B", "中文  x", "abc   y"]
