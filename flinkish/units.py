"""Quantities for people, in messages and tables. Imports nothing: it is on the way of ``list``."""

from __future__ import annotations


def size_text(size: int) -> str:
    """Bytes for people: ``1.2 MiB``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
