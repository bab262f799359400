"""Read one stateful operator's directory ``state/<ordinal>``: the files of one state version.

Layout: ``<partition>/`` holds the default store's files, ``<partition>/<store>/`` those of a named
one (joins), and ``0/[<store>/]_metadata/schema`` a store's schema; Spark 4.x adds
``_metadata/metadata`` (v1), or ``_metadata/v2/<batch>`` with ``_stateSchema/<store>/<batch>_<id>``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from flinkish import storage as fs
from flinkish.checkpoint.errors import HINT_WHOLE, unreadable
from flinkish.checkpoint.fileset import FileSet, ListedFile
from flinkish.checkpoint.format import operator_files
from flinkish.checkpoint.format.archives import SharedFile, read_archive_metadata
from flinkish.checkpoint.format.chains import KnownFiles, find_chain, find_known_files
from flinkish.checkpoint.format.errors import CheckpointFormatError, MissingStateFile
from flinkish.checkpoint.format.names import (
    COUNTS,
    DEFAULT_STORE,
    HDFS,
    METADATA_DIRECTORY,
    ROCKSDB,
    SCHEMA_DIRECTORY,
    STATE,
    VersionedFile,
    is_canonical,
    numbers_among,
    parse_number,
    schema_batch,
    state_files_among,
)
from flinkish.checkpoint.format.operator_files import OperatorMetadata, parse_operator_metadata
from flinkish.checkpoint.format.pins import PIN_PROVIDER, backend_of
from flinkish.checkpoint.format.schema_files import (
    DEFAULT_FAMILY,
    FamilySchemas,
    StoreInfo,
    parse_schema_file,
)
from flinkish.errors import Corrupt, FlinkishError, NotSavepointable

#: State version -> for each partition, the ids of its stores' files.
StateIds = Mapping[int, Sequence[Sequence[str]]]


@dataclass(frozen=True)
class StateOnDisk:
    """The state of one stateful operator at one version, as a checkpoint has it.

    ``kind`` is Spark's name for the operator (``stateStoreSave``); None without metadata (Spark
    3.5). ``partitions`` counts its directories; metadata may list more than there are (a global
    limit has one directory). ``bytes`` is the size of the state itself, ``files`` the number of all
    files, metadata and schemas included.
    """

    ordinal: int
    kind: str | None
    partitions: int
    bytes: int
    files: int
    stores: tuple[StoreInfo, ...] = ()


@dataclass(frozen=True)
class _Store:
    """The listing of one store of one partition."""

    name: str
    prefix: str
    listing: fs.Listing
    versions: tuple[VersionedFile, ...]

    @property
    def is_canonical(self) -> bool:
        """Whether its files are the engine's Avro files, which have only one version."""
        return is_canonical(list(self.listing.files))


@dataclass(frozen=True)
class _Partition:
    """One partition: the files of its stores at the version, or the error from reading them.

    ``stores`` are its stores' path prefixes and directories by name; ``newest`` is its newest
    version.
    """

    number: int
    stores: Mapping[str, tuple[str, str]]
    newest: int
    files: FileSet
    trouble: Exception | None = None


def read_operator(
    root: str,
    ordinal: int,
    *,
    version: int,
    pins: Mapping[str, str],
    state_ids: StateIds | None,
) -> tuple[StateOnDisk, FileSet] | None:
    """Return an operator's state and files at a version; None if it has no part in the version.

    An operator has no part in the version if it was planned but no batch has run with it, or if it
    was dropped from the program (Spark 3.5 leaves its directory). Partitions are read one at a
    time, on remote storage many at once; their files are kept only as compressed lists.

    ``state_ids`` are the unique ids by version, if the commit log has them. Raises
    FileNotFoundError if a file is missing, Corrupt if one is damaged, UnsupportedFormat for a newer
    Spark, and NotSavepointable if the state store provider is unknown.
    """
    directory = os.path.join(root, STATE, str(ordinal))
    prefix = f"{STATE}/{ordinal}/"
    top = fs.list_directory(directory)
    metadata, files = _metadata_files(directory, prefix, top, version - 1)
    choose = _chooser(pins, version, state_ids)
    read = partial(_read_partition, directory, prefix, metadata, choose, version)
    names: dict[int, Mapping[str, tuple[str, str]]] = {}
    newest = total = 0
    trouble: Exception | None = None
    for partition in fs.in_flight(root, read, numbers_among(top.directories)):
        names[partition.number] = partition.stores
        newest = max(newest, partition.newest)
        trouble = trouble or partition.trouble
        files.extend(partition.files)
        total += partition.files.bytes
    if metadata is not None and not names:  # a planned operator has a schema in partition 0
        raise FileNotFoundError(2, "not listed", os.path.join(directory, "0"))
    if not _takes_part(newest, version, metadata, state_ids):
        return None
    if isinstance(choose, _UnknownProvider):
        raise choose.error
    schemas = _schema_files(names.get(0, {}))
    stores = _store_infos(directory, prefix, names.get(0, {}), metadata, {f.path for f in schemas})
    keys = [store.key_schema for store in stores if store.key_schema is not None]
    expected = operator_files.expected_partitions(pins, keys, len(names))
    partitions = _check_partitions(directory, names, expected)
    if trouble is not None:
        raise trouble
    for file in schemas:
        files.add(file)
    kind = metadata.name if metadata else None
    return StateOnDisk(ordinal, kind, partitions, total, len(files), stores), files


def _listed(path: str, entry: fs.FileEntry) -> ListedFile:
    return ListedFile(path, entry.size(), entry.stamp())


def _metadata_files(
    directory: str, prefix: str, top: fs.Listing, batch: int
) -> tuple[OperatorMetadata | None, FileSet]:
    """Return Spark 4.x's operator metadata valid at ``batch``, and its files up to that batch."""
    files = FileSet()
    there: set[str] = set()
    if METADATA_DIRECTORY in top.directories:
        for relative, entry in fs.walk_files(
            os.path.join(directory, METADATA_DIRECTORY), follow=True
        ):
            head, _, name = relative.rpartition("/")
            number = parse_number(name) if head == "v2" else None
            if number is not None and number > batch:
                continue  # written by a later batch
            files.add(_listed(f"{prefix}{METADATA_DIRECTORY}/{relative}", entry))
            there.add(relative)
    if SCHEMA_DIRECTORY in top.directories:
        for relative, entry in fs.walk_files(
            os.path.join(directory, SCHEMA_DIRECTORY), follow=True
        ):
            if schema_batch(relative) <= batch:
                files.add(_listed(f"{prefix}{SCHEMA_DIRECTORY}/{relative}", entry))
    v2 = [relative.removeprefix("v2/") for relative in there if relative.startswith("v2/")]
    chosen = operator_files.metadata_path(v2, batch)
    name = chosen.removeprefix(f"{METADATA_DIRECTORY}/")
    if name not in there:
        return None, files
    path = os.path.join(directory, chosen)
    try:
        return parse_operator_metadata(fs.read_bytes(path), name), files
    except CheckpointFormatError as error:
        raise unreadable(path, error, "is not operator metadata") from error


def _read_partition(
    directory: str,
    prefix: str,
    metadata: OperatorMetadata | None,
    choose: _Chooser,
    version: int,
    number: int,
) -> _Partition:
    """List a partition's stores and choose their files; return an error instead of raising it.

    Whether the error matters is known only after all partitions are read: the operator may have no
    part in the version.
    """
    stores = _list_stores(directory, prefix, metadata, number)
    newest = max((f.version for store in stores for f in store.versions), default=0)
    if any(store.is_canonical for store in stores):
        newest = version
    files = FileSet()
    trouble: Exception | None = None
    try:
        for store in stores:
            for file in _store_files(store, number, choose):
                files.add(file)
    except (FileNotFoundError, FlinkishError) as error:
        trouble = error
    named = {store.name: (store.prefix, store.listing.path) for store in stores}
    return _Partition(number, named, newest, files, trouble)


def _list_stores(
    directory: str, prefix: str, metadata: OperatorMetadata | None, partition: int
) -> tuple[_Store, ...]:
    path = os.path.join(directory, str(partition))
    top = fs.list_directory(path)
    stores = []
    for name in operator_files.store_names(metadata, top.directories):
        listing = top if name == DEFAULT_STORE else fs.list_directory(os.path.join(path, name))
        store_prefix = f"{prefix}{partition}/{operator_files.store_directory(name)}"
        stores.append(_Store(name, store_prefix, listing, tuple(state_files_among(listing.files))))
    return tuple(stores)


def _takes_part(
    newest: int,
    version: int,
    metadata: OperatorMetadata | None,
    state_ids: StateIds | None,
) -> bool:
    """Return whether the operator belongs to the version, not only to an older or planned one."""
    if state_ids is not None:
        return bool(state_ids.get(version))
    if newest == 0:
        return False  # only schema files: planned, and never run
    # Spark 4.x fails on a leftover operator, so a missing version is damage in its checkpoints.
    return newest >= version or metadata is not None or newest == version - 1


def _check_partitions(directory: str, partitions: Collection[int], expected: int) -> int:
    """Return the number of partitions; FileNotFoundError if an expected one is missing."""
    count = len(partitions)
    for partition in range(max(expected, count)):
        if partition not in partitions:
            raise FileNotFoundError(2, "not listed", os.path.join(directory, str(partition)))
    return count


_Chooser = Callable[[_Store, int], KnownFiles]


@dataclass(frozen=True)
class _UnknownProvider:
    """The chooser for an unknown state store provider; it holds the error."""

    error: NotSavepointable

    def __call__(self, store: _Store, partition: int) -> KnownFiles:
        return KnownFiles(())


def _chooser(pins: Mapping[str, str], version: int, state_ids: StateIds | None) -> _Chooser:
    backend = backend_of(pins)
    provider = pins.get(PIN_PROVIDER)
    if backend is None and provider:
        return _UnknownProvider(
            NotSavepointable(
                f"state store provider {provider} is unknown",
                hint="flinkish knows Spark's HDFS-backed and RocksDB state stores",
            )
        )

    def choose(store: _Store, partition: int) -> KnownFiles:
        if state_ids is not None:
            ids = {
                v: frozenset(by_partition[partition] if partition < len(by_partition) else ())
                for v, by_partition in state_ids.items()
            }
            return find_known_files(store.versions, version, ids)
        kinds = {f.kind for f in store.versions}
        rocksdb = backend == ROCKSDB or (backend is None and bool(kinds & {"zip"}))
        kind = ROCKSDB if rocksdb or kinds == {"changelog"} else HDFS
        chain = find_chain(store.versions, version, kind)
        archives = (chain.snapshot,) if kind == ROCKSDB and chain.snapshot else ()
        return KnownFiles(chain.files, archives)

    return choose


def _store_files(store: _Store, partition: int, choose: _Chooser) -> Iterator[ListedFile]:
    """Yield the store's files at the version; FileNotFoundError for a missing one."""
    path = store.listing.path
    if store.is_canonical:
        if COUNTS not in store.listing.files:
            raise FileNotFoundError(2, "not listed", os.path.join(path, COUNTS))
        for name, entry in sorted(store.listing.files.items()):
            yield _listed(store.prefix + name, entry)
        return
    try:
        chain = choose(store, partition)
    except MissingStateFile as lost:
        raise FileNotFoundError(2, "not listed", os.path.join(path, lost.file)) from lost
    for name in chain.files:
        yield _listed(store.prefix + name, store.listing.files[name])
        sidecar = f"{name}.crc"
        if sidecar in store.listing.files:
            yield _listed(store.prefix + sidecar, store.listing.files[sidecar])
    shared: dict[str, fs.Listing] = {}
    yielded: set[str] = set()
    for archive in chain.archives:
        for file in _shared_files(os.path.join(path, archive)):
            reference = file.path
            folder, _, name = reference.partition("/")
            if folder not in shared:
                shared[folder] = fs.list_directory(os.path.join(path, folder))
            if name not in shared[folder].files:
                if not chain.exact:
                    continue  # the archive may be of an abandoned attempt: ids are unknown
                raise FileNotFoundError(2, "not listed", os.path.join(path, reference))
            if reference not in yielded:
                yielded.add(reference)
                listed = _listed(store.prefix + reference, shared[folder].files[name])
                if listed.size != file.size:
                    raise Corrupt(
                        f"{os.path.join(path, reference)} has {listed.size} bytes, but {archive} "
                        f"records {file.size}",
                        hint=HINT_WHOLE,
                        path=os.path.join(path, reference),
                    )
                yield listed


def _shared_files(path: str) -> tuple[SharedFile, ...]:
    try:
        with fs.open_file(path) as file:
            metadata = read_archive_metadata(file, os.path.basename(path))
    except CheckpointFormatError as error:
        raise unreadable(path, error, "is damaged") from error
    return metadata.shared


def _schema_files(stores: Mapping[str, tuple[str, str]]) -> list[ListedFile]:
    """Return the schema files below partition 0 (one per store)."""
    return [
        _listed(f"{prefix}{METADATA_DIRECTORY}/{relative}", entry)
        for prefix, path in stores.values()
        for relative, entry in fs.walk_files(os.path.join(path, METADATA_DIRECTORY), follow=True)
    ]


def _store_infos(
    directory: str,
    prefix: str,
    stores: Mapping[str, tuple[str, str]],
    metadata: OperatorMetadata | None,
    schemas: Collection[str],
) -> tuple[StoreInfo, ...]:
    infos: list[StoreInfo] = []
    for name in stores:
        relative = operator_files.schema_path(metadata, name)
        if relative.startswith("0/") and f"{prefix}{relative}" not in schemas:
            infos.append(StoreInfo(name, None, None))
            continue
        path = os.path.join(directory, relative)
        try:
            families = parse_schema_file(fs.read_bytes(path), os.path.basename(path))
        except CheckpointFormatError as error:
            raise unreadable(path, error, "is damaged") from error
        infos.extend(store_info(name, family) for family in families)
    return tuple(infos)


def store_info(store: str, family: FamilySchemas) -> StoreInfo:
    """Return a family's schemas, named after its store and family without the default names."""
    name = store if family.name == DEFAULT_FAMILY else family.name
    if family.name != DEFAULT_FAMILY and store != DEFAULT_STORE:
        name = f"{store}/{family.name}"
    return StoreInfo(name, family.key, family.value)
