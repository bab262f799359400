"""A row of the table of ratios: what was measured beside which peer, and what is needed."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

#: Raised when a document's keys change their meaning.
VERSION = 1


@dataclass(frozen=True)
class Row:
    """One comparison; ``ratios`` has one for each run, and is empty where ``reason`` says why.

    With ``at_least`` the ratio is a speed, of which more is better; without, a cost. ``date`` is
    when it was measured, ISO 8601.
    """

    what: str
    peer: str
    needed: float
    at_least: bool
    ratios: tuple[float, ...] = ()
    reason: str = ""
    load: float = 0.0
    date: str = ""

    @property
    def figure(self) -> float | None:
        """The median of the runs' ratios."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def met(self) -> bool | None:
        """Whether the figure is as good as needed; None where nothing was measured."""
        if self.figure is None:
            return None
        return self.figure >= self.needed if self.at_least else self.figure <= self.needed


@dataclass(frozen=True)
class Table:
    """The rows of one run, and where they were measured."""

    rows: tuple[Row, ...]
    machine: str
    versions: dict[str, str]
    quick: bool

    def to_json(self) -> str:
        """The document, with figure, spread and verdict of each row written out for readers."""
        rows = [
            {
                **asdict(row),
                "figure": row.figure,
                "spread": [min(row.ratios), max(row.ratios)] if row.ratios else None,
                "met": row.met,
            }
            for row in self.rows
        ]
        document = {**asdict(self), "rows": rows, "version": VERSION}
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Table:
        """Read a document of :meth:`to_json`; what follows from the ratios is not read."""
        document: dict[str, Any] = json.loads(text)
        if document["version"] != VERSION:
            raise ValueError(f"a table of version {document['version']}, not {VERSION}")
        names = Row.__dataclass_fields__
        rows = (
            Row(**{k: v for k, v in row.items() if k in names} | {"ratios": tuple(row["ratios"])})
            for row in document["rows"]
        )
        return cls(tuple(rows), document["machine"], document["versions"], document["quick"])


def ratios(ours: Sequence[float], peer: Sequence[float], *, speed: bool) -> tuple[float, ...]:
    """The ratios of runs that alternated, of seconds: each to its neighbour.

    With ``speed`` how many times as fast as the peer, else how many times as long.
    """
    pairs = zip(ours, peer, strict=True)
    return tuple(b / a if speed else a / b for a, b in pairs)


def cells(row: Row) -> tuple[str, str, str, str, str]:
    """What, peer, figure with spread, needed, and the verdict or why there is none."""
    sign = "≥" if row.at_least else "≤"
    needed = f"{sign} {row.needed:g}x"
    if row.figure is None:
        return row.what, row.peer, "-", needed, f"not measured: {row.reason}"
    figure = f"{row.figure:.2f}x ({min(row.ratios):.2f} to {max(row.ratios):.2f})"
    return row.what, row.peer, figure, needed, "met" if row.met else "short"


def as_text(rows: Iterable[Row]) -> str:
    """The table for a terminal."""
    lines = [("what", "peer", "figure (spread)", "needed", ""), *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join(
        "  ".join([*(c.ljust(w) for c, w in zip(line[:4], widths, strict=True)), line[4]]).rstrip()
        for line in lines
    )
