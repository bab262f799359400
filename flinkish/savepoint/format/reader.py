"""Opening, checking and describing a savepoint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from flinkish import storage
from flinkish.checkpoint.format import operator_files
from flinkish.checkpoint.format.logs import MAX_WATERMARK_MS
from flinkish.checkpoint.format.names import STATE, is_state_data
from flinkish.errors import Corrupt, SavepointNotFound, UnsupportedFormat, UsageError, quoted_path
from flinkish.messages.restore_options import VERIFY_LEVELS
from flinkish.savepoint.format import digests
from flinkish.savepoint.format.contents import FileRecord, Header, OperatorRecord, QueryRecord
from flinkish.savepoint.format.digests import FileTable
from flinkish.savepoint.format.metadata import FILE_NAME, Metadata
from flinkish.savepoint.format.records import FORMAT_VERSION
from flinkish.units import counted

#: Levels of :func:`check_files`.
QUICK = "quick"
LOGS, FULL = VERIFY_LEVELS
#: Number of files that are checked together.
_CHUNK = 10_000


@dataclass(frozen=True)
class OpenSavepoint:
    """An opened savepoint: ``path`` is its location, sizes are in bytes."""

    path: str
    header: Header
    queries: tuple[QueryRecord, ...]
    #: Totals of the data files, without ``_metadata`` itself.
    files: int
    bytes: int
    #: Names of earlier savepoints in the same directory that hold files of this one.
    holders: tuple[str, ...]
    _metadata: Metadata = field(repr=False, compare=False)

    @property
    def is_relocatable(self) -> bool:
        """Whether the directory can be moved or copied alone."""
        return not self.holders

    @property
    def seal(self) -> str:
        """The digest of ``_metadata``; only a savepoint with the same file has the same seal."""
        return self._metadata.seal

    def iter_files(self) -> Iterator[FileRecord]:
        """Iterate over every file record, streamed; raise Corrupt if the metadata is damaged."""
        return self._metadata.iter_files()

    def locate_file(self, record: FileRecord) -> str:
        """Return the location of a file's bytes."""
        if record.held is not None:
            return storage.join(storage.parent(self.path), record.held)
        return storage.join(self.path, self.queries[record.query].directory, record.path)

    def recorded_files(self, query: int) -> FileTable:
        """Return the sizes and digests of all files of the query with the index ``query``."""
        return FileTable.of(
            (record.path, record.size, record.digest)
            for record in self.iter_files()
            if record.query == query
        )

    def query_root(self, query: QueryRecord) -> str:
        """Return the location of a query, which has the layout of a Spark checkpoint."""
        return storage.join(self.path, query.directory)


def savepoint_directory(path: str) -> str:
    """Return the directory of the savepoint whose directory or ``_metadata`` file is ``path``."""
    location = storage.locate(path)
    if storage.base_name(location) != FILE_NAME:
        return location
    return location if storage.is_directory(location) else storage.parent(location)


def open_savepoint(path: str) -> OpenSavepoint:
    """Open the savepoint at ``path`` (directory or ``_metadata`` file, path or URL).

    The whole of ``_metadata`` is checked. Data files are not; see :func:`check_files`. A link is
    followed, since savepoints that hold or use files of this one are beside the target of the link.

    Raises SavepointNotFound, Corrupt, UnsupportedFormat for a newer version or an unknown required
    feature, and StorageError.
    """
    directory = savepoint_directory(path)
    if storage.is_local(directory):
        if not storage.is_directory(directory):
            message = f"no savepoint at {path}: the directory does not exist"
            raise SavepointNotFound(message, path=path)
        if os.path.islink(directory):
            directory = os.path.realpath(directory)
    try:
        metadata = Metadata(storage.join(directory, FILE_NAME))
    except SavepointNotFound as error:
        below = _savepoints_below(directory)
        if below:
            error.hint = (
                f"it holds {counted(below, 'savepoint')}: name one of them; see: "
                f"flinkish savepoint list {quoted_path(path)}"
            )
        raise
    return OpenSavepoint(
        path=directory,
        header=metadata.header,
        queries=metadata.queries,
        files=metadata.files,
        bytes=metadata.bytes,
        holders=metadata.holders(),
        _metadata=metadata,
    )


def _savepoints_below(directory: str) -> int:
    """Return the number of directories in a directory that are named like savepoints."""
    names = storage.list_directory(directory).directories
    return sum(name.startswith("savepoint-") for name in names)


def check_files(savepoint: OpenSavepoint, level: str = LOGS) -> None:
    """Check a savepoint's data files; raise Corrupt, with the first bad file and how many are bad.

    ``quick`` checks that every file exists with its size; ``logs`` also compares the digests of
    logs, metadata and schemas, whose bytes decide what is read again and how; ``full`` those of
    all files. Files that another savepoint holds are checked there. Also raises the errors of
    :func:`refuse_removed` and :func:`find_bad_files`.
    """
    bad = find_bad_files(savepoint, level)
    first = next(bad, None)
    if first is not None:
        refuse_removed(savepoint.path)
        more = sum(1 for _ in bad)
        others = "" if not more else f", and {more} more of {savepoint.files} files are bad"
        raise Corrupt(
            f"the savepoint {savepoint.path} is damaged: {first.path} {first.reason}{others}",
            hint="use another savepoint, or put the files back from a copy",
            path=savepoint.path,
            bad_files=more + 1,
        )


def refuse_removed(path: str) -> None:
    """Raise SavepointNotFound if the savepoint of a directory was removed since it was opened."""
    if not storage.exists(storage.join(path, FILE_NAME)):
        raise SavepointNotFound(f"{path} was removed meanwhile", path=path)


@dataclass(frozen=True)
class BadFile:
    """A file or partition that is missing, or a file that differs from the metadata.

    ``path`` is relative to the savepoint; for a file that another savepoint holds, it is
    the location of that file.
    """

    path: str
    reason: str


def find_bad_files(savepoint: OpenSavepoint, level: str = LOGS) -> Iterator[BadFile]:
    """Yield each operator's first missing partition, then the files that differ from their records.

    Raises UsageError for an unknown level, UnsupportedFormat if a digest has an unknown form, and
    the errors of reading ``_metadata``.

    About ten thousand files are in memory at a time. For these, each directory is listed once, with
    concurrent requests on remote storage.
    """
    if level not in {QUICK, LOGS, FULL}:
        raise UsageError(f"unknown level {level!r}", hint="use quick, logs or full")
    yield from _missing_partitions(savepoint)
    records = savepoint.iter_files()
    while chunk := list(islice(records, _CHUNK)):
        locations = [savepoint.locate_file(record) for record in chunk]
        directories = sorted({storage.parent(location) for location in locations})
        sizes = dict(
            zip(directories, storage.in_flight(savepoint.path, _sizes, directories), strict=True)
        )

        def check(
            item: tuple[FileRecord, str], sizes: dict[str, dict[str, int]] = sizes
        ) -> str | None:
            return _check_file(item[1], item[0], level, sizes)

        pairs = list(zip(chunk, locations, strict=True))
        for (record, location), reason in zip(
            pairs, storage.in_flight(savepoint.path, check, pairs), strict=True
        ):
            if reason is not None:
                own = f"{savepoint.queries[record.query].directory}/{record.path}"
                yield BadFile(own if record.held is None else location, reason)


def _missing_partitions(savepoint: OpenSavepoint) -> Iterator[BadFile]:
    """Yield, for each operator, the first required partition that the savepoint lacks."""
    for query in savepoint.queries:
        for operator in query.operators:
            state = operator.state
            keys = [each.key_schema for each in state.stores if each.key_schema is not None]
            expected = operator_files.expected_partitions(query.pins, keys, state.partitions)
            if state.partitions < expected:
                path = f"{query.directory}/{STATE}/{state.ordinal}/{state.partitions}"
                reason = f"is missing: the state has {state.partitions} of {expected} partitions"
                yield BadFile(path, reason)


def _check_file(
    location: str, record: FileRecord, level: str, sizes: dict[str, dict[str, int]]
) -> str | None:
    """Return what is wrong with a file, or None."""
    size = sizes[storage.parent(location)].get(storage.base_name(location))
    if size is None:
        return "is missing"
    if size != record.size:
        return f"has {size} bytes instead of {record.size}"
    if level == FULL or (level == LOGS and not is_state_data(record.path)):
        try:
            if not digests.matches(location, record.digest):
                return "does not have its recorded digest"
        except Corrupt:
            return "is not a regular file"
        except FileNotFoundError:
            return "is missing"
        except digests.UnknownDigest as error:
            raise UnsupportedFormat(f"{location} has a digest of unknown form: {error}") from error
    return None


def _sizes(directory: str) -> dict[str, int]:
    listing = storage.list_directory(directory)
    # A file that is gone since it was listed, or a link that leads nowhere, is missing.
    sizes = ((name, listing.size_if_there(name)) for name in listing.files)
    return {name: size for name, size in sizes if size is not None}


def describe(savepoint: OpenSavepoint) -> dict[str, Any]:
    """Return the savepoint as JSON data; ``flinkish savepoint show --json`` adds to it."""
    header = savepoint.header
    return {
        "savepoint": {
            "path": savepoint.path,
            "job_id": header.job.job_id,
            "job_name": header.job.name,
            "created": iso_time(header.created),
            "trigger": header.trigger,
            "spark_version": header.job.spark_version,
            "python_version": header.job.python_version,
            "flinkish_version": header.job.flinkish_version,
            "host": header.job.host,
            "program": header.job.program,
            "restored_from": header.job.restored_from,
            "relocatable": savepoint.is_relocatable,
            "holders": list(savepoint.holders),
            "format": header.format,
            "format_version": FORMAT_VERSION,
            "queries": [_describe_query(query) for query in savepoint.queries],
            "left_out": [
                {"query": each.query, "reason": each.reason, "pending": each.pending}
                for each in header.job.left_out
            ],
            "complete": header.job.complete,
            "files": savepoint.files,
            "bytes": savepoint.bytes,
        }
    }


def iso_time(seconds: float) -> str:
    """Format seconds since the epoch as UTC ISO-8601 with milliseconds.

    Outside the range of datetime the number of seconds is returned instead: a watermark can have
    any value, depending on the data.
    """
    try:
        moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.3f} s"
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
        "drained": (query.watermark_ms or 0) >= MAX_WATERMARK_MS,
        "offsets": [parsed_offset(text) for text in query.offsets],
        "pins": dict(query.pins),
        "source": query.source,
        "sink": query.sink,
        "backend": query.backend,
        "checkpoint_format": query.checkpoint_format,
        "files": query.files,
        "bytes": query.bytes,
        "operators": [_describe_operator(operator) for operator in query.operators],
    }


def parsed_offset(text: str) -> Any:
    """Parse a source's offset: JSON in the source's own form; ``-`` (none yet) gives None.

    Text that is not JSON is returned as it is.
    """
    if text == "-":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _describe_operator(operator: OperatorRecord) -> dict[str, Any]:
    state, facts = operator.state, operator.facts
    return {
        "uid": operator.uid,
        "operator_id": operator.operator_id,
        "operator_id_v2": operator.operator_id_v2,
        "operator_id_v3": operator.operator_id_v3,
        "kind": state.kind,
        "ordinal": state.ordinal,
        "partitions": state.partitions,
        "rows": facts.rows,
        "bytes": state.bytes,
        "files": state.files,
        "state_digest": facts.state_digest,
        "stores": [
            {
                "name": store.name,
                "key_schema": store.key_schema,
                "value_schema": store.value_schema,
            }
            for store in state.stores
        ],
    }
