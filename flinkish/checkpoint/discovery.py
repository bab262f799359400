"""Finding plain Spark checkpoints at a path, and what they say of whom they belong to."""

from __future__ import annotations

from flinkish import storage
from flinkish.checkpoint.errors import unreadable
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.logs import parse_query_id
from flinkish.checkpoint.format.names import COMMITS, METADATA, OFFSETS
from flinkish.errors import Corrupt, SavepointNotFound


def find_checkpoints(path: str) -> dict[str | None, str]:
    """The checkpoints at ``path``: their locations, by query name.

    ``path`` is one checkpoint (its key is None: it does not say what its query is called) or a
    directory of several, named like their queries. Raises SavepointNotFound when it is neither.
    """
    root = storage.locate(path)
    if is_checkpoint(root):
        return {None: root}
    below = {
        name: storage.join(root, name) for name in sorted(storage.list_directory(root).directories)
    }
    found: dict[str | None, str] = {
        name: location for name, location in below.items() if is_checkpoint(location)
    }
    if not found:
        raise SavepointNotFound(
            f"{path} is neither a savepoint nor a Spark checkpoint",
            hint="a savepoint has a _metadata file, a checkpoint has metadata and offsets/; "
            "for several queries, name the directory that holds one checkpoint per query name",
            path=path,
        )
    return found


def is_checkpoint(location: str) -> bool:
    """True for a directory that looks like a Spark query's checkpoint."""
    listing = storage.list_directory(location)
    return METADATA in listing.files and OFFSETS in listing.directories


def query_id_of(root: str) -> str:
    """The Spark query id in a checkpoint's ``metadata`` (``StreamMetadata``).

    Raises Corrupt when the file is gone or is none that Spark wrote.
    """
    path = storage.join(root, METADATA)
    try:
        return parse_query_id(storage.read_bytes(path), METADATA)
    except FileNotFoundError as error:
        raise Corrupt(f"{path} is missing", path=path) from error
    except CheckpointFormatError as error:
        raise unreadable(path, error) from error


def last_written(root: str) -> float:
    """When a query last wrote to its offset or commit log, seconds since the epoch; 0.0: unknown.

    Every batch writes to both. A file that is trimmed meanwhile does not count.
    """
    newest = 0.0
    for log in (OFFSETS, COMMITS):
        listing = storage.list_directory(storage.join(root, log))
        for name in listing.files:
            try:
                newest = max(newest, listing.modified(name))
            except FileNotFoundError:
                continue
    return newest
