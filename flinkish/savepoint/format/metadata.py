"""``_metadata``: an Avro object container file that lists the content of a savepoint.

Blocks are in this order: header and queries, then files (any number of blocks, so that a million
files stream with bounded memory), then one footer alone in the last block. The container's own
header has ``flinkish.format-version`` and ``flinkish.required-features``, so an older flinkish can
refuse a newer savepoint before it decodes a record.

The footer seals the file: it has counts, and the SHA-256 of every byte before the footer's block. A
file that is truncated at any length, or changed in any significant way, is refused.

Anyone who can write into the directory can write such a file, so nothing in it is trusted. Its
schema must be that of its format version (:mod:`~flinkish.savepoint.format.records`), its codec
null or deflate, and it must be a regular file. Limits (:mod:`~flinkish.savepoint.format.limits`): 4
GiB in total, 64 KiB for the container's header, 32 MiB for a block and 128 MiB for all blocks with
the header and queries (after decompression), 16 MiB for a string, 500,000 operators, stores,
offsets and settings together, 100,000 queries; all blocks together at most 256 MiB plus 100 times
the file. Values are checked when they are converted into the model
(:mod:`~flinkish.savepoint.format.records`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import IO, Any, BinaryIO

from flinkish import storage
from flinkish.avro.container import DECOMPRESS, Block, ContainerReader, UnsupportedAvro
from flinkish.avro.decoding import Cursor, DamagedAvro, Decode, compile_schema, then, union
from flinkish.errors import Corrupt, NotSavepointable, SavepointNotFound, UnsupportedFormat
from flinkish.savepoint.format import limits
from flinkish.savepoint.format.contents import FileRecord, Header, QueryRecord
from flinkish.savepoint.format.records import (
    FORMAT_VERSION,
    KINDS,
    NAMESPACE,
    SCHEMA,
    Damaged,
    file_from_avro,
    fingerprint,
    header_from_avro,
    header_to_avro,
    query_from_avro,
    query_to_avro,
)

FILE_NAME = "_metadata"
#: Features that a savepoint may require and this version supports.
FEATURES: frozenset[str] = frozenset({"shared-files", "canonical-state"})
#: Required by a savepoint with files that are held by earlier savepoints.
SHARED_FILES = "shared-files"
#: Required by a savepoint whose state Spark cannot load without conversion.
CANONICAL_STATE = "canonical-state"

KEY_VERSION = "flinkish.format-version"
KEY_FEATURES = "flinkish.required-features"

#: Bytes that :meth:`Metadata.peek` reads first.
_PEEK = 256 << 10


class _HashingFile:
    """A file that hashes all bytes written to it, or read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.position = 0
        self.hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.position += len(data)
        self.hash.update(data)
        return self._file.write(data)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.position += len(data)
        self.hash.update(data)
        return data

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        self._file.flush()

    def seekable(self) -> bool:
        return False  # otherwise fastavro seeks to find out whether it appends


class MetadataWriter:
    """Writes ``_metadata`` of a savepoint under a temporary name; :meth:`commit` puts it in place.

    The constructor writes header and queries; add any number of files, then commit. Text that is
    not Unicode raises NotSavepointable. As a context manager, the writer removes the temporary file
    if there was no commit.
    """

    def __init__(
        self,
        directory: str,
        header: Header,
        queries: Sequence[QueryRecord],
        *,
        features: Sequence[str] = (),
    ) -> None:
        from fastavro.write import Writer  # the import takes 50 ms: only writers need it

        self._final = storage.join(directory, FILE_NAME)
        self._temporary = _temporary_name(self._final)
        self._queries = len(queries)
        self._files = 0
        self._bytes = 0
        try:
            self._raw: BinaryIO = open(self._temporary, "wb")  # noqa: SIM115 - closed in commit
            self._file = _HashingFile(self._raw)
            self._writer = Writer(
                self._file,  # type: ignore[arg-type]  # only write, flush and seekable are used
                SCHEMA,
                codec="deflate",
                sync_interval=1 << 18,
                metadata={
                    KEY_VERSION: str(FORMAT_VERSION),
                    KEY_FEATURES: json.dumps(sorted(features)),
                },
            )
            self._write("Header", header_to_avro(header))
            for query in queries:
                self._write("Query", query_to_avro(query))
            self._writer.flush()
        except OSError as error:
            self._discard()
            raise storage.storage_error("write", self._final, error) from error
        except NotSavepointable:
            self._discard()
            raise

    def _discard(self) -> None:
        """Close and remove the temporary file, if it still exists."""
        raw: BinaryIO | None = getattr(self, "_raw", None)
        if raw is not None and not raw.closed:
            with suppress(OSError):  # a full disk may refuse the last flush; remove it anyway
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
        # The pair selects the union's branch; fastavro's annotation of write lacks such pairs.
        try:
            self._writer.write((f"{NAMESPACE}.{kind}", record))  # type: ignore[arg-type]
        except UnicodeEncodeError as error:
            raise NotSavepointable(
                f"a savepoint cannot contain {error.object!a}, which is not valid Unicode",
                hint="it comes from bytes that are not UTF-8: rename the file, query or job",
            ) from error

    def commit(self) -> int:
        """Seal the file and put it in place, complete or not at all; return its size in bytes."""
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
    """Return where to write first: next to a local target, else in a new temporary file."""
    if storage.is_local(final):
        return storage.temporary_name(final)
    descriptor, path = tempfile.mkstemp(prefix="flinkish-metadata-")
    os.close(descriptor)
    return path


class Metadata:
    """An opened and checked ``_metadata``: header, queries and totals; files on demand."""

    def __init__(self, path: str) -> None:
        """Read and check the whole file (file records are hashed, not decoded).

        Raises SavepointNotFound, Corrupt, StorageError, and UnsupportedFormat if the file has a
        newer format version or requires an unknown feature.
        """
        self.path = path
        self.header: Header
        self.queries: tuple[QueryRecord, ...] = ()
        self.files = 0
        self.bytes = 0
        self.features: frozenset[str] = frozenset()
        #: SHA-256 (hex) of all bytes before the footer; only a copy of this file has the same seal.
        self.seal = ""
        self._open()

    def _open(self) -> None:
        queries: list[QueryRecord] = []
        headers: list[Header] = []
        footer: Mapping[str, Any] | None = None
        records = 0
        with _Blocks(self) as blocks:
            before = ""
            for block in blocks:
                if footer is not None:
                    raise self.corrupt("something follows its footer")
                kind = blocks.kind_of(block)
                if kind == "Footer":
                    [(_, footer)] = blocks.decode(block)
                    if footer["sha256"] != before:
                        raise self.corrupt("its checksum does not match")
                elif kind == "File":
                    records += block.count
                else:
                    _collect(blocks.decode(block), headers, queries)
                before = blocks.digest
            if footer is None:
                raise self.corrupt("it ends before its footer")
        totals = (len(queries), records, sum(query.bytes for query in queries))
        if len(headers) != 1 or totals != (footer["queries"], footer["files"], footer["bytes"]):
            raise self.corrupt("its numbers of queries, files and bytes do not match its content")
        self.header, self.queries = headers[0], tuple(queries)
        self.files, self.bytes = footer["files"], footer["bytes"]
        self.seal = footer["sha256"]
        for query in self.queries:
            self._check_path(query.directory)

    @staticmethod
    def peek(path: str) -> tuple[Header, tuple[QueryRecord, ...]]:
        """Read header and queries of the ``_metadata`` at ``path`` from the start of the file.

        Unless these and the first block of files exceed 256 KiB, the rest of the file is neither
        read nor checked, so a large number of files costs nothing. Use it for lists, not for
        restores. Raises the errors of opening.
        """
        metadata = Metadata.__new__(Metadata)
        metadata.path = path
        metadata.queries = ()
        headers: list[Header] = []
        queries: list[QueryRecord] = []
        with _Blocks(metadata, limit=_PEEK) as blocks:
            try:
                for block in blocks:
                    if blocks.kind_of(block) not in {"Header", "Query"}:
                        return _peeked(metadata, headers, queries)
                    _collect(blocks.decode(block), headers, queries)
            except (Damaged, DamagedAvro):
                if blocks.whole:
                    raise
        # Header and queries are longer than usual, or the file is damaged and cannot be opened.
        whole = Metadata(path)
        return whole.header, whole.queries

    def iter_files(self) -> Iterator[FileRecord]:
        """Yield file records as written; raise Corrupt and the errors of opening the file again."""
        with _Blocks(self) as blocks:
            for block in blocks:
                if blocks.kind_of(block) != "File":
                    continue
                for _, record in blocks.decode(block):
                    file = file_from_avro(record)
                    if not 0 <= file.query < len(self.queries):
                        raise self.corrupt(f"a file belongs to an absent query, {file.query}")
                    self._check_path(file.path)
                    if file.held is not None:
                        self._check_path(file.held)
                    yield file

    def holders(self) -> tuple[str, ...]:
        """Return the sorted names of the savepoints that hold files of this one.

        File records are read only if the file requires :data:`SHARED_FILES`.
        """
        if SHARED_FILES not in self.features:
            return ()
        held = (record.held for record in self.iter_files() if record.held is not None)
        return tuple(sorted({path.partition("/")[0] for path in held}))

    def _check_path(self, path: str) -> None:
        parts = path.split("/")
        if not path or "\0" in path or any(part in {"", ".", ".."} for part in parts):
            raise self.corrupt(f"it names an invalid path, or one outside the savepoint: {path!r}")

    def corrupt(self, reason: str) -> Corrupt:
        """Return the error for damage of this file."""
        return Corrupt(
            f"{self.path} is damaged: {reason}",
            hint="use another savepoint",
            path=self.path,
        )


def _peeked(
    metadata: Metadata, headers: list[Header], queries: list[QueryRecord]
) -> tuple[Header, tuple[QueryRecord, ...]]:
    if len(headers) != 1:
        raise metadata.corrupt(f"it has {len(headers)} headers instead of one")
    return headers[0], tuple(queries)


def _collect(
    records: Iterator[tuple[str, Any]], headers: list[Header], queries: list[QueryRecord]
) -> None:
    for kind, record in records:
        if kind == "Header":
            headers.append(header_from_avro(record))
        elif kind == "Query":
            queries.append(query_from_avro(record))
        else:
            raise Damaged(f"a {kind} is among its queries")
    if len(queries) > limits.MAX_QUERIES:
        raise Damaged(f"it has more than {limits.MAX_QUERIES} queries")


class _Blocks:
    """The blocks of the container; every decoding error becomes Corrupt.

    At most ``limit`` bytes are read; ``whole`` is set if the file has certainly no more than these.
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
        self._size = self._raw.seek(0, os.SEEK_END)
        self._raw.seek(0)
        self.whole = limit is None or self._size < limit
        self._query_bytes = 0
        self._unpacked = 0
        self._items = 0

    def __enter__(self) -> _Blocks:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._raw.close()
        if isinstance(error, OSError):
            raise storage.storage_error("read", self._owner.path, error) from error
        if isinstance(error, MemoryError):
            raise self._owner.corrupt("reading it needs more memory than there is") from error
        if isinstance(error, DamagedAvro):
            raise self._owner.corrupt(error.reason) from error
        if isinstance(error, (ValueError, RecursionError, UnsupportedAvro)):
            raise self._owner.corrupt(str(error) or type(error).__name__) from error

    def __iter__(self) -> Iterator[Block]:
        if self._size > limits.MAX_FILE:
            raise Damaged(f"it has {self._size} bytes, and may have at most {limits.MAX_FILE}")
        self._file = _HashingFile(self._raw)
        container = ContainerReader(
            self._file,  # type: ignore[arg-type]  # only read is used
            max_header=limits.MAX_HEADER,
            max_block=limits.MAX_BLOCK,
        )
        header, sync = container.header()
        codec = header.get("avro.codec", b"null").decode("utf-8", "replace")
        self._owner.features = _check_version(self._owner.path, header)
        if codec not in {"null", "deflate"}:
            raise Damaged(f"its compression {codec[:20]!r} is not supported")
        _check_schema(header.get("avro.schema", b""))
        for block in container.blocks(sync, lambda data: DECOMPRESS[codec](data, limits.MAX_BLOCK)):
            if not 0 < block.count <= len(block.data):  # a record has at least one byte
                raise Damaged(f"{block.count} records in a block of {len(block.data)} bytes")
            self._unpacked += len(block.data)
            if self._unpacked > limits.SPARE + limits.MAX_RATIO * container.offset:
                raise Damaged("its compression ratio is higher than any savepoint's")
            if self.kind_of(block) in {"Header", "Query"}:
                self._query_bytes += len(block.data)
                if self._query_bytes > limits.MAX_QUERY_BYTES:
                    raise Damaged("its queries are larger than any job's")
            yield block

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all bytes read so far."""
        return self._file.hash.hexdigest()

    def kind_of(self, block: Block) -> str:
        """Return the kind of a block's first record."""
        branch = block.data[0] >> 1
        if block.data[0] & 1 or branch >= len(KINDS):
            raise Damaged("a record has an unknown kind")
        return str(KINDS[branch])

    def decode(self, block: Block) -> Iterator[tuple[str, Any]]:
        """Yield kind and fields of each record of a block.

        File records and the footer must be in blocks of their own.
        """
        of_one = self.kind_of(block)
        left = limits.MAX_ITEMS - self._items
        cursor = Cursor(block.data, max_items=left, max_text=limits.MAX_TEXT)
        for _ in range(block.count):
            kind, record = _DECODE(cursor)
            if of_one in {"File", "Footer"} and kind != of_one:
                raise Damaged(f"a block of {of_one} records contains a {kind} record")
            yield kind, record
        self._items += cursor.items
        if cursor.at != len(block.data):
            raise Damaged("something follows the records of a block")


def _named(record: Mapping[str, Any]) -> Decode:
    """Return a decoder that reads a record as a pair of its name and its fields."""
    name = record["name"]
    return then(compile_schema(record), lambda fields: (name, fields))


#: Reads a record of any kind as its name and its fields.
_DECODE = union([_named(record) for record in SCHEMA])


def _check_schema(text: bytes) -> None:
    """Raise Damaged if a file's schema is not that of the format."""
    try:
        is_ours = _is_ours(text)
    except (ValueError, RecursionError):
        raise Damaged("it has no schema") from None
    if not is_ours:
        raise Damaged("its schema is not a savepoint's")


# The savepoints of a directory have one schema in one or two spellings; each is parsed once.
@lru_cache(maxsize=4)
def _is_ours(text: bytes) -> bool:
    return fingerprint(json.loads(text)) == fingerprint(SCHEMA)


def _check_version(path: str, header: Mapping[str, bytes]) -> frozenset[str]:
    """Return the required features; raise Damaged, or UnsupportedFormat for a newer file."""
    text = header.get(KEY_VERSION, b"").decode("utf-8", "replace")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Damaged("it is not savepoint metadata (no format version)")
    if int(text) > FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{path} has format version {text}; this flinkish reads up to {FORMAT_VERSION}",
            hint="use the flinkish that wrote it, or a newer one",
        )
    try:
        listed = json.loads(header.get(KEY_FEATURES, b"[]"))
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list):
        raise Damaged("its required features are invalid")
    features = frozenset(str(f) for f in listed)
    unknown = sorted(features - FEATURES)
    if unknown:
        raise UnsupportedFormat(
            f"{path} needs a feature this flinkish does not have: {', '.join(unknown)[:200]}",
            hint="use the flinkish that wrote it, or a newer one",
        )
    return features
