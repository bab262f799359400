"""Quantities, names and tables for people. Imports nothing: it is on the way of ``list``."""

from __future__ import annotations

TYPE_CHECKING = False  # of this name, so that type checkers know it; typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Sequence


def size_text(size: int) -> str:
    """Bytes for people: ``1.2 MiB``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def visible(text: str) -> str:
    """``text`` as one line that does nothing to a terminal but show itself.

    What is not printable (controls, escape sequences, line ends, bidirectional and zero-width
    characters, halves of surrogate pairs) is written as Python writes it: ``\\x1b``, ``\\u202e``.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_lines(text: str) -> str:
    """``text`` of several lines, each as :func:`visible` makes it; line ends and tabs stay."""
    if text.isprintable():
        return text
    keep = "\n\t"
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> list[str]:
    """Aligned columns two blanks apart; each row is one line, whatever is in its cells.

    Parameters
    ----------
    right: indexes of the columns aligned to the right, as digits, such as ``"45"``.
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
