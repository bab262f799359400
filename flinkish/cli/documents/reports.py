"""The JSON document of the report on a directory of savepoints."""

from __future__ import annotations

from typing import Annotated, TypedDict

from flinkish.cli.documents.parts import Bytes, ErrorRecord, QueryBatch, Time, Trigger
from flinkish.cli.documents.savepoints import FailedPath
from flinkish.messages.plan import SparkVersions


class ReportedSavepoint(TypedDict):
    """A savepoint of the directory."""

    path: str
    state: Annotated[str, "complete, damaged, missing, unreadable or unsupported"]
    job_id: str
    job_name: str
    created: Time
    trigger: Trigger
    spark_version: str | None
    queries: list[QueryBatch]
    files: int
    bytes: Bytes
    parent: Annotated[str | None, "the previous savepoint of its run, or what the run started from"]
    parent_here: Annotated[bool, "whether the report has its parent"]
    sparks: Annotated[list[SparkVersions], "what the newest lines of Spark do with it"]
    error: ErrorRecord | None


class GrowthPoint(TypedDict):
    """An operator's state in one savepoint."""

    path: str
    created: Time
    rows: int | None
    bytes: Bytes


class OperatorGrowth(TypedDict):
    """An operator's state over the savepoints, oldest first."""

    job_name: str
    query_id: str
    address: Annotated[str, "QUERY/UID or QUERY/ORDINAL, for other commands"]
    uid: str | None
    operator_id: str | None
    kind: str | None
    points: list[GrowthPoint]


class ReportDocument(TypedDict):
    """The report on the savepoints of a directory, newest first."""

    directory: str
    page: Annotated[str | None, "the file with the page; null if none was written"]
    savepoints: list[ReportedSavepoint]
    operators: list[OperatorGrowth]
    unreadable: list[FailedPath]
    unfinished: Annotated[int, "directories without metadata"]
    omitted: Annotated[int, "older savepoints that the report leaves out"]
