"""How ``check`` and ``run -s`` show a restore plan."""

from __future__ import annotations

import sys
from typing import TextIO

from flinkish.cli.output.printer import draw
from flinkish.cli.output.text import folded, terminal_width, without_commands
from flinkish.config import mask_secrets
from flinkish.messages.plan import RestorePlan
from flinkish.restore.plan.plan_text import HEAD, plan_lines, plan_rows
from flinkish.units import shortened, visible, width_of

_COLOURS = {
    "as-is": "green",
    "renumbered": "green",
    "moved": "green",
    "new": "cyan",
    "reset": "cyan",
    "set": "cyan",
    "changed": "yellow",
    "dropped": "yellow",
    "rebase": "yellow",
    "accept": "yellow",
    "rollback": "yellow",
    "unreadable": "yellow",
    "migrate": "magenta",
    "rescale": "magenta",
}


#: Minimum width of a reason, and the number of blanks between the columns of a row.
_WHY, _BLANKS = 16, 2 * (len(HEAD) - 1)


def show_plan(plan: RestorePlan, stream: TextIO | None = None) -> None:
    """Write the plan to ``stream`` (default: stdout); on a terminal, drawn to fit its width."""
    out = sys.stdout if stream is None else stream
    rows = plan_rows(plan)
    drawn = out.isatty()
    width = terminal_width(out)
    if drawn and rows:
        _draw(rows, out)
    for line in plan_lines(plan, table=not drawn):
        for part in folded(mask_secrets(line), width, " " * 4):
            out.write((without_commands(part) if out is sys.stderr else part) + "\n")
    out.flush()


def _draw(rows: list[tuple[str, ...]], out: TextIO) -> None:
    texts = [[visible(mask_secrets(word)) for word in row] for row in rows]
    width = terminal_width(out)
    rooms = [] if width is None else _rooms(texts, width)
    for words in texts:
        for i, room in enumerate(rooms[:3]):
            if "/" in words[i]:  # a path; other words are wrapped
                words[i] = shortened(words[i], room)
    styles = {(i, 3): _COLOURS.get(row[3], "red") for i, row in enumerate(rows)}
    whole = ("VERDICT", "STATE")
    draw(HEAD, texts, out, styles=styles, rooms=rooms, whole=whole, width=width)


def _rooms(rows: list[list[str]], width: int) -> list[int]:
    """Return the widths of the columns; WHY gets the rest. Pure."""
    query, what, kind, verdict, state, _ = (
        max(map(width_of, column)) for column in zip(HEAD, *rows, strict=True)
    )
    left = max(width - verdict - state - _BLANKS - _WHY, 16)
    query, kind = min(query, max(left // 4, 5)), min(kind, left // 3)
    what = min(what, left - query - kind)
    why = max(width - query - what - kind - verdict - state - _BLANKS, 1)
    return [query, what, kind, verdict, state, why]
