"""The drawing of savepoints and their parents."""

from __future__ import annotations

from xml.etree import ElementTree

from flinkish.cli.output.lineage_svg import ROW, lanes_of, lineage_svg


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
