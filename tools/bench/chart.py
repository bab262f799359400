"""The page of the table: a Markdown table and a bar chart in plain SVG."""

from __future__ import annotations

from html import escape
from pathlib import Path

from tools.bench.profiles import PROFILES
from tools.bench.row import Row, Table, cells

_LINE, _LABEL, _BARS = 26, 330, 300
#: A bar of this length is as good as needed; what is twice as good ends at the edge.
_NEEDED = _BARS // 2


def goodness(row: Row) -> float:
    """How many times as good as needed a row is, whether its ratio is a speed or a cost."""
    if row.figure is None:
        return 0.0
    return row.figure / row.needed if row.at_least else row.needed / max(row.figure, 1e-9)


def svg(table: Table) -> str:
    """A bar for each row, as a part of what is needed (the vertical line)."""
    height = _LINE * len(table.rows) + 10
    width = _LABEL + _BARS + 110
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, row in enumerate(table.rows):
        y = number * _LINE + 6
        lines.append(f'<text x="4" y="{y + 14}">{escape(row.what)}</text>')
        length = round(min(2.0, goodness(row)) * _NEEDED)
        color = "#2e7d32" if row.met else "#c62828"
        if row.figure is not None:
            lines.append(
                f'<rect x="{_LABEL}" y="{y}" width="{length}" height="18" fill="{color}"/>'
            )
        figure = "not measured" if row.figure is None else f"{row.figure:.2f}x"
        lines.append(f'<text x="{_LABEL + length + 4}" y="{y + 14}">{figure}</text>')
    x = _LABEL + _NEEDED
    lines.append(f'<line x1="{x}" y1="0" x2="{x}" y2="{height}" stroke="black"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _days(table: Table) -> str:
    """When the rows were measured: groups of them can be measured anew alone."""
    days = sorted({row.date for row in table.rows if row.date})
    return " to ".join(dict.fromkeys(days[:1] + days[-1:])) or "at an unknown date"


def markdown(table: Table, picture: str) -> str:
    """The page, which shows the chart of the file ``picture`` beside it."""
    versions = ", ".join(f"{name} {version}" for name, version in table.versions.items())
    size = " Sizes are small (`--quick`): the figures only show that it runs." * table.quick
    rows = (
        "| " + " | ".join(cell.replace("|", "\\|") for cell in cells(row)) + " |"
        for row in table.rows
    )
    short = [row for row in table.rows if row.met is False]
    return "\n".join(
        [
            "# Performance",
            "",
            "Each figure is a ratio to the named peer, measured in the same run, in turn with it.",
            "`≥` marks a speed, `≤` a cost. In parentheses: the lowest and highest of the runs.",
            f"Measured by `make bench-table` on {table.machine}, {_days(table)}; {versions}.{size}",
            "",
            f"![Each figure as a part of what is needed]({picture})",
            "",
            "A bar that reaches the line is as good as needed.",
            "",
            "| What | Peer | Figure | Needed | Result |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            *(["## Rows that are short", "", *map(explained, short), ""] if short else []),
        ]
    )


def explained(row: Row) -> str:
    """Why a row is short, by its profile."""
    return f"- **{row.what}** ({row.peer}): {PROFILES.get(row.what, 'not profiled yet')}."


def write(table: Table, path: Path) -> None:
    """Write the page, with its picture beside it, or only the picture for a name in ``.svg``."""
    picture = path.with_suffix(".svg")
    picture.write_text(svg(table), encoding="utf-8")
    if path != picture:
        path.write_text(markdown(table, picture.name), encoding="utf-8")
