"""Messages of flinkish in the job's log."""

from __future__ import annotations

import sys


def log(message: str) -> None:
    """Write one line to the driver's stderr, which is the job's log."""
    print(f"flinkish: {message}", file=sys.stderr, flush=True)
