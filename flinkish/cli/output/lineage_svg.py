"""The lineage of savepoints as a column of dots with lines to their parents. Pure.

As in ``git log --graph``: a row for each savepoint, newest first, a lane for each run of a job.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.cli.output.markup import Markup, element

#: The height of a row, which the page's style gives its text too.
ROW = 48
_LANE, _RADIUS = 16, 5
#: Lanes at most; what does not fit shares the last one.
_LANES = 8


def lineage_svg(parents: Sequence[int | None], has_origin: Sequence[bool]) -> Markup:
    """Return the drawing.

    ``parents``: for each savepoint, newest first, the index of its parent, None if it is not among
    them. ``has_origin``: whether it has a parent at all: one that is elsewhere is a short dashed
    line.
    """
    lanes = lanes_of(parents)
    width = (max(lanes, default=0) + 1) * _LANE
    lines, dots = [], []
    for row, (parent, lane) in enumerate(zip(parents, lanes, strict=True)):
        x, y = _place(row, lane)
        if parent is not None and parent > row:
            to_x, to_y = _place(parent, lanes[parent])
            bend = min(ROW, to_y - y) / 2
            d = f"M{x} {y} V{to_y - 2 * bend} C{x} {to_y - bend} {to_x} {to_y - bend} {to_x} {to_y}"
            lines.append(element("path", class_="edge", d=d))
        elif has_origin[row]:
            lines.append(element("path", class_="edge gone", d=f"M{x} {y} V{y + ROW * 0.45}"))
        dots.append(element("circle", class_="dot", cx=x, cy=y, r=_RADIUS))
    height = len(parents) * ROW
    return element(
        "svg",
        *lines,
        *dots,
        class_="lineage",
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        aria_hidden="true",
    )


def lanes_of(parents: Sequence[int | None]) -> list[int]:
    """Return the lane of each savepoint: that of its parent, if no newer child has it."""
    lanes: list[int] = []
    #: The row at which the line in a lane ends.
    ends: dict[int, int] = {}
    reserved: dict[int, int] = {}
    for row, parent in enumerate(parents):
        lane = reserved.pop(row, None)
        if lane is None:
            lane = next((each for each in range(_LANES) if ends.get(each, -1) < row), _LANES - 1)
        lanes.append(lane)
        ends[lane] = max(ends.get(lane, -1), row)
        if parent is not None and parent > row:
            reserved.setdefault(parent, lane)
            ends[lane] = max(ends[lane], parent)
    return lanes


def _place(row: int, lane: int) -> tuple[int, int]:
    return lane * _LANE + _LANE // 2, row * ROW + ROW // 2
