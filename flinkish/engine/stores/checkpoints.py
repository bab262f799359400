"""The state in a checkpoint's directory: its operators, their stores and their schemas.

Below ``state/<operator>/``, ``<partition>/[<store>/]`` holds a store's files, ``_metadata`` the
operator metadata of Spark 4, and ``0/[<store>/]_metadata/schema`` or ``_stateSchema/<store>/`` the
schemas. The backend, the codec and the version are in the offset and commit logs.
:mod:`flinkish.checkpoint.format` parses all of these.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from flinkish.annotations import public_evolving
from flinkish.checkpoint.format import operator_files
from flinkish.checkpoint.format.logs import StateIds, parse_commit, parse_offsets
from flinkish.checkpoint.format.names import (
    CANONICAL,
    COMMITS,
    METADATA_DIRECTORY,
    OFFSETS,
    ROCKSDB,
    STATE,
    is_canonical,
    numbers_among,
    state_files_among,
)
from flinkish.checkpoint.format.operator_files import OperatorMetadata, parse_operator_metadata
from flinkish.checkpoint.format.pins import (
    PIN_CODEC,
    PIN_ENCODING,
    PIN_ROW_CHECKSUM,
    known_backend,
    pinned,
)
from flinkish.checkpoint.format.schema_files import FamilySchemas, parse_schema_file, schema_version
from flinkish.engine.errors import EngineError, MissingStateFile, StateFormatError
from flinkish.engine.stores.files import StateSource, StoreFiles, read_bytes


@dataclass(frozen=True)
class StoreState:
    """A store: its column families, and the location of its schema.

    ``name`` is ``default`` or one of :data:`~flinkish.checkpoint.format.names.JOIN_STORES`.
    ``directory`` is relative to a partition's directory: "", or with a slash at its end.
    ``families`` of a store without column families has one entry, named ``default``.
    ``schema_path`` is the store's newest schema file, relative to the operator's directory, and
    ``schema_version`` that file's format.
    """

    name: str
    directory: str
    families: tuple[FamilySchemas, ...]
    schema_path: str
    schema_version: int


@public_evolving
@dataclass(frozen=True)
class OperatorState:
    """The state of one stateful operator at one version.

    Attributes
    ----------
    ordinal
        Spark's operator id.
    name
        Spark's name for the operator; None if no file records it (Spark 3.5).
    version
        The version of the state: the number of the batch + 1.
    backend
        ``HDFS``, ``ROCKSDB`` or ``CANONICAL``. Whether state is canonical is known from its files,
        because the pinned settings keep the backend that the state came from.
    partitions
        The number of partitions on disk, which may be less than in Spark's metadata.
    stores
        The operator's stores.
    prefix_columns
        The number of prefix columns of keys that are read by a prefix scan, from the metadata of
        Spark 4; 0 for other keys, and without metadata.
    metadata
        The operator metadata of Spark 4; None without it.
    metadata_path
        The path of the metadata, relative to the operator's directory.
    unique_ids
        The unique ids by partition and store, in checkpoint format 2.
    pins
        The query's pinned settings.
    """

    ordinal: int
    name: str | None
    version: int
    backend: str
    partitions: int
    stores: tuple[StoreState, ...]
    prefix_columns: int = 0
    metadata: OperatorMetadata | None = None
    metadata_path: str | None = None
    unique_ids: StateIds | None = None
    pins: Mapping[str, str] = field(default_factory=dict)

    @property
    def directory(self) -> str:
        """The operator's directory, relative to the checkpoint."""
        return f"{STATE}/{self.ordinal}"

    @property
    def compression(self) -> str:
        """The compression codec of the operator's files."""
        return pinned(self.pins, PIN_CODEC)


@dataclass(frozen=True)
class CheckpointState:
    """The state of a query after one committed batch.

    ``pins`` are the settings pinned in the offset log.
    """

    batch: int
    pins: Mapping[str, str]
    operators: tuple[OperatorState, ...]


@public_evolving
def read_checkpoint(source: StateSource, batch: int | None = None) -> CheckpointState:
    """Read the description of a checkpoint's state; no rows are read.

    Parameters
    ----------
    source
        The checkpoint's directory.
    batch
        The number of a committed batch; None means the newest.

    Raises
    ------
    EngineError
        No batch is committed.
    StateFormatError
        A file is damaged, of an unknown version, or missing (such as the commit of ``batch``), or a
        state partition is missing.
    """
    committed = numbers_among(source.names(COMMITS))
    chosen = max(committed, default=None) if batch is None else batch
    if chosen is None:
        raise EngineError("the checkpoint has no committed batch: there is no state to read")
    offsets, commit = f"{OFFSETS}/{chosen}", f"{COMMITS}/{chosen}"
    if chosen not in committed:
        raise MissingStateFile(commit, None, f"there is no commit of batch {chosen}")
    pins = parse_offsets(_required(source, offsets), offsets).pins
    ids = parse_commit(_required(source, commit), commit).state_ids
    return CheckpointState(chosen, pins, read_operators(source, chosen, pins, ids))


def read_operators(
    source: StateSource,
    batch: int,
    pins: Mapping[str, str],
    ids: Mapping[int, StateIds],
) -> tuple[OperatorState, ...]:
    """Return the operators in a checkpoint's ``state`` directory, ordered by ordinal.

    ``batch`` is the one whose resulting state is requested, ``pins`` the settings pinned in the
    offset log, ``ids`` the unique ids in the commit log, by ordinal. Raises StateFormatError if a
    metadata or schema file is damaged, a schema file or a state partition is missing, or the pinned
    backend is unknown.
    """
    ordinals = numbers_among(source.names(STATE))
    return tuple(_operator(source, o, batch, pins, ids.get(o)) for o in ordinals)


def _operator(
    source: StateSource,
    ordinal: int,
    batch: int,
    pins: Mapping[str, str],
    ids: StateIds | None,
) -> OperatorState:
    root = f"{STATE}/{ordinal}"
    partitions = numbers_among(source.names(root))
    if partitions != list(range(len(partitions))) or not partitions:
        raise _missing_partition(
            root, next((i for i in range(len(partitions)) if i not in partitions), 0)
        )
    metadata_path, metadata = _metadata(source, root, batch)
    names = operator_files.store_names(metadata, source.names(f"{root}/0"))
    stores = tuple(_store(source, root, name, metadata) for name in names)
    keys = [family.key for store in stores for family in store.families]
    expected = operator_files.expected_partitions(pins, keys, len(partitions))
    if len(partitions) < expected:
        raise _missing_partition(root, len(partitions))
    return OperatorState(
        ordinal=ordinal,
        name=metadata.name if metadata else None,
        version=batch + 1,
        backend=_backend(source, f"{root}/0/{stores[0].directory}", pins),
        partitions=len(partitions),
        stores=stores,
        prefix_columns=max((s.prefix_columns for s in metadata.stores), default=0)
        if metadata
        else 0,
        metadata=metadata,
        metadata_path=metadata_path,
        unique_ids=ids,
        pins=dict(pins),
    )


def _missing_partition(root: str, partition: int) -> StateFormatError:
    return StateFormatError(f"{root}/{partition}", None, "the state partition is missing")


def _backend(source: StateSource, directory: str, pins: Mapping[str, str]) -> str:
    if is_canonical(source.names(directory.rstrip("/"))):
        return CANONICAL
    return known_backend(pins, "")


def _required(source: StateSource, path: str, what: str = "the file") -> bytes:
    try:
        return read_bytes(source, path)
    except FileNotFoundError as error:
        raise MissingStateFile(path, None, f"{what} is missing") from error


def _metadata(
    source: StateSource, root: str, batch: int
) -> tuple[str | None, OperatorMetadata | None]:
    path = operator_files.metadata_path(source.names(f"{root}/{METADATA_DIRECTORY}/v2"), batch)
    try:
        data = read_bytes(source, f"{root}/{path}")
    except FileNotFoundError:
        return None, None
    return path, parse_operator_metadata(data, f"{root}/{path}")


def _store(
    source: StateSource, root: str, name: str, metadata: OperatorMetadata | None
) -> StoreState:
    path = operator_files.schema_path(metadata, name)
    data = _required(source, f"{root}/{path}", "the state schema")
    families = parse_schema_file(data, f"{root}/{path}")
    version = schema_version(data, f"{root}/{path}")
    return StoreState(name, operator_files.store_directory(name), families, path, version)


def store_files(
    source: StateSource, operator: OperatorState, partition: int, store: StoreState
) -> StoreFiles:
    """Return the files of one store of one partition.

    The result can be pickled if ``source`` can.
    """
    root = f"{operator.directory}/{partition}/{store.directory}"
    names = tuple(source.names(root.rstrip("/")))
    return StoreFiles(
        names=names,
        version=operator.version,
        open=functools.partial(_open_below, source, root),
        backend=operator.backend,
        unique_id=_unique_id(operator, partition, names),
        compression=operator.compression,
        row_checksums=pinned(operator.pins, PIN_ROW_CHECKSUM) == "true",
        encoding=pinned(operator.pins, PIN_ENCODING),
        local_path=functools.partial(_local_below, source, root),
    )


def _unique_id(operator: OperatorState, partition: int, names: tuple[str, ...]) -> str | None:
    """Return the unique id of a store, or None if it has none (checkpoint format 1).

    The commit log has the ids of all stores of a partition; the file names show which one is this
    store's.
    """
    if not operator.unique_ids or partition >= len(operator.unique_ids):
        return None
    ids = operator.unique_ids[partition]
    there = [f.unique_id for f in state_files_among(names) if f.version == operator.version]
    own = [unique for unique in there if unique in ids]
    if own or operator.backend != ROCKSDB or None in there:
        return own[0] if own else None
    return next(iter(ids), None)  # its file is missing, and the error must name that file


def _open_below(source: StateSource, root: str, name: str) -> BinaryIO:
    return source.open(root + name)


def _local_below(source: StateSource, root: str, name: str) -> str | None:
    return source.local_path(root + name)
