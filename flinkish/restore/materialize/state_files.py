"""The files of one operator's state, under another ordinal and at another version. Pure.

Renaming the files turns state of version V into version V + shift: no delta, snapshot or RocksDB
archive contains its version. Only the changelogs of checkpoint format 2 (Spark 4.x) do, in the
lineage at their beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flinkish.checkpoint.format.names import (
    NOT_STORES,
    SCHEMA_DIRECTORY,
    STATE,
    VersionedFile,
    numbers_among,
    parse_name,
)
from flinkish.errors import Incompatible

_SIDECAR = ".crc"
_NOT_VERSIONED = NOT_STORES | {SCHEMA_DIRECTORY}
_BASES = frozenset({"snapshot", "zip"})


@dataclass(frozen=True)
class StateFiles:
    """The new places of an operator's files.

    Attributes
    ----------
    moves
        Pairs (old, new) of paths, both relative to their checkpoint.
    bases
        The new paths of empty snapshots that must be put before the first delta or changelog: Spark
        takes only version 0 for granted, not the version that it is raised to.
    """

    moves: tuple[tuple[str, str], ...]
    bases: tuple[str, ...] = ()


def of_operator(files: Iterable[str], ordinal: int) -> tuple[str, ...]:
    """Return the files of a checkpoint that belong to the operator."""
    prefix = f"{STATE}/{ordinal}/"
    return tuple(path for path in files if path.startswith(prefix))


def ordinals(files: Iterable[str]) -> tuple[int, ...]:
    """Return the ordinals of all operators that have files, ascending."""
    parts = (path.split("/", 2) for path in files)
    names = {part[1] for part in parts if part[0] == STATE and len(part) == 3}
    return tuple(numbers_among(names))


def is_schema(path: str) -> bool:
    """Return whether it is a store's schema file: ``state/<ordinal>/0/[<store>/]_metadata/schema``.

    Spark writes the file where it is missing (``StateSchemaCompatibilityChecker``).
    """
    return path.startswith(f"{STATE}/") and path.endswith("/_metadata/schema")


def move_state(files: Iterable[str], ordinal: int, shift: int) -> StateFiles:
    """Return the new places of one operator's files below ``state/<ordinal>``.

    ``shift`` is the number of versions by which the state is raised. Raises Incompatible if a file
    contains its version.
    """
    moves: list[tuple[str, str]] = []
    chains: dict[str, list[VersionedFile]] = {}
    for path in files:
        directory, _, name = path.rpartition("/")
        parts = directory.split("/")
        parts[1] = str(ordinal)
        directory = "/".join(parts)
        file = None if _NOT_VERSIONED & set(parts) else parse_name(_main(name))
        if file is not None and shift:
            _check_movable(file, path)
            if name == file.name:
                chains.setdefault(directory, []).append(file)
            name = f"{file.version + shift}{name.lstrip('0123456789')}"
        moves.append((path, f"{directory}/{name}"))
    bases = [
        f"{directory}/{shift}.{'snapshot' if chain[0].kind == 'delta' else 'zip'}"
        for directory, chain in chains.items()
        if not any(file.kind in _BASES for file in chain)
    ]
    return StateFiles(tuple(moves), tuple(bases))


def _main(name: str) -> str:
    """Return the name of the file to which a checksum file of Spark belongs.

    The checksum file contains no name, so it moves along unchanged.
    """
    return name.removesuffix(_SIDECAR)


def _check_movable(file: VersionedFile, path: str) -> None:
    if file.kind == "changelog" and file.unique_id is not None:
        raise Incompatible(
            "state cannot be moved to another batch (of another query, or of a sink that "
            f"is ahead): {path} holds a lineage of state versions (changelog "
            "checkpointing with checkpoint format 2)",
            hint="take the savepoint again without "
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled, or "
            "while the queries are at the same batch",
            path=path,
            reasons=["state-lineage"],
        )
