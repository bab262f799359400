"""Files with known content around a directory of savepoints: they must all be there at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PRECIOUS = b"precious"


def snapshot(root: Path | str) -> dict[str, bytes | str | None]:
    """Everything below a directory, hidden too: content of files, targets of links, or None."""
    found: dict[str, bytes | str | None] = {}
    for directory, directories, files in os.walk(root):
        for name in [*directories, *files]:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, root)
            if os.path.islink(path):
                found[relative] = os.readlink(path)
            elif os.path.isfile(path):
                found[relative] = Path(path).read_bytes()
            else:
                found[f"{relative}/" if os.path.isdir(path) else relative] = None
    return found


def put_bait(root: Path) -> Path:
    """A directory ``outside`` with a file in it and one below; returns it."""
    outside = root / "outside"
    (outside / "below").mkdir(parents=True)
    for name in ("victim", "below/victim"):
        (outside / name).write_bytes(PRECIOUS)
    return outside


@contextmanager
def untouched(*places: Path | str) -> Iterator[None]:
    """What lies at these places is the same at the end of the block, however that ends."""
    before = [snapshot(place) for place in places]
    try:
        yield
    finally:
        after = [snapshot(place) for place in places]
        if after != before:
            pytest.fail(f"touched: {before} became {after}")
