"""Lines that are drawn again in place, for ``--watch`` on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from flinkish.cli.output.printer import is_terminal
from flinkish.cli.output.streams import flush
from flinkish.cli.output.text import terminal_height, terminal_width
from flinkish.units import counted, shortened, visible

Draw = Callable[[Sequence[str]], None]


@contextmanager
def redrawn(wanted: bool) -> Iterator[Draw | None]:
    """Yield a function that draws lines in place of the previous ones.

    Yields None if redrawing is not ``wanted``, or stdout is not suited to animation
    (:func:`flinkish.cli.output.printer.is_terminal`). The last lines stay on the screen.
    """
    if not (wanted and is_terminal(sys.stdout)):
        yield None
        return
    from rich.console import Console, ConsoleDimensions  # only on a terminal: its import is slow
    from rich.live import Live
    from rich.text import Text  # rich interprets markup in plain strings

    console = Console(file=sys.stdout)
    with Live(
        console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    ) as live:

        def draw(lines: Sequence[str]) -> None:
            width, height = terminal_width(sys.stdout), terminal_height(sys.stdout)
            if width is not None and height is not None:
                console.size = ConsoleDimensions(width, height)
            text = "\n".join(fitting(lines, width, height))
            live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
            flush(sys.stdout)

        yield draw


def fitting(lines: Sequence[str], width: int | None, height: int | None) -> list[str]:
    """Return a line with the time, then the lines; a count replaces those that do not fit."""
    drawn = [time.strftime("%H:%M:%S") + "  (Ctrl-C to leave)", *lines]
    if height is not None and len(drawn) > max(height - 1, 2):  # the cursor needs a line
        cut = max(height - 2, 1)
        drawn[cut:] = [f"... {counted(len(drawn) - cut, 'more line')}"]
    texts = [visible(line) for line in drawn]
    return texts if width is None else [shortened(line, width) for line in texts]
