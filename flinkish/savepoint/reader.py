"""Opening, checking and describing a savepoint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from flinkish.errors import Corrupt, SavepointNotFound, UnsupportedFormat, UsageError
from flinkish.savepoint import digest, storage
from flinkish.savepoint.metadata import FILE_NAME, FORMAT_VERSION, Metadata
from flinkish.savepoint.model import FileRecord, Header, OperatorRecord, QueryRecord

#: Levels of :func:`check_files`.
QUICK, FULL = "quick", "full"


@dataclass(frozen=True)
class Savepoint:
    """An opened savepoint: ``path`` is its absolute directory, sizes are in bytes."""

    path: str
    header: Header
    queries: tuple[QueryRecord, ...]
    #: Totals of the data files (``_metadata`` itself not counted).
    files: int
    bytes: int
    _metadata: Metadata = field(repr=False, compare=False)

    def iter_files(self) -> Iterator[FileRecord]:
        """Every file record, streamed; Corrupt where the metadata is damaged."""
        return self._metadata.iter_files()

    def query_root(self, query: QueryRecord) -> str:
        """Absolute directory of a query, laid out like a Spark checkpoint."""
        return os.path.join(self.path, query.directory)

    def query_files(self, index: int) -> list[str]:
        """Relative paths of query number ``index``, for materialising it."""
        return [record.path for record in self.iter_files() if record.query == index]


def savepoint_directory(path: str) -> str:
    """The absolute directory meant by ``path``: a savepoint's directory or its ``_metadata``."""
    local = storage.local_path(path)
    if os.path.basename(local) == FILE_NAME and not os.path.isdir(local):
        return os.path.dirname(local)
    return local


def open_savepoint(path: str) -> Savepoint:
    """Open the savepoint at ``path`` (directory or ``_metadata`` file, plain or ``file:``).

    The whole of ``_metadata`` is checked; data files are not (see :func:`check_files`).
    Raises SavepointNotFound, Corrupt, UnsupportedFormat, StorageError.
    """
    directory = savepoint_directory(path)
    if not os.path.isdir(directory):
        raise SavepointNotFound(f"no savepoint at {path}: there is no such directory", path=path)
    metadata = Metadata(os.path.join(directory, FILE_NAME))
    return Savepoint(
        path=directory,
        header=metadata.header,
        queries=metadata.queries,
        files=metadata.files,
        bytes=metadata.bytes,
        _metadata=metadata,
    )


def check_files(savepoint: Savepoint, level: str = QUICK) -> None:
    """Check a savepoint's data files; Corrupt names the first bad one and how many there are.

    ``quick``: every file is there and has its size. ``full``: and its digest holds.
    """
    if level not in {QUICK, FULL}:
        raise UsageError(f"unknown level {level!r}", hint="use quick or full")
    roots = [savepoint.query_root(query) for query in savepoint.queries]
    sizes: dict[str, dict[str, int]] = {}
    first: str | None = None
    bad = 0
    for record in savepoint.iter_files():
        reason = _check_file(os.path.join(roots[record.query], record.path), record, level, sizes)
        if reason is not None:
            bad += 1
            relative = f"{savepoint.queries[record.query].directory}/{record.path}"
            first = first or f"{relative} {reason}"
    if first is not None:
        others = "" if bad == 1 else f", and {bad - 1} more of {savepoint.files} files are bad"
        raise Corrupt(
            f"the savepoint {savepoint.path} is damaged: {first}{others}",
            hint="use another savepoint, or copy the missing files back",
            path=savepoint.path,
            bad_files=bad,
        )


def _check_file(
    path: str, record: FileRecord, level: str, sizes: dict[str, dict[str, int]]
) -> str | None:
    directory, name = os.path.split(path)
    if directory not in sizes:
        sizes[directory] = _sizes(directory)
    size = sizes[directory].get(name)
    if size is None:
        return "is missing"
    if size != record.size:
        return f"has {size} bytes instead of {record.size}"
    if level == FULL:
        try:
            if not digest.matches(path, record.digest):
                return "does not have its recorded digest"
        except FileNotFoundError:
            return "is missing"
        except digest.UnknownDigest as error:
            raise UnsupportedFormat(f"{path} has a digest of unknown form: {error}") from error
    return None


def _sizes(directory: str) -> dict[str, int]:
    listing = storage.list_directory(directory)
    sizes: dict[str, int] = {}
    for name in listing.files:
        try:
            sizes[name] = listing.size(name)
        except FileNotFoundError:
            continue  # gone since listed (or a dangling link): missing
    return sizes


def describe(savepoint: Savepoint) -> dict[str, Any]:
    """The savepoint as JSON data, in the form ``flinkish savepoint show --json`` prints."""
    header = savepoint.header
    return {
        "savepoint": {
            "path": savepoint.path,
            "job_id": header.job_id,
            "job_name": header.job_name,
            "created": iso_time(header.created),
            "trigger": header.trigger,
            "spark_version": header.spark_version,
            "python_version": header.python_version,
            "flinkish_version": header.flinkish_version,
            "host": header.host,
            "format": header.format,
            "format_version": FORMAT_VERSION,
            "queries": [_describe_query(query) for query in savepoint.queries],
            "files": savepoint.files,
            "bytes": savepoint.bytes,
        }
    }


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as UTC ISO-8601 with milliseconds."""
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _describe_query(query: QueryRecord) -> dict[str, Any]:
    watermark = None if query.watermark_ms is None else iso_time(query.watermark_ms / 1000)
    return {
        "name": query.name,
        "directory": query.directory,
        "query_id": query.query_id,
        "run_id": query.run_id,
        "batch_id": query.batch_id,
        "planned_batch": query.planned_batch,
        "watermark": watermark,
        "offsets": [_offset(text) for text in query.offsets],
        "pins": dict(query.pins),
        "source": query.source,
        "sink": query.sink,
        "backend": query.backend,
        "checkpoint_format": query.checkpoint_format,
        "files": query.files,
        "bytes": query.bytes,
        "operators": [_describe_operator(operator) for operator in query.operators],
    }


def _offset(text: str) -> Any:
    """A source's offset is JSON of the source's own form; ``-`` (none yet) is null."""
    if text == "-":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _describe_operator(operator: OperatorRecord) -> dict[str, Any]:
    return {
        "uid": operator.uid,
        "operator_id": operator.operator_id,
        "operator_id_v2": operator.operator_id_v2,
        "operator_id_v3": operator.operator_id_v3,
        "kind": operator.kind,
        "ordinal": operator.ordinal,
        "partitions": operator.partitions,
        "rows": operator.rows,
        "bytes": operator.bytes,
        "files": operator.files,
        "stores": [
            {
                "name": store.name,
                "key_schema": store.key_schema,
                "value_schema": store.value_schema,
            }
            for store in operator.stores
        ],
    }
