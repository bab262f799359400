"""Charts: a line over time and a lineage as SVG, bars as characters for terminals. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.cli.output.markup import Markup, element

_WIDTH, _HEIGHT, _MARGIN = 320.0, 72.0, 6.0
_BARS = "▁▂▃▄▅▆▇█"
#: The height of a row, the same as that of its text in the page's style.
ROW = 48
_LANE, _RADIUS = 16, 5
#: Maximum number of lanes; what does not fit shares the last one.
_LANES = 8


def line_chart(
    points: Sequence[tuple[float, float | None]], labels: Sequence[str], name: str
) -> Markup:
    """Return a chart of a line over time; its vertical axis begins at zero.

    ``points``: moments and values, in the order of time; a moment without a value interrupts the
    line. ``labels``: the text of each point, shown when the pointer is over it. ``name``: what the
    chart shows, for screen readers.
    """
    places = _places(points)
    drawn: list[Markup] = []
    for run in _runs(places):
        if len(run) > 1:
            path = " L".join(f"{x:.1f} {y:.1f}" for x, y in run)
            base = _HEIGHT - _MARGIN
            area = f"M{path} L{run[-1][0]:.1f} {base} L{run[0][0]:.1f} {base} Z"
            drawn += [
                element("path", class_="area", d=Markup(area)),
                element("path", class_="line", d=Markup(f"M{path}")),
            ]
    for place, label in zip(places, labels, strict=True):
        if place is not None:
            title = element("title", label)
            drawn.append(element("circle", title, class_="dot", cx=place[0], cy=place[1], r=3))
    axis = element(
        "line",
        class_="axis",
        x1=0,
        x2=_WIDTH,
        y1=_HEIGHT - _MARGIN,
        y2=_HEIGHT - _MARGIN,
    )
    return element(
        "svg",
        axis,
        *drawn,
        class_="chart",
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
        role="img",
        aria_label=name,
    )


def _places(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float] | None]:
    """Return where the points are drawn; None for a point without a value."""
    top = max((value for _, value in points if value is not None), default=0) or 1
    times = [moment for moment, _ in points]
    first, span = min(times, default=0), max(times, default=0) - min(times, default=0)
    inner = _WIDTH - 2 * _MARGIN
    places: list[tuple[float, float] | None] = []
    for moment, value in points:
        x = _MARGIN + inner * ((moment - first) / span if span else 0.5)
        y = None if value is None else _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * (value / top)
        places.append(None if y is None else (x, y))
    return places


def _runs(places: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for place in places:
        if place is None:
            runs.append([])
        else:
            runs[-1].append(place)
    return runs


def sparkline(values: Sequence[float]) -> str:
    """Return a bar of one character for each value, scaled from zero to the largest value."""
    top = max(values, default=0)
    if top <= 0:
        return _BARS[0] * len(values)
    last = len(_BARS) - 1
    return "".join(_BARS[round(max(value, 0) / top * last)] for value in values)


def lineage_svg(parents: Sequence[int | None], has_origin: Sequence[bool]) -> Markup:
    """Return the lineage of savepoints as a column of dots with lines to their parents.

    As in ``git log --graph``, each savepoint has a row, newest first, and each run of a job a lane.

    ``parents``: for each savepoint, newest first, the index of its parent; None if the parent is
    not among the savepoints. ``has_origin``: whether a savepoint has a parent at all. The line to a
    parent that is not among the savepoints is short and dashed.
    """
    lanes = lanes_of(parents)
    width = (max(lanes, default=0) + 1) * _LANE
    lines, dots = [], []
    for row, (parent, lane) in enumerate(zip(parents, lanes, strict=True)):
        x, y = _dot(row, lane)
        if parent is not None and parent > row:
            to_x, to_y = _dot(parent, lanes[parent])
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
    """Return the lane of each savepoint: the lane of its newest child, else the first free lane."""
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


def _dot(row: int, lane: int) -> tuple[int, int]:
    return lane * _LANE + _LANE // 2, row * ROW + ROW // 2
