"""The deepest check of a savepoint: the engine decodes and counts every state row.

For an operator with one store, the number of rows that Spark reports is the number of keys in that
store (``StateStoreMetrics``). For a stream-stream join, it is the number of keys in the two stores
with the buffered rows, ``keyWithIndexToValue`` (``SymmetricHashJoinStateManager.metrics``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from flinkish import storage
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.logs import parse_commit
from flinkish.checkpoint.format.names import (
    COMMITS,
    DEFAULT_STORE,
    METADATA_DIRECTORY,
    NOT_STORES,
    SCHEMA_DIRECTORY,
    STATE,
    parse_number,
    schema_batch,
    state_files_among,
)
from flinkish.checkpoint.format.pins import PIN_CODEC, PIN_ENCODING, PIN_ROW_CHECKSUM, pinned
from flinkish.checkpoint.format.schema_files import parse_schema_file
from flinkish.engine.errors import EngineError, StateFormatError, UnsupportedState
from flinkish.engine.rows.encodings import FamilyShape, family_shape
from flinkish.engine.stores.canonical import read_rows
from flinkish.engine.stores.checkpoints import read_checkpoint, store_files
from flinkish.engine.stores.files import StoreFiles
from flinkish.engine.stores.store_rows import DEFAULT_FAMILY, count_rows
from flinkish.errors import Corrupt, UnsupportedFormat
from flinkish.savepoint.format.contents import (
    FORMAT_CANONICAL,
    FileRecord,
    OperatorRecord,
    QueryRecord,
)
from flinkish.savepoint.format.reader import BadFile, OpenSavepoint
from flinkish.savepoint.reporter import SavepointReporter
from flinkish.savepoint.state.engine_errors import DAMAGE, damage
from flinkish.savepoint.state.state_directories import saved_directory


@dataclass(frozen=True)
class DeepCheck:
    """The result of decoding all rows.

    ``bad`` are bad files, and directories with bad content, as paths inside the savepoint;
    ``unread`` is what was not decoded, with the reason.
    """

    rows: int
    bad: tuple[BadFile, ...]
    unread: tuple[str, ...]


def deep_check(savepoint: OpenSavepoint, reporter: SavepointReporter) -> DeepCheck:
    """Decode every state row of a savepoint whose files are whole.

    The number of rows is compared with the recorded one, if Spark had counted them, and the
    structure of rows with the schemas in the savepoint. In a canonical savepoint the structure is
    not compared. The file records of one operator at a time are in memory.
    """
    reporter.phase("rows")
    rows = 0
    bad: list[BadFile] = []
    unread: list[str] = []
    for index, query in enumerate(savepoint.queries):
        with _noting(bad, f"{query.directory}/"):
            if savepoint.header.format == FORMAT_CANONICAL:
                rows += _check_canonical(savepoint, query, bad)
                continue
            ids = _state_ids(savepoint, query)
            for operator in query.operators:
                rows += _check_operator(savepoint, index, query, operator, ids, bad, unread)
    return DeepCheck(rows, tuple(bad), tuple(unread))


@contextmanager
def _noting(bad: list[BadFile], where: str) -> Iterator[None]:
    """Record an error of damaged content inside the context as a bad path at or below ``where``.

    All files were found whole before, so no file is missing or truncated by accident.
    """
    try:
        yield
    except StateFormatError as error:
        bad.append(_bad(f"{where}{error.file}", error))
    except (EngineError, Corrupt, UnsupportedFormat, *DAMAGE) as error:
        bad.append(_bad(where.rstrip("/"), error))


def _bad(path: str, error: BaseException) -> BadFile:
    return BadFile(path, f"cannot be decoded: {damage(error)}")


def _check_operator(
    savepoint: OpenSavepoint,
    index: int,
    query: QueryRecord,
    operator: OperatorRecord,
    ids: Mapping[int, tuple[tuple[str, ...], ...]],
    bad: list[BadFile],
    unread: list[str],
) -> int:
    """Decode an operator's rows, compare their number with the record, and return the number."""
    where = f"{query.directory}/{STATE}/{operator.state.ordinal}"
    counts: Counter[str] = Counter()
    rows = 0
    whole = False
    with _noting(bad, f"{where}/"):
        before = len(bad)
        for store in _stores(savepoint, index, query, operator, ids):
            with _noting(bad, f"{where}/{store.directory}"):
                try:
                    row_counts = count_rows(store.files, store.shapes)
                except UnsupportedState as error:
                    unread.append(f"{where}: {error}")
                    return rows
                for family, count in row_counts.families.items():
                    counts[_name(store.name, family)] += count
                rows += row_counts.total
        whole = len(bad) == before
    reason = wrong_count(operator, query, counts) if whole else None
    if reason is not None:
        bad.append(BadFile(where, reason))
    return rows


def _check_canonical(savepoint: OpenSavepoint, query: QueryRecord, bad: list[BadFile]) -> int:
    """Decode the Avro files of a query, compare the numbers of rows, and return their sum."""
    source = saved_directory(savepoint, query)
    recorded = {operator.state.ordinal: operator for operator in query.operators}
    rows = 0
    for operator in read_checkpoint(source, query.batch_id).operators:
        before = len(bad)
        counts: Counter[str] = Counter()
        for partition in range(operator.partitions):
            for store in operator.stores:
                directory = f"{operator.directory}/{partition}/{store.directory}"
                with _noting(bad, f"{query.directory}/{directory}"):
                    files = store_files(source, operator, partition, store)
                    for block in read_rows(files, operator, store):
                        counts[_name(store.name, block.family)] += len(block.keys)
        rows += counts.total()
        whole = len(bad) == before and operator.ordinal in recorded
        reason = wrong_count(recorded[operator.ordinal], query, counts) if whole else None
        if reason is not None:
            bad.append(BadFile(f"{query.directory}/{operator.directory}", reason))
    return rows


def wrong_count(
    operator: OperatorRecord, query: QueryRecord, counts: Mapping[str, int]
) -> str | None:
    """Return what is wrong with the number of rows (by store or column family), or None. Pure.

    Operators with several stores are compared only if they are joins: for others, what Spark counts
    depends on their kind. A RocksDB count of 0 is not compared, because counting may be disabled
    (``stateStore.rocksdb.trackTotalNumberOfRows``).
    """
    recorded = operator.facts.rows
    if recorded is None or (recorded <= 0 and query.backend == "rocksdb"):
        return None
    rows = operator.rows_of_spark(counts)
    if rows is None or rows == recorded:
        return None
    return f"has {rows} rows instead of the {recorded} recorded"


def _name(store: str, family: str) -> str:
    """Return a store's or family's :class:`~flinkish.checkpoint.operators.StoreInfo` name."""
    return store if family == DEFAULT_FAMILY else family


@dataclass(frozen=True)
class _Store:
    """One store of one partition.

    ``directory`` is relative to the operator's and ends with a slash.
    """

    name: str
    directory: str
    files: StoreFiles
    shapes: Mapping[str, FamilyShape]


def _stores(
    savepoint: OpenSavepoint,
    index: int,
    query: QueryRecord,
    operator: OperatorRecord,
    ids: Mapping[int, tuple[tuple[str, ...], ...]],
) -> Iterator[_Store]:
    """Yield every store of every partition of an operator."""
    prefix = f"{STATE}/{operator.state.ordinal}/"
    stores: dict[tuple[int, str], dict[str, FileRecord]] = {}
    schemas: dict[str, list[FileRecord]] = {}
    for record in savepoint.iter_files():
        if record.query != index or not record.path.startswith(prefix):
            continue
        parts = record.path[len(prefix) :].split("/")
        if METADATA_DIRECTORY in parts or parse_number(parts[0]) is None:
            if parts[0] == "0" and parts[-1] == "schema":
                schemas.setdefault(parts[1] if len(parts) > 3 else DEFAULT_STORE, []).append(record)
            elif parts[0] == SCHEMA_DIRECTORY and len(parts) == 3:
                schemas.setdefault(parts[1], []).append(record)
            continue
        named = len(parts) > 2 and parts[1] not in NOT_STORES
        name = parts[1] if named else DEFAULT_STORE
        inside = "/".join(parts[2 if named else 1 :])
        stores.setdefault((int(parts[0]), name), {})[inside] = record
    shapes = {name: _shapes(savepoint, records) for name, records in schemas.items()}
    for (partition, name), records in sorted(stores.items()):
        directory = f"{partition}/" + ("" if name == DEFAULT_STORE else f"{name}/")
        yield _Store(
            name,
            directory,
            _store_files(savepoint, query, records, _ids(ids, operator.state.ordinal, partition)),
            shapes.get(name, {}),
        )


def _store_files(
    savepoint: OpenSavepoint,
    query: QueryRecord,
    records: Mapping[str, FileRecord],
    ids: frozenset[str],
) -> StoreFiles:
    version = query.batch_id + 1
    names = tuple(name for name in records if "/" not in name)

    def place(name: str) -> str:
        if name not in records:
            raise FileNotFoundError(name)
        return savepoint.locate_file(records[name])

    def open_file(name: str) -> BinaryIO:
        return storage.open_file(place(name))

    def local_path(name: str) -> str | None:
        location = place(name)
        return location if storage.is_local(location) else None

    # The commit log has the ids of all stores of a partition; this store's id is in its file names.
    own = [
        file.unique_id
        for file in state_files_among(names)
        if file.version == version and file.unique_id in ids
    ]
    return StoreFiles(
        names=names,
        version=version,
        open=open_file,
        backend=query.backend or "unknown",
        unique_id=own[0] if own else None,
        compression=pinned(query.pins, PIN_CODEC),
        row_checksums=pinned(query.pins, PIN_ROW_CHECKSUM) == "true",
        encoding=pinned(query.pins, PIN_ENCODING),
        local_path=local_path,
    )


def _ids(
    ids: Mapping[int, tuple[tuple[str, ...], ...]], ordinal: int, partition: int
) -> frozenset[str]:
    partitions = ids.get(ordinal, ())
    return frozenset(partitions[partition]) if partition < len(partitions) else frozenset()


def _state_ids(
    savepoint: OpenSavepoint, query: QueryRecord
) -> Mapping[int, tuple[tuple[str, ...], ...]]:
    """Return the unique ids of the saved version's files by operator, in checkpoint format 2."""
    wanted = f"{COMMITS}/{query.batch_id}"
    index = savepoint.queries.index(query)
    for record in savepoint.iter_files():
        if record.query == index and record.path == wanted:
            data = storage.read_bytes(savepoint.locate_file(record))
            return parse_commit(data, wanted).state_ids
    return {}


def _shapes(savepoint: OpenSavepoint, records: list[FileRecord]) -> dict[str, FamilyShape]:
    """Return the shapes of rows by column family, from the newest of a store's schema files.

    Families whose schema the engine cannot read are left out: their rows are counted, but their
    structure is not compared. (The process that took the savepoint has read the schema, so it is
    not damaged.)
    """
    newest = max(records, key=lambda record: schema_batch(record.path))
    shapes: dict[str, FamilyShape] = {}
    try:
        families = parse_schema_file(storage.read_bytes(savepoint.locate_file(newest)), newest.path)
    except CheckpointFormatError:
        return {}
    for family in families:
        try:
            shapes[family.name] = family_shape(family.key, family.value, family.encoder)
        except (EngineError, *DAMAGE):
            continue
    return shapes
