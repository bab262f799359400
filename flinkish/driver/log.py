"""flinkish's own lines in a job's log."""

from __future__ import annotations

import sys


def log(message: str) -> None:
    """One line on the driver's stderr, which is the job's log."""
    print(f"flinkish: {message}", file=sys.stderr, flush=True)
