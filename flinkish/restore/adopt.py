"""Plain Spark checkpoints, of queries that flinkish never managed, as the origin of a restore."""

from __future__ import annotations

import os

from flinkish import storage
from flinkish.checkpoint import layout
from flinkish.checkpoint.cut import Cut, read_cut
from flinkish.errors import SavepointNotFound


def adopt_cuts(path: str) -> dict[str | None, Cut]:
    """The cuts of plain Spark checkpoints, to restore queries flinkish never managed.

    ``path`` is one checkpoint (the key is None) or a directory of several, one for each query
    name (the keys). Raises SavepointNotFound when it is neither, and what ``read_cut`` raises.
    """
    root = storage.locate(path)
    if is_checkpoint(root):
        return {None: read_cut(root)}
    found = {
        name: os.path.join(root, name)
        for name in sorted(storage.list_directory(root).directories)
        if is_checkpoint(os.path.join(root, name))
    }
    if not found:
        raise SavepointNotFound(
            f"{path} is neither a savepoint nor a Spark checkpoint",
            hint="a savepoint has a _metadata file, a checkpoint has metadata and offsets/; "
            "for several queries, name the directory that holds one checkpoint per query name",
            path=path,
        )
    return {name: read_cut(directory) for name, directory in found.items()}


def is_checkpoint(path: str) -> bool:
    """True for a directory that looks like a Spark query's checkpoint."""
    return os.path.isfile(os.path.join(path, layout.METADATA)) and os.path.isdir(
        os.path.join(path, layout.OFFSETS)
    )
