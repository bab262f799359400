"""Making a new Spark checkpoint from a savepoint's query, or from another checkpoint's cut.

Files are hard-linked where possible (Spark never writes into a finished checkpoint file), except
the two that must differ: ``metadata`` with another query id, and operator metadata that holds
absolute locations (``stateSchemaFilePaths`` of Spark 4.x), which Spark would follow back to the
old checkpoint. The checkpoint is built beside its place and renamed, so it appears complete or
not at all. Hadoop's hidden ``.crc`` files stay behind: stale ones fail the read, none is fine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from flinkish.checkpoint import layout
from flinkish.checkpoint.cut import Cut, read_cut
from flinkish.errors import Corrupt, SavepointNotFound, StorageError
from flinkish.savepoint import storage

_STATE_MARK = f"/{layout.STATE}/"
_SCHEMA_KEY = "stateSchemaFilePaths"


def materialise(
    source_root: str, files: Iterable[str], target: str, *, query_id: str | None
) -> None:
    """Create the Spark checkpoint ``target`` from ``files`` (relative) below ``source_root``.

    ``target`` must not exist or be an empty directory; parents are created. ``query_id`` replaces
    the one in ``metadata`` (None: keep it, the query goes on as itself).
    Raises StorageError (target taken or refused), Corrupt (a file is missing or damaged).
    """
    source = storage.local_path(source_root)
    final = storage.local_path(target)
    if os.path.lexists(final) and not (os.path.isdir(final) and not os.listdir(final)):
        raise StorageError(
            f"cannot create checkpoint {final}: it exists and is not an empty directory",
            hint="choose another checkpoint directory, or remove that one",
            path=final,
        )
    storage.make_directory(os.path.dirname(final))
    building = storage.temporary_name(final)
    try:
        storage.make_new_directory(building)
        made: set[str] = set()
        for path in files:
            directory = os.path.dirname(path)
            if directory not in made:
                storage.make_directory(os.path.join(building, directory))
                made.add(directory)
            _put(source, building, path, final, query_id)
        storage.publish(building, final)
    except BaseException:
        storage.remove_tree(building)
        raise


def _put(source: str, building: str, path: str, final: str, query_id: str | None) -> None:
    old, new = os.path.join(source, path), os.path.join(building, path)
    try:
        changed: bytes | None = None
        if path == layout.METADATA and query_id is not None:
            changed = with_query_id(storage.read_bytes(old), query_id)
        elif _may_hold_locations(path):
            changed = with_schema_locations(storage.read_bytes(old), final)
        if changed is None:
            storage.place(old, new)
        else:
            storage.write_bytes(new, changed)
    except FileNotFoundError as error:
        raise Corrupt(
            f"{old} is missing", hint="use another savepoint, or copy the file back", path=old
        ) from error
    except ValueError as error:
        raise Corrupt(f"{old} is damaged: {error}", path=old) from error


def with_query_id(data: bytes, query_id: str) -> bytes:
    """Spark's ``metadata`` file with another query id; ValueError when it is none."""
    layout.parse_query_id(data)
    content = json.loads(data)
    content["id"] = query_id
    return json.dumps(content, separators=(",", ":")).encode()


def _may_hold_locations(path: str) -> bool:
    parts = path.split("/")
    return len(parts) >= 4 and parts[0] == layout.STATE and parts[2] == "_metadata"


def with_schema_locations(data: bytes, root: str) -> bytes | None:
    """Operator metadata with its schema locations moved to the checkpoint ``root``.

    None when it holds none (v1). The form (``file:/p``, ``file:///p`` or plain) stays as Spark
    wrote it. ValueError when it is no operator metadata.
    """
    layout.parse_operator_metadata(data)
    head, _, body = data.decode("utf-8").partition("\n")
    content = json.loads(body)
    found = False
    for store in content["stateStoreInfo"]:
        locations = store.get(_SCHEMA_KEY)
        if locations:
            store[_SCHEMA_KEY] = [moved_location(location, root) for location in locations]
            found = True
    if not found:
        return None
    return f"{head}\n{json.dumps(content, separators=(',', ':'))}".encode()


def moved_location(location: str, root: str) -> str:
    """``file:/old/state/0/_stateSchema/...`` for the checkpoint at ``root`` instead of /old."""
    at = location.rfind(_STATE_MARK)
    if at < 0:
        raise ValueError(f"{location} lies in no state directory")
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return root + location[at:]
    slashes = "//" if rest.startswith("//") else ""
    return f"{scheme}:{slashes}{root}{location[at:]}"


def adopt_cuts(path: str) -> dict[str | None, Cut]:
    """The cuts of plain Spark checkpoints, to restore queries flinkish never managed.

    ``path`` is one checkpoint (the key is None) or a directory of several, one for each query
    name (the keys). Raises SavepointNotFound when it is neither, and what ``read_cut`` raises.
    """
    root = storage.local_path(path)
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
