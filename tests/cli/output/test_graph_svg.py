"""A program's operators as an image."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from flinkish.cli.output.graph_svg import graph_svg, placed

SVG = "{http://www.w3.org/2000/svg}"


def _operator(name: str, *inputs: str, **more: Any) -> dict[str, Any]:
    fields = {
        "name": name,
        "operator_id": name,
        "kind": "project",
        "uid": None,
        "stateful": False,
        "location": None,
        "inputs": list(inputs),
        "chained": [True],
    }
    return {**fields, **more}


JOIN = [
    _operator("left"),
    _operator("right", chained=[False]),
    _operator("filter", "left"),
    _operator("join", "filter", "right", stateful=True, uid="both", location="a.py:3"),
    _operator("sink", "join"),
]


def test_operators_are_to_the_right_of_all_their_inputs() -> None:
    assert placed(JOIN) == [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0)]
    assert placed(list(reversed(JOIN))) == [(3, 0), (2, 0), (1, 1), (0, 0), (0, 1)]
    assert placed([]) == []


def test_inputs_that_go_in_a_circle_or_nowhere_end() -> None:
    circle = [_operator("a", "b"), _operator("b", "a"), _operator("c", "nowhere")]
    assert len(placed(circle)) == 3


def test_the_image_has_a_box_for_each_operator_and_a_line_for_each_input() -> None:
    image = ElementTree.fromstring(graph_svg([{"name": "q", "operators": JOIN}]))
    boxes = list(image.iter(f"{SVG}g"))
    assert [each.find(f"{SVG}title").text for each in boxes][3] == "join, project, uid both, a.py:3"  # type: ignore[union-attr]
    rects = [rect for each in boxes for rect in each.iter(f"{SVG}rect")]
    assert [each.attrib["class"] for each in rects].count("box state") == 1
    places = {(each.attrib["x"], each.attrib["y"]) for each in rects}
    assert len(places) == len(JOIN)
    edges = [each.attrib["class"] for each in image.iter(f"{SVG}path")]
    assert sorted(edges) == ["edge", "edge", "edge", "edge exchange"]
    width, height = float(image.attrib["width"]), float(image.attrib["height"])
    assert all(float(each.attrib["x"]) + 224 < width for each in rects)
    assert all(float(each.attrib["y"]) + 70 < height for each in rects)


def test_the_queries_are_below_each_other() -> None:
    queries = [{"name": name, "operators": JOIN} for name in ("one", "two")]
    image = ElementTree.fromstring(graph_svg(queries))
    titles = [each for each in image.iter(f"{SVG}text") if each.attrib["class"] == "title"]
    assert [each.text for each in titles] == ["one", "two"]
    first, second = (float(each.attrib["y"]) for each in titles)
    boxes = [float(each.attrib["y"]) for each in image.iter(f"{SVG}rect") if "x" in each.attrib]
    assert sum(first < each < second for each in boxes) == len(JOIN)


def test_names_of_a_program_are_texts() -> None:
    hostile = "</text><script>x</script>\x1b[2J&\"'"
    operators = [_operator(hostile, uid=hostile, location=hostile, kind=hostile)]
    text = graph_svg([{"name": hostile, "operators": operators}])
    image = ElementTree.fromstring(text)
    assert {each.tag.removeprefix(SVG) for each in image.iter()} == {
        *("svg", "style", "rect", "text", "g", "title")
    }
    assert "\x1b" not in text


def test_a_program_without_queries_is_an_empty_image() -> None:
    assert ElementTree.fromstring(graph_svg([])).tag == f"{SVG}svg"
