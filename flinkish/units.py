"""Text for people: sizes, names and tables. Imports nothing, because ``list`` loads it."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Sequence


def size_text(size: int) -> str:
    """Return a size in bytes as text for people: ``1.2 MiB``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def counted(number: int, noun: str) -> str:
    """Return a number of things as text for people: ``1 savepoint``, ``2 savepoints``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def visible(text: str) -> str:
    """Return ``text`` as one line that cannot control a terminal.

    Characters that are not printable (controls, escape sequences, line ends, bidirectional and
    zero-width characters, lone surrogates) are escaped as in Python: ``\\x1b``, ``\\u202e``.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_lines(text: str) -> str:
    """Return ``text`` escaped as in :func:`visible`, except that line ends and tabs stay."""
    if text.isprintable():
        return text
    keep = "\n\t"
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> list[str]:
    """Return a table as lines, with aligned columns two blanks apart.

    Cells are escaped with :func:`visible`, so each row is one line.

    Parameters
    ----------
    head
        The titles of the columns.
    rows
        One sequence of cells for each row, as long as ``head``.
    right
        Indexes of the columns that are aligned to the right, as digits, such as ``"45"``.
    """
    shown = [head, *([visible(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in shown) for i in range(len(head))]
    lines = []
    for row in shown:
        cells = [
            cell.rjust(width) if str(i) in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
