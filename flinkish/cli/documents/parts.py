"""What JSON documents of several commands have in common."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict, cast

from flinkish.errors import FlinkishError
from flinkish.messages.json_schema import Format
from flinkish.messages.requests import SavedQuery

#: A moment.
Time = Annotated[str, Format("date-time"), "UTC, ISO 8601"]
#: A size.
Bytes = Annotated[int, "bytes"]
#: A duration.
Seconds = Annotated[float, "seconds"]


class _Optional(TypedDict, total=False):
    warnings: Annotated[list[str], "what did not fail, but should be looked at"]
    absent_registry: Annotated[str, "where a registry was looked for, if there is none"]


class Envelope(_Optional):
    """What every document has."""

    schema_version: Annotated[Literal[1], "changes when a program that reads documents has to"]


class ErrorRecord(TypedDict):
    """An error, with further facts by its id."""

    id: Annotated[str, "a stable name"]
    code: Annotated[int, "the exit code that the error has by itself"]
    message: str
    hint: Annotated[str, "what to do; empty if there is no advice"]


def error_record(error: FlinkishError) -> ErrorRecord:
    """Return an error as part of a document."""
    return cast(ErrorRecord, error.to_record())


class ErrorDocument(TypedDict):
    """The line on stderr of a command that fails."""

    error: ErrorRecord


class JobName(TypedDict):
    """A job."""

    job_id: str
    name: str


class FailedJob(JobName):
    """A job for which the command failed."""

    error: ErrorRecord


class SkippedJob(JobName):
    """A job for which nothing was done."""

    reason: str


class QueryBatch(TypedDict):
    """A query and its newest batch."""

    name: str
    batch_id: int | None


#: The format of a savepoint.
SavepointFormat = Annotated[str, "native or canonical"]
#: What a savepoint was taken for.
Trigger = Annotated[str, "savepoint, stop, cancel, offline or migrate"]


class SavepointResult(TypedDict):
    """A savepoint that was taken."""

    path: str
    format: SavepointFormat
    bytes: Bytes
    files: int
    shared_files: Annotated[int | None, "those of its files that an earlier savepoint holds"]
    moved_bytes: Annotated[int | None, "bytes that were copied"]
    duration: Seconds
    queries: list[SavedQuery]


#: The schema of a store's keys or values, in Spark's JSON form.
SparkJson = Annotated[Any, "in Spark's JSON form"]


class StoreSchema(TypedDict):
    """A state store of an operator."""

    name: str
    key_schema: SparkJson
    value_schema: SparkJson
