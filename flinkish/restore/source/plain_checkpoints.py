"""Plain Spark checkpoints, of queries that flinkish never managed, as the origin of a restore."""

from __future__ import annotations

from flinkish.checkpoint.cut import Cut, read_cut
from flinkish.checkpoint.discovery import find_checkpoints


def adopt_cuts(path: str) -> dict[str | None, Cut]:
    """Return the cuts of the plain Spark checkpoints at ``path``, by query name.

    ``path`` is one checkpoint (the key is None) or a directory of several, one for each query name.

    Raises
    ------
    SavepointNotFound
        ``path`` is neither. Errors of ``read_cut`` are passed on.
    """
    return {name: read_cut(location) for name, location in find_checkpoints(path).items()}
