"""The operators of a program as an image: boxes from sources to sinks, one query below the other.

Pure. Stateful operators have a coloured frame. A dashed line is an exchange, as in the graph for
Graphviz (:mod:`flinkish.operators.render`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinkish.cli.output.markup import Markup, element
from flinkish.units import shortened, visible

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN, _TITLE = 224, 70, 48, 18, 16, 34
#: Columns of a text that fit into a box.
_COLUMNS = 24
_STYLE = """
svg { color-scheme: light dark; --ink: #1b2430; --soft: #5a6675; --card: #fff; --page: #f6f8fa;
  --line: #b8c1cc; --mark: #0f6cbd; font: 13px system-ui, "Segoe UI", Roboto, sans-serif; }
@media (prefers-color-scheme: dark) { svg { --ink: #e4e9ef; --soft: #9eabba; --card: #1b222b;
  --page: #12171e; --line: #4a5563; --mark: #6cb6ff; } }
.page { fill: var(--page); } text { fill: var(--ink); } .title { font-size: 16px; }
.title, .name { font-weight: 600; } .soft { fill: var(--soft); font-size: 12px; }
.box { fill: var(--card); stroke: var(--line); } .state { stroke: var(--mark); stroke-width: 2; }
.edge { fill: none; stroke: var(--soft); stroke-width: 1.5; } .exchange { stroke-dasharray: 5 4; }
"""


def graph_svg(queries: Sequence[Mapping[str, Any]]) -> str:
    """Return the graph of a described program (:func:`flinkish.client.dryrun.describe`)."""
    drawn: list[Markup] = []
    width, top = 2 * _MARGIN + _WIDTH, _MARGIN
    for query in queries:
        places = placed(query["operators"])
        x = [column * (_WIDTH + _GAP_X) + _MARGIN for column, _ in places]
        y = [row * (_HEIGHT + _GAP_Y) + top + _TITLE for _, row in places]
        drawn.append(element("text", query["name"], class_="title", x=_MARGIN, y=top + 18))
        drawn += _edges(query["operators"], x, y)
        drawn += [_box(*each) for each in zip(query["operators"], x, y, strict=True)]
        width = max([width, *(each + _WIDTH + _MARGIN for each in x)])
        top = max([top + _TITLE, *(each + _HEIGHT for each in y)]) + _MARGIN
    return (
        element(
            "svg",
            Markup(f"<style>{_STYLE}</style>"),
            element("rect", class_="page", width=width, height=top),
            *drawn,
            xmlns="http://www.w3.org/2000/svg",
            width=width,
            height=top,
            viewBox=f"0 0 {width} {top}",
        ).text
        + "\n"
    )


def placed(operators: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Return each operator's column and row; its column is to the right of those of its inputs."""
    inputs = _inputs(operators)
    columns = [0] * len(operators)
    for _ in operators:  # at most once per step of the longest path
        moved = [1 + max((columns[i] for i in each), default=-1) for each in inputs]
        if moved == columns:
            break
        columns = moved
    rows = [0] * len(operators)
    for column in range(max(columns, default=-1) + 1):
        members = [i for i, each in enumerate(columns) if each == column]
        # An operator goes into the row of its input, or midway between several inputs.
        members.sort(key=lambda i: sum(rows[j] for j in inputs[i]) / max(len(inputs[i]), 1))
        free = 0
        for i in members:
            wanted = sum(rows[j] for j in inputs[i]) // max(len(inputs[i]), 1)
            rows[i] = max(free, wanted)
            free = rows[i] + 1
    return list(zip(columns, rows, strict=True))


def _inputs(operators: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    index = {each["operator_id"]: number for number, each in enumerate(operators)}
    return [[index[name] for name in each["inputs"] if name in index] for each in operators]


def _edges(
    operators: Sequence[Mapping[str, Any]], x: Sequence[int], y: Sequence[int]
) -> list[Markup]:
    edges = []
    for i, sources in enumerate(_inputs(operators)):
        for source in sources:
            start, end = x[source] + _WIDTH, x[i]
            from_y, to_y = y[source] + _HEIGHT // 2, y[i] + _HEIGHT // 2
            middle = max((start + end) // 2, end - _GAP_X)
            d = f"M{start} {from_y} H{middle - _GAP_X // 2} C{middle} {from_y} {middle} {to_y}"
            exchange = "" if all(operators[source]["chained"]) else " exchange"
            edges.append(element("path", class_=f"edge{exchange}", d=f"{d} {end} {to_y}"))
    return edges


def _box(operator: Mapping[str, Any], x: int, y: int) -> Markup:
    uid = operator["uid"]
    name = operator["operator_id"] if uid is None else f"uid {uid}"
    facts = [operator["name"], operator["kind"], name, operator.get("location")]
    state = " state" if operator["stateful"] else ""
    texts = (
        element("text", _short(text), class_=class_, x=x + 12, y=y + 20 * line)
        for line, (text, class_) in enumerate(
            ((facts[0], "name"), (facts[1], "soft"), (facts[2], "soft")), start=1
        )
    )
    return element(
        "g",
        element("title", ", ".join(str(fact) for fact in facts if fact)),
        element("rect", class_=f"box{state}", x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=6),
        *texts,
    )


def _short(text: str) -> str:
    return shortened(visible(str(text)), _COLUMNS)
