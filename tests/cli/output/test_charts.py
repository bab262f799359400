"""Charts of a few numbers."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from flinkish.cli.output.charts import line_chart, sparkline


def _chart(points: list[tuple[float, float | None]]) -> ElementTree.Element:
    labels = [f"label {number}" for number in range(len(points))]
    return ElementTree.fromstring(line_chart(points, labels, "a & b").text)


def test_a_line_goes_from_the_first_moment_to_the_last() -> None:
    chart = _chart([(100.0, 0.0), (150.0, 5.0), (200.0, 10.0)])
    assert [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in chart.iter("circle")] == [
        (6, 66),
        (160, 36),
        (314, 6),
    ]
    [area, line] = chart.iter("path")
    assert line.attrib["d"] == "M6.0 66.0 L160.0 36.0 L314.0 6.0"
    assert area.attrib["d"] == f"{line.attrib['d']} L314.0 66.0 L6.0 66.0 Z"
    assert [title.text for title in chart.iter("title")] == ["label 0", "label 1", "label 2"]
    assert chart.attrib["aria-label"] == "a & b"


def test_a_gap_interrupts_the_line_and_a_lone_point_is_a_dot() -> None:
    chart = _chart([(1, 1.0), (2, 2.0), (3, None), (4, 3.0)])
    assert len(list(chart.iter("circle"))) == 3
    assert len(list(chart.iter("path"))) == 2
    assert list(_chart([(1, None)]).iter("circle")) == []


@pytest.mark.parametrize("points", [[], [(1.0, 0.0)], [(1.0, 3.0), (1.0, 4.0)]])
def test_what_has_no_extent_is_drawn_in_the_middle(
    points: list[tuple[float, float | None]],
) -> None:
    assert {dot.attrib["cx"] for dot in _chart(points).iter("circle")} <= {"160"}


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([0, 0], "▁▁"),
        ([5], "█"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([-1, 0.5, 1], "▁▅█"),
    ],
)
def test_sparkline(values: list[float], bars: str) -> None:
    assert sparkline(values) == bars
