"""Charts of a few numbers, and the drawing of savepoints and their parents."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from flinkish.cli.output.charts import ROW, lanes_of, line_chart, lineage_svg, sparkline


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


def test_a_line_of_many_points_is_drawn_to_its_end() -> None:
    chart = _chart([(number, 1.0) for number in range(1000)])
    [area, line] = chart.iter("path")
    assert line.attrib["d"].count("L") == 999
    assert line.attrib["d"].endswith(" L314.0 6.0")
    assert area.attrib["d"].endswith(" L314.0 66.0 L6.0 66.0 Z")


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


def test_a_run_has_a_lane_and_a_second_one_beside_it_another() -> None:
    assert lanes_of([1, 2, None]) == [0, 0, 0]
    # 0 and 1 both come from 3; 2 goes on from 4 beside them.
    assert lanes_of([3, 3, 4, None, None]) == [0, 1, 2, 0, 2]


def test_a_lane_is_free_again_below_its_last_savepoint() -> None:
    assert lanes_of([1, None, 3, None]) == [0, 0, 0, 0]


def test_lanes_are_few_whatever_a_directory_says() -> None:
    parents = [None if row >= 99 else 199 - row for row in range(200)]
    assert max(lanes_of(parents)) < 10


def test_the_drawing_has_a_line_to_each_parent() -> None:
    drawing = ElementTree.fromstring(lineage_svg([2, None, None], [True, True, False]).text)
    [edge, gone] = drawing.iter("path")
    assert edge.attrib["class"] == "edge"
    assert edge.attrib["d"].startswith("M8 24 V")
    assert gone.attrib["class"] == "edge gone"
    assert len(list(drawing.iter("circle"))) == 3
    assert drawing.attrib["height"] == str(3 * ROW)


def test_a_parent_that_is_not_older_has_no_line() -> None:
    drawing = ElementTree.fromstring(lineage_svg([0, 0], [False, False]).text)
    assert list(drawing.iter("path")) == []
