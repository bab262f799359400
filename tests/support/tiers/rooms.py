"""The seconds of the fast tier by room, beside those of the last record of them.

``tests/fast_record.json`` has them, a line for each room; ``make test`` shows both, and writes
nothing. Seconds of tests are sums over all workers, and those of a server or a session that several
tests share are the first one's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.support.tiers.repository import RECORDS, ROOT

PATH = ROOT / RECORDS[1]
KEPT = ROOT / ".cache" / "tiers"
#: In the order in which they run; ``lint`` is timed by the Makefile.
ROOMS = ("lint", "plain", "servers", "warm session", "end to end")
WALL = "pytest, by the clock"

Seconds = Mapping[str, float]


def load(path: Path = PATH) -> Seconds:
    """Read the recorded seconds; none where there is no file."""
    if not path.exists():
        return {}
    found: dict[str, float] = json.loads(path.read_text())
    return found


def save(seconds: Seconds, path: Path = PATH) -> None:
    """Write seconds, a room a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f" {json.dumps(room)}: {round(seconds[room])}" for room in seconds]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def table(now: Seconds, before: Seconds) -> list[str]:
    """Return the lines of a table of both."""
    lines = [f"{'':22}{'now':>8}{'recorded':>10}"]
    for room in (*ROOMS, WALL):
        values = (f"{s[room]:.0f} s" if room in s else "?" for s in (now, before))
        lines.append("{:22}{:>8}{:>10}".format(room, *values))
    return lines


def lint_seconds(kept: Path = KEPT) -> Seconds:
    """Return how long the last lint took, where the Makefile has noted that."""
    path = kept / "lint.seconds"
    return {"lint": float(path.read_text())} if path.exists() else {}
