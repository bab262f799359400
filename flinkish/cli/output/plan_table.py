"""The output of a restore plan by ``check`` and ``run -s``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TextIO

from flinkish.cli.output.printer import is_terminal
from flinkish.cli.output.text import visible
from flinkish.config import mask_secrets
from flinkish.restore.plan.plan_text import HEAD, plan_lines, plan_rows

_COLOURS = {
    "as-is": "green",
    "renumbered": "green",
    "moved": "green",
    "new": "cyan",
    "reset": "cyan",
    "changed": "yellow",
    "dropped": "yellow",
    "rebase": "yellow",
    "accept": "yellow",
    "unreadable": "yellow",
    "migrate": "magenta",
    "rescale": "magenta",
}


def show_plan(plan: Mapping[str, Any], stream: TextIO | None = None) -> None:
    """Write the plan to ``stream`` (default: stdout), as a table with colours on a terminal."""
    out = sys.stdout if stream is None else stream
    rows = plan_rows(plan)
    drawn = is_terminal(out)
    if drawn and rows:
        _draw(rows, out)
    for line in plan_lines(plan, table=not drawn):
        out.write(visible(mask_secrets(line)) + "\n")
    out.flush()


def _draw(rows: list[tuple[str, ...]], out: TextIO) -> None:
    from rich.console import Console  # only on a terminal: its import is slow
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in HEAD:
        drawn.add_column(name, overflow="fold", no_wrap=name in ("VERDICT", "STATE"))
    for query, what, kind, verdict, state, why in rows:
        colour = _COLOURS.get(verdict, "red")
        # As Text: rich interprets markup in plain strings.
        shown = [Text(visible(mask_secrets(word))) for word in (query, what, kind, state, why)]
        drawn.add_row(*shown[:3], Text(visible(verdict), colour), *shown[3:])
    Console(file=out).print(drawn)
