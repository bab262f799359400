"""The JSON documents of the commands that work with savepoints on storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

from flinkish.cli.documents.parts import (
    Bytes,
    ErrorRecord,
    QueryBatch,
    SavepointFormat,
    StoreSchema,
    Time,
    Trigger,
)
from flinkish.messages.requests import LeftOut
from flinkish.messages.results import PartitionOffset, SavepointCopy

#: The levels of a verification.
Level = Literal["quick", "full", "deep"]
#: How two savepoints compare in one respect.
Change = Literal["added", "removed", "changed", "same"]


class SavedOperator(TypedDict):
    """A stateful operator in a savepoint."""

    uid: str | None
    operator_id: str | None
    operator_id_v2: str | None
    operator_id_v3: str | None
    kind: str | None
    ordinal: int
    partitions: int
    rows: int | None
    bytes: Bytes
    files: int
    state_digest: str | None
    stores: list[StoreSchema]
    address: Annotated[str, "QUERY/UID or QUERY/ORDINAL, for other commands"]


class SavedQueryRecord(TypedDict):
    """A query in a savepoint."""

    name: str
    directory: str
    query_id: str
    run_id: str | None
    batch_id: int
    planned_batch: int | None
    watermark: str | None
    drained: bool
    offsets: Annotated[list[Any], "one for each source, in its own form; null if it has none yet"]
    pins: Annotated[Mapping[str, str], "Spark settings that stay as they were"]
    source: Any
    sink: Any
    backend: str | None
    checkpoint_format: int | None
    files: int
    bytes: Bytes
    operators: list[SavedOperator]
    kafka: list[PartitionOffset]


class SavepointContents(TypedDict):
    """A savepoint in full."""

    path: str
    job_id: str
    job_name: str
    created: Time
    trigger: Trigger
    spark_version: str | None
    python_version: str | None
    flinkish_version: str | None
    host: str | None
    program: str | None
    restored_from: str | None
    relocatable: Annotated[bool, "whether it uses no file of another savepoint"]
    holders: Annotated[list[str], "the savepoints whose files it uses"]
    format: SavepointFormat
    format_version: int
    queries: list[SavedQueryRecord]
    left_out: list[LeftOut]
    complete: Annotated[bool, "whether the program had started all its queries"]
    files: int
    bytes: Bytes
    shared_ids: Annotated[list[str], "operator ids and uids that several operators have"]
    own_bytes: Annotated[int, "bytes that disposing of it frees"]
    shared_bytes: Bytes
    users: Annotated[list[str], "the savepoints that use its files"]


class ShowDocument(TypedDict):
    """The contents of a savepoint."""

    savepoint: SavepointContents


class ListedSavepoint(TypedDict):
    """A savepoint as far as it can be read."""

    path: str
    state: Literal["complete", "damaged", "unreadable", "unsupported", "missing", "link"]
    leads_to: Annotated[str | None, "the savepoint to which a link leads"]
    job_id: str | None
    job_name: str | None
    created: Time | None
    trigger: str | None
    spark_version: str | None
    flinkish_version: str | None
    format: str | None
    queries: list[QueryBatch]
    files: int | None
    bytes: Bytes | None
    error: ErrorRecord | None


class SavepointListDocument(TypedDict):
    """The savepoints of a directory or of the registry."""

    savepoints: list[ListedSavepoint]


class BadFile(TypedDict):
    """A file that differs from its record."""

    path: str
    reason: str


class _Verified(TypedDict, total=False):
    files: int
    bytes: Bytes
    rows: Annotated[int | None, "state rows that were decoded"]
    bad: list[BadFile]
    unexpected: Annotated[list[str], "files that do not belong to the savepoint"]
    unread: Annotated[list[str], "what could not be decoded"]


class VerifiedSavepoint(_Verified):
    """A savepoint that was verified; the facts are absent if it cannot be opened."""

    path: str
    level: Level
    ok: bool
    error: ErrorRecord | None


class VerifyDocument(TypedDict):
    """The savepoints that were verified."""

    savepoints: list[VerifiedSavepoint]


class Fact(TypedDict):
    """A property that differs."""

    name: str
    a: Any
    b: Any


class ColumnChange(TypedDict):
    """A column that differs."""

    schema: Literal["key", "value"]
    column: Annotated[str, "its path"]
    change: Change
    a: str | None
    b: str | None


class StoreChange(TypedDict):
    """A state store in both savepoints, or in one of them."""

    name: str
    change: Change
    columns: list[ColumnChange]


class OperatorChange(TypedDict):
    """An operator in both savepoints, or in one of them."""

    uid: str | None
    operator_id: str | None
    kind: str | None
    ordinal: int
    change: Change
    matched_by: str | None
    facts: list[Fact]
    stores: list[StoreChange]


class QueryChange(TypedDict):
    """A query in both savepoints, or in one of them."""

    name: str
    change: Change
    batch_id: int
    facts: list[Fact]
    offsets: list[Fact]
    pins: list[Fact]
    operators: list[OperatorChange]


class DiffDocument(TypedDict):
    """Two savepoints side by side."""

    a: Annotated[str, "the location of the first"]
    b: Annotated[str, "the location of the second"]
    equal: bool
    header: list[Fact]
    queries: list[QueryChange]


class CopyDocument(TypedDict):
    """The copy of a savepoint."""

    dry_run: bool
    copy: SavepointCopy


class ImportedSavepoint(TypedDict):
    """A savepoint that is in the registry."""

    path: str
    job_id: str
    new: Annotated[bool, "whether it was added now"]


class FailedPath(TypedDict):
    """A location that cannot be read, is damaged, or has no savepoint, and the error."""

    path: str
    error: ErrorRecord


class ImportDocument(TypedDict):
    """The savepoints that were found: those added to the registry, and those known before."""

    savepoints: list[ImportedSavepoint]
    new: int
    failed: list[FailedPath]


class DisposeDocument(TypedDict):
    """The savepoint that was, or would be, disposed of."""

    disposed: bool
    dry_run: bool
    path: str
    files: int
    bytes: Annotated[int, "size of the removed files; other hard links may keep them on the disk"]
    missing: Annotated[int, "files that did not exist"]
    foreign: Annotated[list[str], "files that are not the savepoint's, and stay"]
    gone: Annotated[list[str], "what is removed"]
    kept: Annotated[int, "files that other savepoints use, and that stay"]
    kept_bytes: Bytes
    users: Annotated[list[str], "the savepoints that use them"]


class PrunedSavepoint(TypedDict):
    """A savepoint, and whether the policy keeps it."""

    path: str
    job_id: str
    job_name: str
    created: Time
    keep: bool
    reasons: list[str]
    removed: bool
    bytes: Annotated[
        int,
        "its size; if it goes, that of the removed files, which hard links may keep on the disk",
    ]
    shared_files: int
    gone: Annotated[list[str], "what is removed"]
    error: ErrorRecord | None


class Garbage(TypedDict):
    """An unfinished savepoint, or what is left of a disposed one."""

    path: str
    modified: Time | None
    files: int
    bytes: Bytes
    keep: bool
    reason: str | None
    gone: Annotated[list[str], "what is removed"]
    removed: bool
    error: ErrorRecord | None


class PruneDocument(TypedDict):
    """The savepoints that a retention policy removes and keeps."""

    directory: str
    dry_run: bool
    savepoints: list[PrunedSavepoint]
    garbage: list[Garbage]
    unreadable: list[FailedPath]
    warnings: list[str]


class Lock(TypedDict):
    """A lock on a directory of savepoints."""

    lease_id: str
    kind: str | None
    job_id: str | None
    owner: str | None
    host: str | None
    pid: int | None
    created: Time | None
    refreshed: Time | None
    path: Annotated[str | None, "the savepoint that is being written"]
    damage: str | None
    stale: bool
    removed: bool


class UnlockDocument(TypedDict):
    """The locks of a directory."""

    directory: str
    dry_run: bool
    leases: list[Lock]
