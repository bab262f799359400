"""The input of every measured query: a few files of rows, in two halves, each row once."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

#: Files in a half, each a batch; rows in a file.
FILES = 2
ROWS = 10
#: The name of an Iceberg table.
TABLE = "ice.db.t"
_FIRST_TIME = 1_700_000_000


def ids(file: int) -> range:
    """The rows of one file."""
    return range(file * ROWS, (file + 1) * ROWS)


def half(number: int) -> list[int]:
    """The rows of the first or the second half."""
    return [one for file in range(number * FILES, (number + 1) * FILES) for one in ids(file)]


def write_files(directory: Path, number: int) -> None:
    """Write a half as JSON files, with times in their order."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in range(number * FILES, (number + 1) * FILES):
        path = directory / f"{file}.json"
        path.write_text("".join(json.dumps({"id": one}) + "\n" for one in ids(file)))
        os.utime(path, (_FIRST_TIME + file, _FIRST_TIME + file))


def wrong_rows(got: Sequence[int], wanted: Sequence[int]) -> str | None:
    """How rows differ from those expected, in a few words; None when they do not."""
    there, expected = Counter(got), Counter(wanted)
    if there == expected:
        return None
    lost, more = expected - there, there - expected
    return (
        f"wrong result: {len(got)} rows for {len(wanted)}"
        + (f", {lost.total()} lost" if lost else "")
        + (f", {more.total()} too many" if more else "")
    )
