"""What git says of the checkout that is tested."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def git(*words: str) -> str | None:
    """Return what git prints; None where it fails or there is none."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commits() -> int | None:
    """Return how many commits lead to the one that is checked out.

    None where that cannot be known: outside a repository, and in a shallow clone.
    """
    if git("rev-parse", "--is-shallow-repository") != "false":
        return None
    number = git("rev-list", "--count", "HEAD")
    return None if number is None else int(number)


def head() -> str | None:
    """Return the commit that is checked out."""
    return git("rev-parse", "HEAD")


def is_clean() -> bool:
    """Return whether the checkout is its commit and nothing else, but for the record itself."""
    changes = git("status", "--porcelain", "--", ".", ":!tests/deep_record.json")
    return changes == ""
