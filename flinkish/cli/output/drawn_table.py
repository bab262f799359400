"""Tables with colours and cells of several lines, on a terminal.

Others are plain lines (:func:`flinkish.units.table`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TextIO

from flinkish.cli.output.printer import is_terminal
from flinkish.units import visible


def draw(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    out: TextIO,
    *,
    styles: Mapping[tuple[int, int], str],
    rooms: Sequence[int] = (),
    whole: Collection[str] = (),
    width: int | None = None,
) -> None:
    """Write a table to a terminal.

    ``styles``: rich's styles of cells, by row and column. ``rooms``: the widths of the columns, in
    which what does not fit goes on in the next line of its cell; none: the widest cells' widths.
    ``whole``: the titles of columns whose cells stay in one line. ``width``: the columns of the
    terminal, None if they are unknown.
    """
    from rich.console import Console  # only on a terminal: its import is slow
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for i, name in enumerate(head):
        room = rooms[i] if rooms else None
        drawn.add_column(name, overflow="fold", no_wrap=name in whole, max_width=room)
    for i, row in enumerate(rows):
        # As Text: rich interprets markup in plain strings.
        drawn.add_row(*(Text(visible(t), styles.get((i, j), "")) for j, t in enumerate(row)))
    plain = not is_terminal(out)
    Console(file=out, width=width, color_system=None if plain else "auto").print(drawn)
