"""Find plain Spark checkpoints at a path, and read which query they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from flinkish import storage
from flinkish.checkpoint.errors import unreadable
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.logs import parse_query_id
from flinkish.checkpoint.format.names import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    numbers_among,
)
from flinkish.errors import Corrupt, SavepointNotFound, UsageError, quoted_path

#: The directories of a checkpoint.
_PARTS = frozenset({OFFSETS, COMMITS, SOURCES, STATE})
#: The directory of the flows' checkpoints in the storage of a declarative pipeline.
PIPELINE = "_checkpoints"
#: Maximum number of names on the path to a flow: catalog, schema, table, flow.
_DEPTH = 4
#: What to do about a checkpoint whose ``metadata`` is lost.
_HINT_METADATA = (
    'copy it back from a backup; without one, write {"id":"<a new UUID>"}: with a new id, the '
    "query's sinks treat it as another query"
)


def find_checkpoints(path: str) -> dict[str | None, str]:
    """Return the locations of the checkpoints at ``path``, by query name.

    ``path`` is one checkpoint (its key is None, because it does not record its query's name), a
    directory of several, named like their queries, or the storage of a declarative pipeline, which
    has one for each streaming flow, named ``CATALOG.SCHEMA.FLOW``. If ``path`` is a single flow's
    checkpoint in that storage, its key is this name too.

    Raises SavepointNotFound if the path is none of these, UsageError if a flow has checkpoints for
    two tables, and Corrupt if a checkpoint lacks ``metadata`` or ``offsets``.
    """
    root = storage.locate(path)
    if is_checkpoint(root):
        return {_flow_at(root): root}
    below = {
        name: storage.join(root, name) for name in sorted(storage.list_directory(root).directories)
    }
    checkpoints: dict[str | None, str] = {}
    for name, place in sorted(_of_pipeline(root, below)):
        other = checkpoints.setdefault(name, place)
        if other != place:  # a flow that was moved to another table
            raise UsageError(
                f"{path} has two checkpoints of the flow {name}: {other} and {place}",
                hint="give the path of one of them",
            )
    if not checkpoints:
        checkpoints = {name: place for name, place in below.items() if is_checkpoint(place)}
    if not checkpoints:
        savepoints = sum(name.startswith("savepoint-") for name in below)
        if savepoints:
            raise SavepointNotFound(
                f"{path} is not a savepoint, but a directory of savepoints (it has {savepoints})",
                hint=f"name one of them; see: flinkish savepoint list {quoted_path(path)}",
                path=path,
            )
        raise SavepointNotFound(
            f"{path} is neither a savepoint nor a Spark checkpoint",
            hint="a savepoint has a _metadata file, a checkpoint has metadata and offsets/; "
            "for several queries, name the directory that holds one checkpoint per query name",
            path=path,
        )
    return checkpoints


def _of_pipeline(root: str, below: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and location of the flows' checkpoints in a pipeline's storage.

    They are at ``_checkpoints/CATALOG/SCHEMA/TABLE/FLOW/N``; Spark continues with the largest
    number (``FlowSystemMetadata``, 4.1 to 4.3).
    """
    top = root if PIPELINE in root.split("/") else below.get(PIPELINE)
    stack = [] if top is None else [(top, 0)]
    while stack:
        location, depth = stack.pop()
        directories = storage.list_directory(location).directories
        for number in reversed(numbers_among(directories)):
            candidate = storage.join(location, str(number))
            name = _flow_at(candidate)
            if name is not None and is_checkpoint(candidate):
                yield name, candidate
                break
        else:
            if depth < _DEPTH:
                stack += [(storage.join(location, d), depth + 1) for d in sorted(directories)]


def _flow_at(location: str) -> str | None:
    """Return the name of the flow whose checkpoint would be at a location, or None. Pure."""
    *above, number = location.split("/")
    if not numbers_among([number]) or PIPELINE not in above:
        return None
    names = above[len(above) - above[::-1].index(PIPELINE) :]
    if not 2 <= len(names) <= _DEPTH:
        return None
    *target, flow = names
    return ".".join((*target[:-1], flow))


def is_checkpoint(location: str) -> bool:
    """Return whether a directory looks like a Spark query's checkpoint.

    A checkpoint that Spark has only just created does not: it has nothing but ``metadata``. Raises
    Corrupt for a checkpoint without the file ``metadata`` or the directory ``offsets``.
    """
    listing = storage.list_directory(location)
    there = _PARTS.intersection(listing.directories)
    if METADATA in listing.files:
        if there and OFFSETS not in there:
            raise Corrupt(
                f"the checkpoint {location} lacks its directory {OFFSETS}, which records what "
                "each batch has read",
                hint="copy it back from a backup, or name the other checkpoints one by one",
                path=storage.join(location, OFFSETS),
            )
        return OFFSETS in there
    if not {OFFSETS, COMMITS} <= there and not any(
        _has_numbers(storage.join(location, name)) for name in sorted(there)
    ):
        return False
    raise Corrupt(
        f"the checkpoint {location} lacks its file {METADATA}, which has the query's id",
        hint=_HINT_METADATA,
        path=storage.join(location, METADATA),
    )


def _has_numbers(location: str) -> bool:
    """Return whether a directory has entries with numbers as names: batches, operators, sources."""
    listing = storage.list_directory(location)
    return bool(numbers_among([*listing.files, *listing.directories]))


def query_id_of(root: str) -> str:
    """Return the Spark query id in a checkpoint's ``metadata`` (``StreamMetadata``).

    Raises Corrupt if the file is missing, or Spark did not write it.
    """
    path = storage.join(root, METADATA)
    try:
        return parse_query_id(storage.read_bytes(path), METADATA)
    except FileNotFoundError as error:
        raise Corrupt(f"{path} is missing", hint=_HINT_METADATA, path=path) from error
    except CheckpointFormatError as error:
        damaged = unreadable(path, error)
        damaged.hint = _HINT_METADATA  # all batches need it: an older batch does not help
        raise damaged from error


def last_written(root: str) -> float:
    """Return the time of the last write to the offset or commit log, seconds since the epoch.

    0.0 means unknown. Every batch writes to both logs. Files trimmed meanwhile are ignored.
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


def directory_name(name: str) -> str:
    """Return the name of the directory for a query's checkpoint. Pure."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name).strip(".") or "_"


def directory_names(names: Iterable[str]) -> dict[str, str]:
    """Return the names of the directories for several queries' checkpoints, by query. Pure.

    Raises UsageError if two queries would get the same directory.
    """
    queries: dict[str, str] = {}
    for name in names:
        directory = directory_name(name)
        other = queries.setdefault(directory, name)
        if other != name:
            raise UsageError(
                f"queries '{other}' and '{name}' would get the same directory, {directory}",
                hint="export them one by one: --query NAME",
            )
    return {name: directory for directory, name in queries.items()}
