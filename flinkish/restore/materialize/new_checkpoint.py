"""Making a new Spark checkpoint from a recipe.

State files are hard-linked where possible (Spark never writes into a finished checkpoint file), or
copied by the storage itself; they must have their recorded sizes. Logs, metadata and schemas of a
savepoint pass through this process, which compares them with their recorded digests. These files
get other content only where they must: ``metadata`` with another query id; operator metadata with
another ordinal or kind, or with absolute locations (``stateSchemaFilePaths`` of Spark 4.x), which
Spark would follow back to the old checkpoint; and the logs, if the sources, the batch, the
watermark, the pins, the ids of state files, or paths of input files change. The files of empty
state are new. A local checkpoint is built beside its target and then renamed, so it appears
completely or not at all; on other storage its logs are written last. Hadoop's hidden ``.crc`` files
are not copied, because a stale one makes the read fail, and a missing one does not.

Spark requires of the logs at a restart (``MicroBatchExecution.populateStartOffsets``, 3.5 to 4.3):
``offsets/<N - 1>`` beside the newest ``offsets/<N>``; as many lines as the query has sources
(version 1); of the commits only the newest.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from flinkish import storage
from flinkish.checkpoint.cut import newest_committed_batch, newest_planned_batch
from flinkish.checkpoint.format.log_rewrites import with_commit, with_pins, with_query_id
from flinkish.checkpoint.format.logs import NO_OFFSET, StateIds, parse_offsets
from flinkish.checkpoint.format.names import (
    COMMITS,
    METADATA,
    METADATA_DIRECTORY,
    OFFSETS,
    SOURCES,
    STATE,
    is_state_data,
    parse_number,
)
from flinkish.checkpoint.format.operator_files import parse_operator_metadata, with_operator
from flinkish.checkpoint.format.pins import PIN_CODEC
from flinkish.errors import StorageError
from flinkish.restore.materialize import source_logs, state_files
from flinkish.restore.materialize.new_logs import NewLogs, needs_new_logs, new_logs
from flinkish.restore.materialize.origin_checkpoints import (
    OriginLogs,
    check_digest,
    check_empty_states_fit,
    check_states_agree,
    input_files,
    missing_file,
    not_as_recorded,
    not_one_source,
    parsed,
    read_file,
    read_logs,
    source_files,
)
from flinkish.restore.recipe import EmptyState, OriginCheckpoint, Recipe, TakenSource, TakenState
from flinkish.savepoint.format.digests import FileTable

#: The largest log, in bytes, that is read at once; a larger one is put in place and then compared.
_READ_WHOLE = 16 << 20


@dataclass(frozen=True)
class _File:
    """One file of the new checkpoint: new content, or the origin's file ``old`` unchanged."""

    path: str
    origin: OriginCheckpoint
    old: str = ""
    content: bytes | None = None


def make_checkpoint(recipe: Recipe, target: str, *, location: str | None = None) -> None:
    """Create the Spark checkpoint ``target`` from ``recipe``.

    ``target`` must not exist or must be an empty directory; its parents are created. ``location``
    is where Spark will read the checkpoint, if the caller renames it first, because the
    checkpoint's metadata has absolute locations.

    Raises StorageError if the target is taken or cannot be written, Corrupt if a file of an origin
    is missing or damaged, SavepointNotFound if its savepoint was removed meanwhile,
    UnsupportedFormat if a recorded digest has an unknown form, and Incompatible in six cases: the
    origins' state settings or versions of offset logs differ, sources cannot keep their numbers in
    an offset log of version 2, sources that become one have read different input, state cannot be
    raised to another version, empty state is needed for a state store or codec that is not Spark's,
    or it was planned with another number of partitions.
    """
    built = storage.locate(target)
    final = built if location is None else storage.locate(location)
    check_free(built)
    if storage.is_local(built):
        _make_local(recipe, final, built)
        return
    storage.make_directory(built)
    try:
        _put_all(recipe, final, built)
    except BaseException:
        storage.remove_tree(*storage.split(built))
        raise


def check_recipe(recipe: Recipe) -> None:
    """Raise what :func:`make_checkpoint` would raise for this recipe; nothing is written.

    All that depends on the recipe and on the origins' logs and metadata is decided as for the real
    checkpoint. Not checked are the target, the storage, and the files that are taken unchanged.
    """
    final = storage.locate(recipe.origins[recipe.base].root)
    for _ in _pinned(_files(recipe, final), recipe.pins):
        pass


def recorded_files(recipe: Recipe, target: str) -> FileTable:
    """Return the sizes and digests that state files of the checkpoint ``target`` must have.

    They are the origins' records of the state files that are taken unchanged.
    """

    def recorded() -> Iterator[tuple[str, int, str]]:
        for file in _files(recipe, storage.locate(target)):
            record = file.origin.recorded.get(file.old) if file.content is None else None
            if record is not None and is_state_data(file.path):
                yield file.path, record.size, record.digest

    return FileTable.of(recorded())


def check_free(final: str) -> None:
    """Refuse a target that exists and is not an empty directory (StorageError)."""
    if is_taken(final):
        raise StorageError(
            f"cannot create checkpoint {final}: it exists and is not an empty directory",
            hint="choose another checkpoint directory, or remove that one",
            path=final,
        )


def is_taken(location: str) -> bool:
    """Return whether a location has anything but an empty directory."""
    if storage.is_local(location):
        is_empty = os.path.isdir(location) and not os.listdir(location)
        return os.path.lexists(location) and not is_empty
    listing = storage.list_directory(location)
    return bool(listing.files or listing.directories)


def remove_unused(recipe: Recipe, target: str) -> None:
    """Remove a checkpoint that the job has made for a query, if Spark ran no batch in it.

    Spark refused to start the query, or the driver was killed before it could record the query. A
    checkpoint in which Spark has run a batch stays, and :func:`make_checkpoint` refuses it as a
    target.
    """
    planned = recipe.batch_id + (1 if recipe.replays_planned else 0)
    newest = newest_planned_batch(target), newest_committed_batch(target)
    if newest[0] in (None, planned) and newest[1] in (None, recipe.batch_id):
        storage.remove_tree(*storage.split(storage.locate(target)))


def _make_local(recipe: Recipe, final: str, target: str) -> None:
    storage.make_directory(os.path.dirname(target))
    building = storage.temporary_name(target)
    try:
        storage.make_new_directory(building)
        _put_all(recipe, final, building)
        storage.publish(building, target)
    except BaseException:
        storage.remove_tree(*storage.split(building))
        raise


def _put_all(recipe: Recipe, final: str, building: str) -> None:
    """Write all files below ``building``, many at once to and from remote storage.

    The logs are written last. Where no directory can be renamed (S3), Spark therefore finds no logs
    in a checkpoint whose state is unfinished.
    """
    directories: set[str] = set()
    snapshots: dict[bytes, str] = {}
    remote = next((d.root for d in recipe.origins if not storage.is_local(d.root)), final)

    def put(item: tuple[_File, str]) -> None:
        _put(*item)

    def pieces(files: Iterable[_File]) -> Iterator[tuple[_File, str]]:
        for file in files:
            path = storage.join(building, file.path)
            if storage.parent(path) not in directories:
                storage.make_directory(storage.parent(path))
                directories.add(storage.parent(path))
            state = file.path.startswith(f"{STATE}/")
            if file.content is not None and state and storage.is_local(path):
                # Hundreds of empty snapshots have the same content, and syncing each one is slow.
                # The first is written at once, and the others are linked to it.
                same = snapshots.setdefault(file.content, path)
                if same == path:
                    storage.write_bytes(path, file.content)
                else:
                    storage.place(same, path)
                continue
            yield file, path

    where = storage.locate(remote) if storage.is_local(final) else final
    last: list[_File] = []

    def data() -> Iterator[_File]:
        for file in _pinned(_files(recipe, final), recipe.pins):
            if _is_log(file.path):
                last.append(file)
            else:
                yield file

    for _ in storage.in_flight(where, put, pieces(data())):
        pass
    for _ in storage.in_flight(where, put, pieces(last)):
        pass


def _pinned(files: Iterable[_File], pins: Mapping[str, str]) -> Iterator[_File]:
    """Yield the files, with the settings ``pins`` changed in the offset log."""
    change = partial(with_pins, pins=pins)
    for file in files:
        if pins and file.path.startswith(f"{OFFSETS}/"):
            content = parsed(file.origin, file.old or file.path, change, file.content)
            yield replace(file, content=content)
        else:
            yield file


def _is_log(path: str) -> bool:
    return path.split("/")[0] in {METADATA, OFFSETS, COMMITS}


def _put(file: _File, path: str) -> None:
    """Write a file, and compare it with its record: by size, and unless it is state, by digest."""
    if file.content is not None:
        storage.write_bytes(path, file.content)
        return
    origin = file.origin
    recorded = origin.recorded.get(file.old)
    by_digest = recorded is not None and not is_state_data(file.old)
    if recorded is not None and by_digest and recorded.size <= _READ_WHOLE:
        storage.write_bytes(path, read_file(origin, file.old))
        return
    try:
        placed = storage.place(origin.at(file.old), path)
    except FileNotFoundError as error:
        raise missing_file(origin, file.old) from error
    if recorded is not None and placed.size != recorded.size:
        reason = f"has {placed.size} bytes instead of {recorded.size}"
        raise not_as_recorded(origin, file.old, reason)
    if by_digest:
        with storage.open_file(path) as content:
            check_digest(origin, file.old, content)


def _files(recipe: Recipe, final: str) -> Iterator[_File]:
    """Yield all files of the new checkpoint."""
    base = recipe.origins[recipe.base]
    if recipe.takes_planned_state:
        base = replace(base, files=(*base.files, *base.planned_state))
    if recipe.query_id is not None:
        change = partial(with_query_id, query_id=recipe.query_id)
        yield _File(METADATA, base, content=parsed(base, METADATA, change))
    else:
        yield _linked(base, METADATA)
    same = recipe.states is None and recipe.sources is None
    if same and recipe.batch_id == base.batch_id:
        for path in base.files:
            if path.startswith(f"{SOURCES}/"):
                yield from _source_file(base, path, path)
            elif path != METADATA and not path.startswith(f"{STATE}/"):
                yield _linked(base, path)
        for ordinal in state_files.ordinals(base.files):
            yield from _moved_state(base, ordinal, ordinal, 0, final, None)
        return
    yield from _Assembly(recipe, final).files()


def _for_spark(final: str) -> str:
    """Return the root as Spark names it; a local one stays a path."""
    return final if storage.is_local(final) else storage.for_spark(final)


def _linked(origin: OriginCheckpoint, path: str, new: str | None = None) -> _File:
    return _File(new or path, origin, old=path)


def _moved_state(
    origin: OriginCheckpoint,
    old: int,
    new: int,
    shift: int,
    final: str,
    pins: Mapping[str, str] | None,
    kind: str | None = None,
) -> Iterator[_File]:
    """Yield the state files of one operator under its new ordinal; only a shift needs ``pins``."""
    moved = state_files.move_state(state_files.of_operator(origin.files, old), new, shift)
    if not moved.moves:
        raise missing_file(origin, f"{STATE}/{old}")
    metadata = partial(with_operator, root=_for_spark(final), ordinal=new, kind=kind)
    rewritten = {
        path: content
        for path, _ in moved.moves
        if _is_operator_metadata(path)
        if (content := parsed(origin, path, metadata)) is not None
    }
    for path, target in moved.moves:
        if path in rewritten:
            yield _File(target, origin, content=rewritten[path])
        elif path.removesuffix(".crc") not in rewritten:  # skip the checksums of rewritten files
            yield _linked(origin, path, target)
    for target in moved.bases:
        zipped = target.endswith(".zip")
        codec = (pins or {}).get(PIN_CODEC)
        content = state_files.empty_archive() if zipped else state_files.empty_snapshot(codec)
        yield _File(target, origin, content=content)


def _is_operator_metadata(path: str) -> bool:
    parts = path.split("/")
    return len(parts) >= 4 and parts[2] == METADATA_DIRECTORY and not path.endswith(".crc")


class _Assembly:
    """Combines the files of a checkpoint that differs from the checkpoint of a single origin."""

    def __init__(self, recipe: Recipe, final: str) -> None:
        self._recipe = recipe
        self._final = final
        self._base = recipe.origins[recipe.base]
        self._batch = recipe.batch_id
        self._logs: dict[int, OriginLogs] = {i: read_logs(recipe.origins[i]) for i in recipe.used}
        self._pins = self._logs[recipe.base].offsets.pins
        self._states: Mapping[int, TakenState | EmptyState] = (
            {n: TakenState(recipe.base, n) for n in state_files.ordinals(self._base.files)}
            if recipe.states is None
            else recipe.states
        )
        origins = {s.origin for s in self._states.values() if isinstance(s, TakenState)}
        others = [self._logs[i] for i in sorted(origins - {recipe.base})]
        check_states_agree(self._logs[recipe.base], others)
        check_empty_states_fit(self._logs[recipe.base], self._states.values())

    def files(self) -> Iterator[_File]:
        """Yield all files except ``metadata``."""
        state_ids: dict[int, StateIds] = {}
        for ordinal, state in sorted(self._states.items()):
            if isinstance(state, TakenState):
                origin = self._recipe.origins[state.origin]
                shift = self._batch - origin.batch_id
                ids_of_origin = self._logs[state.origin].commit.state_ids
                if state.ordinal in ids_of_origin:
                    state_ids[ordinal] = ids_of_origin[state.ordinal]
                for file in _moved_state(
                    origin,
                    state.ordinal,
                    ordinal,
                    shift,
                    self._final,
                    self._pins,
                    kind=state.kind,
                ):
                    if not (state.new_schema and state_files.is_schema(file.path)):
                        yield file
            else:
                yield from self._empty_state(ordinal, state, state_ids)
        if needs_new_logs(self._recipe, self._logs):
            fresh = new_logs(self._recipe, self._logs)
            yield from self._new_logs(fresh, state_ids)
            yield from self._sources(fresh)
        else:
            yield from self._old_logs(state_ids)
            yield from self._own_sources()

    def _empty_state(
        self, ordinal: int, empty: EmptyState, state_ids: dict[int, StateIds]
    ) -> Iterator[_File]:
        stores = empty.stores
        for path, content in sorted((empty.files or {}).items()):
            data, target = content, path
            if _is_operator_metadata(f"{STATE}/{ordinal}/{path}"):
                change = partial(with_operator, root=_for_spark(self._final), ordinal=ordinal)
                data = parsed(self._base, path, change, content) or content
                # Spark's metadata decides: a join's four stores may be one store's column families.
                stores = parse_operator_metadata(content, path).store_names
                directory, _, name = path.rpartition("/")
                number = parse_number(name)
                if number is not None:  # v2: no later batch than the checkpoint's
                    target = f"{directory}/{min(number, self._batch)}"
            yield _File(f"{STATE}/{ordinal}/{target}", self._base, content=data)
        ids: StateIds = ()
        if self._logs[self._recipe.base].commit.version >= 2:
            ids = state_files.new_ids(empty.partitions, stores, lambda: str(uuid.uuid4()))
            state_ids[ordinal] = ids
        kind, snapshot = state_files.empty_store(self._pins)
        flat = [f"_{one}" for partition in ids for one in partition]
        directories = state_files.store_directories(ordinal, empty.partitions, stores)
        for directory, suffix in zip(directories, flat or [""] * len(directories), strict=True):
            name = f"{self._batch + 1}{suffix}.{kind}"
            yield _File(f"{directory}/{name}", self._base, content=snapshot)

    def _old_logs(self, state_ids: Mapping[int, StateIds]) -> Iterator[_File]:
        """Yield the base's logs unchanged, except for the ids of state files."""
        base = self._logs[self._recipe.base]
        plain = base.commit.version == 1
        for path in self._base.files:
            directory = path.split("/")[0]
            if directory == OFFSETS or (plain and directory == COMMITS):
                yield _linked(self._base, path)
        if not plain:
            yield self._commit(base.commit.next_watermark_ms, state_ids)

    def _new_logs(self, fresh: NewLogs, state_ids: Mapping[int, StateIds]) -> Iterator[_File]:
        entries = {self._batch: fresh.offsets}
        if self._batch > 0:
            entries[self._batch - 1] = fresh.offsets
        if fresh.planned is not None:
            entries[self._batch + 1] = fresh.planned
        for number, content in entries.items():
            yield _File(f"{OFFSETS}/{number}", self._base, content=content)
        yield self._commit(fresh.watermark_ms, state_ids)

    def _commit(self, watermark_ms: int, state_ids: Mapping[int, StateIds]) -> _File:
        """Return the only commit. Older ones are left out: their state ids have old ordinals."""
        data = self._logs[self._recipe.base].commit_bytes
        path = f"{COMMITS}/{self._batch}"
        content = with_commit(data, path, watermark_ms=watermark_ms, state_ids=state_ids)
        return _File(path, self._base, content=content)

    def _own_sources(self) -> Iterator[_File]:
        for path in self._base.files:
            if path.startswith(f"{SOURCES}/"):
                yield from _source_file(self._base, path, path)

    def _sources(self, fresh: NewLogs) -> Iterator[_File]:
        if self._recipe.sources is None:
            yield from self._own_sources()
            return
        entries = [parse_offsets(data, OFFSETS) for data in (fresh.offsets, fresh.planned) if data]
        lines = [dict(zip(entry.sources, entry.offsets, strict=True)) for entry in entries]
        first: dict[str, tuple[int, TakenSource]] = {}
        for number, source in enumerate(self._recipe.sources):
            if not isinstance(source, TakenSource):
                continue
            line, same = first.setdefault(source.target, (number, source))
            position = fresh.positions[source.target]
            origin, other = (self._recipe.origins[each.origin] for each in (source, same))
            if same is source:
                yield from _source(origin, source, position)
            elif (same.origin, same.directory) != (source.origin, source.directory):
                # Two saved sources are one DataFrame now, used twice: two lines, one directory.
                pairs = [{at.get(str(n), NO_OFFSET) for n in (line, number)} for at in lines]
                if any(len(pair - {NO_OFFSET}) > 1 for pair in pairs) or (
                    input_files(origin, source.directory, position)
                    != input_files(other, same.directory, position)
                ):
                    raise not_one_source(origin, source.directory, other, same.directory)


def _source_file(origin: OriginCheckpoint, path: str, new: str) -> Iterator[_File]:
    """Yield a file of a source; a file with mapped paths is rewritten, and loses its checksum."""
    if not origin.paths:
        yield _linked(origin, path, new)
    elif not path.endswith(".crc"):
        yield _File(new, origin, content=read_file(origin, path))


def _source(origin: OriginCheckpoint, source: TakenSource, position: str) -> Iterator[_File]:
    """Yield the files of one source up to its position."""
    old, new = f"{SOURCES}/{source.directory}/", f"{SOURCES}/{source.target}/"
    chosen = source_files(origin, old, position)
    for name in chosen.kept:
        if source.move is None:
            yield from _source_file(origin, old + name, new + name)
        else:
            change = partial(source_logs.with_moved_files, move=source.move)
            yield _File(new + name, origin, content=parsed(origin, old + name, change))
    for name, content in chosen.written.items():
        if source.move is not None:
            content = source_logs.with_moved_files(content, name, source.move)
        yield _File(new + name, origin, content=content)
