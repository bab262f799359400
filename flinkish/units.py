"""Quantities and tables for people. Imports nothing: it is on the way of ``list``."""

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


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> list[str]:
    """Aligned columns two blanks apart.

    Parameters
    ----------
    right: indexes of the columns aligned to the right, as digits, such as ``"45"``.
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if str(i) in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
