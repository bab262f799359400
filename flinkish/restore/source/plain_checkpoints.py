"""Plain Spark checkpoints, of queries that flinkish never managed, as the origin of a restore."""

from __future__ import annotations

from flinkish.checkpoint.cut import Cut
from flinkish.checkpoint.discovery import find_checkpoints
from flinkish.checkpoint.wholeness import read_whole_cut


def adopt_cuts(path: str) -> dict[str | None, Cut]:
    """Return the cuts of the plain Spark checkpoints at ``path``, by query name.

    ``path`` is one checkpoint (the key is None) or a directory of several, one for each query name.

    Raises
    ------
    SavepointNotFound
        ``path`` is neither. Errors of ``read_whole_cut`` are passed on.
    """
    return {name: read_whole_cut(location) for name, location in find_checkpoints(path).items()}
