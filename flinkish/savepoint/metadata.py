"""``_metadata``: an Avro object container that says what a savepoint consists of.

Blocks in this order: header and queries, then files (any number of blocks, so that a million
files stream with bounded memory), then one footer alone in the last block. The container's own
header carries ``flinkish.format-version`` and ``flinkish.required-features``, so that an older
flinkish can refuse a newer savepoint before it decodes a record.

The footer seals the file: counts, and the SHA-256 of every byte before the footer's block. A file
cut at any length, or changed in any way that means something, does not open.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, BinaryIO

from flinkish import storage
from flinkish.checkpoint.operators import StoreInfo
from flinkish.errors import Corrupt, FlinkishError, SavepointNotFound, UnsupportedFormat
from flinkish.operators.meaning import StateMeaning
from flinkish.savepoint.model import FileRecord, Header, OperatorRecord, QueryRecord

FILE_NAME = "_metadata"
FORMAT_VERSION = 1
#: Features a savepoint may require and this version has.
FEATURES: frozenset[str] = frozenset({"shared-files", "canonical-state"})
#: Required by a savepoint of which earlier ones hold files.
SHARED_FILES = "shared-files"
#: Required by a savepoint whose state no Spark can load as it is.
CANONICAL_STATE = "canonical-state"

KEY_VERSION = "flinkish.format-version"
KEY_FEATURES = "flinkish.required-features"

#: What :meth:`Metadata.peek` reads at first, bytes.
_PEEK = 256 << 10

_NAMESPACE = "flinkish.savepoint"
_NULL_STRING = ["null", "string"]
_NULL_LONG = ["null", "long"]


def _record(record_name: str, /, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": record_name,
        "fields": [{"name": k, "type": v} for k, v in fields.items()],
    }


_STORE = _record("Store", name="string", key_schema=_NULL_STRING, value_schema=_NULL_STRING)
_OPERATOR = _record(
    "Operator",
    ordinal="int",
    kind=_NULL_STRING,
    partitions="int",
    bytes="long",
    files="long",
    stores={"type": "array", "items": _STORE},
    uid=_NULL_STRING,
    operator_id=_NULL_STRING,
    operator_id_v2=_NULL_STRING,
    operator_id_v3=_NULL_STRING,
    rows=_NULL_LONG,
    meaning=_NULL_STRING,  # JSON; younger than version 1: may be absent, as the next
    state_digest=_NULL_STRING,
)
_QUERY = _record(
    "Query",
    name="string",
    directory="string",
    query_id="string",
    run_id=_NULL_STRING,
    batch_id="long",
    planned_batch=_NULL_LONG,
    watermark_ms=_NULL_LONG,
    offsets={"type": "array", "items": "string"},
    pins={"type": "map", "values": "string"},
    source="string",  # JSON
    sink="string",  # JSON
    backend=_NULL_STRING,
    checkpoint_format="int",
    checkpoint=_NULL_STRING,
    operators={"type": "array", "items": _OPERATOR},
    files="long",
    bytes="long",
)
_HEADER = _record(
    "Header",
    job_id="string",
    job_name="string",
    created="double",
    trigger="string",
    format="string",
    spark_version=_NULL_STRING,
    python_version=_NULL_STRING,
    flinkish_version=_NULL_STRING,
    host=_NULL_STRING,
    program=_NULL_STRING,  # younger than version 1, as the next
    restored_from=_NULL_STRING,
)
_FILE = _record(
    "File",
    query="int",
    path="string",
    size="long",
    digest="string",
    held=_NULL_STRING,  # younger than version 1, as the next
    stamp=_NULL_STRING,
)
_FOOTER = _record("Footer", queries="long", files="long", bytes="long", sha256="string")

#: The Avro schema of the container: a union of the records above.
SCHEMA: list[dict[str, Any]] = [
    {**record, "namespace": _NAMESPACE} for record in (_HEADER, _QUERY, _FILE, _FOOTER)
]


class _HashingFile:
    """A file that hashes what goes through it and never reads beyond its end.

    fastavro trusts lengths it finds: a damaged one must not make it ask for terabytes.
    """

    def __init__(self, file: IO[bytes], size: int = 0) -> None:
        self._file = file
        self._size = size
        self.position = 0
        self.hash = hashlib.sha256()

    def read(self, count: int = -1) -> bytes:
        left = self._size - self.position
        if count < 0 or count > left:
            if left == 0:
                return b""
            raise EOFError("the file ends too early")
        data = self._file.read(count)
        self.position += len(data)
        self.hash.update(data)
        return data

    def write(self, data: bytes) -> int:
        self.position += len(data)
        self.hash.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        self._file.flush()

    def seekable(self) -> bool:
        return False  # fastavro would seek to see whether it appends


class MetadataWriter:
    """Writes ``_metadata`` of a savepoint under a temporary name; :meth:`commit` makes it appear.

    Header and queries first, then files in any number, then commit. A context manager: left
    without a commit it removes the temporary file.
    """

    def __init__(
        self,
        directory: str,
        header: Header,
        queries: Sequence[QueryRecord],
        *,
        features: Sequence[str] = (),
    ) -> None:
        from fastavro.write import Writer  # costs 50 ms: only those who write pay

        self._final = storage.join(directory, FILE_NAME)
        self._temporary = _temporary_name(self._final)
        self._queries = len(queries)
        self._files = 0
        self._bytes = 0
        try:
            self._raw: BinaryIO = open(self._temporary, "wb")  # noqa: SIM115 - closed in commit
            self._file = _HashingFile(self._raw)
            self._writer = Writer(
                self._file,  # type: ignore[arg-type]  # only read, write and tell are used
                SCHEMA,
                codec="deflate",
                sync_interval=1 << 18,
                metadata={
                    KEY_VERSION: str(FORMAT_VERSION),
                    KEY_FEATURES: json.dumps(sorted(features)),
                },
            )
            self._write("Header", _header_to_avro(header))
            for query in queries:
                self._write("Query", _query_to_avro(query))
            self._writer.flush()
        except OSError as error:
            self._discard()
            raise storage.storage_error("write", self._final, error) from error

    def _discard(self) -> None:
        """Remove the temporary file, where it still is one."""
        raw: BinaryIO | None = getattr(self, "_raw", None)
        if raw is not None and not raw.closed:
            with suppress(OSError):  # a full disk may refuse the last flush; it goes anyway
                raw.close()
        storage.remove_file(*storage.split(self._temporary))

    def add(self, file: FileRecord) -> None:
        """Add one file record."""
        self._files += 1
        self._bytes += file.size
        record = {
            "query": file.query,
            "path": file.path,
            "size": file.size,
            "digest": file.digest,
            "held": file.held,
            "stamp": file.stamp,
        }
        try:
            self._write("File", record)
        except OSError as error:
            raise storage.storage_error("write", self._final, error) from error

    def _write(self, kind: str, record: dict[str, Any]) -> None:
        # The pair names the union's branch; fastavro's annotation of write knows no such pairs.
        self._writer.write((f"{_NAMESPACE}.{kind}", record))  # type: ignore[arg-type]

    def commit(self) -> int:
        """Seal the file and bring it into place, complete or not at all; returns its size."""
        try:
            self._writer.flush()
            footer = {
                "queries": self._queries,
                "files": self._files,
                "bytes": self._bytes,
                "sha256": self._file.hash.hexdigest(),
            }
            self._write("Footer", footer)
            self._writer.flush()
            self._raw.flush()
            os.fsync(self._raw.fileno())
            self._raw.close()
        except OSError as error:
            raise storage.storage_error("write", self._final, error) from error
        storage.publish_file(self._temporary, self._final)
        return self._file.position

    def __enter__(self) -> MetadataWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._discard()


def _temporary_name(final: str) -> str:
    """Where to write the file first: beside its place, or on this host before it is sent there."""
    if storage.is_local(final):
        return storage.temporary_name(final)
    descriptor, path = tempfile.mkstemp(prefix="flinkish-metadata-")
    os.close(descriptor)
    return path


class Metadata:
    """An opened and checked ``_metadata``: header, queries and totals; files on demand."""

    def __init__(self, path: str) -> None:
        """Read and check the whole file (files records are hashed, not decoded).

        Raises SavepointNotFound, Corrupt, or UnsupportedFormat (newer version or feature).
        """
        self.path = path
        self.header: Header
        self.queries: tuple[QueryRecord, ...] = ()
        self.files = 0
        self.bytes = 0
        self.features: frozenset[str] = frozenset()
        self._open()

    def _open(self) -> None:
        queries: list[QueryRecord] = []
        headers: list[Header] = []
        footer: Mapping[str, Any] | None = None
        records = 0
        with self._blocks() as blocks:
            before = blocks.file.hash.hexdigest()
            for block in blocks:
                if footer is not None:
                    raise self.corrupt("something follows its footer")
                first, first_record = next(_decode(block))
                if first == "Footer" and block.num_records == 1:
                    footer = first_record
                    if footer["sha256"] != before:
                        raise self.corrupt("its checksum does not hold")
                elif first in {"Header", "Query"}:
                    for kind, record in _decode(block):
                        if kind == "Header":
                            headers.append(_header_from_avro(record))
                        else:
                            queries.append(_query_from_avro(record))
                else:
                    records += block.num_records
                before = blocks.file.hash.hexdigest()
            if footer is None:
                raise self.corrupt("it ends before its footer")
            if blocks.file.position != blocks.size:
                raise self.corrupt("something follows its footer")
        totals = (len(queries), records, sum(query.bytes for query in queries))
        if len(headers) != 1 or totals != (footer["queries"], footer["files"], footer["bytes"]):
            raise self.corrupt("its counts do not hold")
        self.header, self.queries = headers[0], tuple(queries)
        self.files, self.bytes = footer["files"], footer["bytes"]
        for query in self.queries:
            self._check_path(query.directory)

    @staticmethod
    def peek(path: str) -> tuple[Header, tuple[QueryRecord, ...]]:
        """Header and queries of the ``_metadata`` at ``path``, from its beginning alone.

        Cheap for a savepoint of many files, whose records are neither read nor checked: for lists,
        not for restores. Raises what opening it does.
        """
        metadata = Metadata.__new__(Metadata)
        metadata.path = path
        metadata.queries = ()
        headers: list[Header] = []
        queries: list[QueryRecord] = []
        with _Blocks(metadata, limit=_PEEK) as blocks:
            try:
                for block in blocks:
                    for kind, record in _decode(block):
                        if kind == "Header":
                            headers.append(_header_from_avro(record))
                        elif kind == "Query":
                            queries.append(_query_from_avro(record))
                        else:
                            return _peeked(metadata, headers, queries)
            except Exception:
                if blocks.whole:
                    raise
        # A beginning longer than usual (or damage, which this will name).
        whole = Metadata(path)
        return whole.header, whole.queries

    def iter_files(self) -> Iterator[FileRecord]:
        """Every file record, in the order written; Corrupt for a path that escapes."""
        with self._blocks() as blocks:
            for block in blocks:
                for kind, record in _decode(block):
                    if kind != "File":
                        continue
                    if not 0 <= record["query"] < len(self.queries):
                        raise self.corrupt(f"it names query number {record['query']}")
                    self._check_path(record["path"])
                    if record.get("held") is not None:
                        self._check_path(record["held"])
                    yield FileRecord(
                        record["query"],
                        record["path"],
                        record["size"],
                        record["digest"],
                        record.get("held"),
                        record.get("stamp"),
                    )

    def holders(self) -> tuple[str, ...]:
        """Names of the savepoints that hold files of this one; records are read only if some do."""
        if SHARED_FILES not in self.features:
            return ()
        held = (record.held for record in self.iter_files() if record.held is not None)
        return tuple(sorted({path.partition("/")[0] for path in held}))

    def _check_path(self, path: str) -> None:
        parts = path.split("/")
        if not path or "\0" in path or any(part in {"", ".", ".."} for part in parts):
            raise self.corrupt(f"it names a path outside the savepoint: {path!r}")

    def corrupt(self, reason: str) -> Corrupt:
        """The error for a damaged file, in this file's name."""
        return Corrupt(
            f"{self.path} is damaged: {reason}",
            hint="use another savepoint",
            path=self.path,
        )

    def _blocks(self) -> _Blocks:
        return _Blocks(self)


def _peeked(
    metadata: Metadata, headers: list[Header], queries: list[QueryRecord]
) -> tuple[Header, tuple[QueryRecord, ...]]:
    if len(headers) != 1:
        raise metadata.corrupt("its counts do not hold")
    return headers[0], tuple(queries)


class _Blocks:
    """The container's blocks, with every decoding trouble turned into Corrupt.

    ``limit``: read so many bytes only; ``whole`` tells whether these were all.
    """

    def __init__(self, owner: Metadata, limit: int | None = None) -> None:
        self._owner = owner
        try:
            self._raw = (
                storage.open_file(owner.path)
                if limit is None
                else io.BytesIO(storage.read_head(owner.path, limit))
            )
        except FileNotFoundError as error:
            raise SavepointNotFound(
                f"no savepoint at {storage.parent(owner.path)}: it has no {FILE_NAME} file",
                path=storage.parent(owner.path),
            ) from error
        self.size = self._raw.seek(0, os.SEEK_END)
        self._raw.seek(0)
        self.whole = limit is None or self.size < limit
        self.file = _HashingFile(self._raw, self.size)

    def __enter__(self) -> _Blocks:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._raw.close()
        if isinstance(error, OSError):
            raise storage.storage_error("read", self._owner.path, error) from error
        if isinstance(error, Exception) and not isinstance(error, FlinkishError):
            # fastavro raises whatever the damaged bytes make it stumble over.
            reason = str(error) or type(error).__name__
            raise self._owner.corrupt(reason) from error

    def __iter__(self) -> Iterator[Any]:
        from fastavro import block_reader  # costs 50 ms: only those who read pay

        reader = block_reader(self.file, return_record_name=True)  # type: ignore[arg-type]
        self._owner.features = _check_version(self._owner.path, reader.metadata)
        yield from reader


def _check_version(path: str, metadata: Mapping[str, Any]) -> frozenset[str]:
    """The features the file requires; UnsupportedFormat where they or its version are unknown."""
    text = metadata.get(KEY_VERSION)
    if text is None or not str(text).isdigit():
        raise ValueError("it is no savepoint metadata (no format version)")
    if int(text) > FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{path} has format version {text}; this flinkish reads up to {FORMAT_VERSION}",
            hint="use the flinkish that wrote it, or a newer one",
        )
    features = frozenset(str(f) for f in json.loads(metadata.get(KEY_FEATURES, "[]")))
    unknown = sorted(features - FEATURES)
    if unknown:
        raise UnsupportedFormat(
            f"{path} needs a feature this flinkish does not have: {', '.join(unknown)}",
            hint="use the flinkish that wrote it, or a newer one",
        )
    return features


def _decode(block: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The block's records as (record name without namespace, fields)."""
    block.bytes_.seek(0)  # a block may be looked at before it is read
    for name, record in block:
        yield name.rpartition(".")[2], record


def _header_to_avro(header: Header) -> dict[str, Any]:
    return {f["name"]: getattr(header, f["name"]) for f in _HEADER["fields"]}


def _header_from_avro(record: Mapping[str, Any]) -> Header:
    return Header(**{k: v for k, v in record.items() if k in Header.__dataclass_fields__})


def _query_to_avro(query: QueryRecord) -> dict[str, Any]:
    data = {f["name"]: getattr(query, f["name"]) for f in _QUERY["fields"]}
    data["offsets"] = list(query.offsets)
    data["pins"] = dict(query.pins)
    data["source"] = json.dumps(query.source)
    data["sink"] = json.dumps(query.sink)
    data["operators"] = [_operator_to_avro(operator) for operator in query.operators]
    return data


def _operator_to_avro(operator: OperatorRecord) -> dict[str, Any]:
    data = {f["name"]: getattr(operator, f["name"]) for f in _OPERATOR["fields"]}
    data["stores"] = [
        {
            "name": store.name,
            "key_schema": None if store.key_schema is None else json.dumps(store.key_schema),
            "value_schema": None if store.value_schema is None else json.dumps(store.value_schema),
        }
        for store in operator.stores
    ]
    data["meaning"] = operator.meaning and json.dumps(operator.meaning.to_json())
    return data


def _query_from_avro(record: Mapping[str, Any]) -> QueryRecord:
    data = {k: v for k, v in record.items() if k in QueryRecord.__dataclass_fields__}
    data["offsets"] = tuple(data["offsets"])
    data["source"] = json.loads(data["source"])
    data["sink"] = json.loads(data["sink"])
    data["operators"] = tuple(_operator_from_avro(operator) for operator in data["operators"])
    return QueryRecord(**data)


def _operator_from_avro(record: Mapping[str, Any]) -> OperatorRecord:
    data = {k: v for k, v in record.items() if k in OperatorRecord.__dataclass_fields__}
    data["stores"] = tuple(
        StoreInfo(
            store["name"],
            None if store["key_schema"] is None else json.loads(store["key_schema"]),
            None if store["value_schema"] is None else json.loads(store["value_schema"]),
        )
        for store in data["stores"]
    )
    meaning = data.get("meaning")
    data["meaning"] = meaning and StateMeaning.from_json(json.loads(meaning))
    return OperatorRecord(**data)
