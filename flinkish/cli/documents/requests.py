"""The JSON documents of requests to jobs: ``savepoint``, ``stop``, ``cancel``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

from flinkish.cli.documents.parts import (
    ErrorRecord,
    FailedJob,
    JobName,
    SavepointResult,
    Seconds,
    SkippedJob,
    Time,
)
from flinkish.messages.requests import Arguments, LeftOut, RequestResult
from flinkish.registry.jobs import JobState, RequestKind, RequestState


class RequestRecord(TypedDict):
    """A request to a job's driver."""

    request_id: str
    job_id: str
    kind: RequestKind
    state: RequestState
    created: Time
    started: Time | None
    finished: Time | None
    requester: Annotated[str | None, "user@host"]
    arguments: Arguments
    progress: Annotated[Mapping[str, Any] | None, "phase, files and bytes so far"]
    result: RequestResult | None
    error: Mapping[str, Any] | None


class RequestDocument(TypedDict):
    """A request's progress or result."""

    request: RequestRecord


class _Outcome(TypedDict, total=False):
    pruned: Annotated[list[str], "the older savepoints that a retention policy removed"]


class OutcomeDocument(_Outcome):
    """A savepoint, stop or cancel that was carried out."""

    request_id: str | None
    job_id: str | None
    state: RequestState | None
    job_state: JobState | None
    savepoint: SavepointResult | None
    stop_method: Annotated[str | None, "quiesce, stop or kill; null if the queries continue"]
    left_out: Annotated[list[LeftOut], "queries that are not in the savepoint"]
    complete: Annotated[bool, "whether the program had started all its queries"]


class DetachedDocument(TypedDict):
    """A request that was not waited for."""

    request_id: str | None
    job_id: str | None


class RequestDryRunDocument(TypedDict):
    """A request that would be made."""

    dry_run: Literal[True]
    job_id: str | None
    kind: RequestKind
    target: str | None


class SavedJob(SavepointResult, JobName):
    """The savepoint of one job."""

    request_id: str | None
    left_out: list[LeftOut]


class GoodSavepoint(TypedDict):
    """A savepoint whose metadata can be read."""

    path: str
    created: Time
    age: Seconds


class NewestSaved(TypedDict):
    """The newest savepoint of a job of which no new one was taken."""

    newest_savepoint: Annotated[GoodSavepoint | None, "its newest good savepoint"]


class FailedRequest(FailedJob, NewestSaved):
    """A job whose savepoint failed."""

    request_id: str | None


class SkippedRequest(SkippedJob, NewestSaved):
    """A job that was left out."""

    request_id: str | None


class UnacknowledgedJob(JobName, NewestSaved):
    """A job that has failed, and whose failure nobody has acknowledged."""

    error: Mapping[str, Any]


class _AllSaved(TypedDict, total=False):
    pruned: Annotated[list[str], "the older savepoints that a retention policy removed"]
    prune_error: ErrorRecord | None


class AllSavedDocument(_AllSaved):
    """The savepoints of all jobs (``--all``)."""

    savepoints: list[SavedJob]
    failed: list[FailedRequest]
    skipped: list[SkippedRequest]
    unacknowledged: list[UnacknowledgedJob]
    missing: Annotated[list[str], "expected jobs that are not running"]


class AllDryRunDocument(TypedDict):
    """The jobs of which savepoints would be taken (``--all``)."""

    dry_run: Literal[True]
    kind: Literal["savepoint", "stop"]
    target: str
    jobs: list[JobName]


#: What a command that makes a request to one job prints.
ONE_JOB = (OutcomeDocument, DetachedDocument, RequestDryRunDocument)
#: What ``--all`` prints.
ALL_JOBS = (AllSavedDocument, AllDryRunDocument)
