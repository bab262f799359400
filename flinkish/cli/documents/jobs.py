"""The JSON documents of the commands that start, show and follow jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

from flinkish.cli.documents.parts import (
    Bytes,
    ErrorRecord,
    FailedJob,
    JobName,
    QueryBatch,
    SavepointFormat,
    Seconds,
    SkippedJob,
    Time,
    Trigger,
)
from flinkish.cli.documents.requests import RequestRecord
from flinkish.cli.documents.upgrades import UpgradeDocument
from flinkish.messages.launch import ExternalLauncher
from flinkish.messages.plan import RestorePlan
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavedQuery
from flinkish.registry.jobs import JobState


class StuckQuery(TypedDict):
    """A query that has input, and commits nothing."""

    query: Annotated[str | None, "its name; null: the job's driver has not reported"]
    seconds: Annotated[float, "seconds for which it has been stuck"]


class _Stuck(TypedDict, total=False):
    stuck: Annotated[list[StuckQuery], "of a job that is stuck (--stuck)"]


class ListedJob(JobName, _Stuck):
    """A job as ``list`` shows it."""

    state: JobState
    start_time: Time
    end_time: Time | None
    queries: list[QueryBatch]
    last_batch: Annotated[int | None, "the newest batch of all its queries"]
    last_savepoint: Annotated[str | None, "its location"]


class ListDocument(TypedDict):
    """The jobs."""

    jobs: list[ListedJob]


class _Started(TypedDict, total=False):
    notes: Annotated[list[str], "the driver's notes about the start"]
    plan: Annotated[RestorePlan | None, "how the job was restored"]
    already_running: Annotated[Literal[True], "nothing was started (--if-not-running)"]


class RunDocument(_Started):
    """The job that was started, or runs already."""

    job_id: str
    name: str
    state: JobState


class _RunDryRun(TypedDict, total=False):
    carried: Annotated[str, "the file that carries the program to the cluster"]


class RunDryRunDocument(_RunDryRun):
    """The job that would be started."""

    dry_run: Literal[True]
    name: str
    command: list[str]
    uid_map: Mapping[str, str]


class JobStateEntry(TypedDict):
    """A change of a job's state."""

    state: JobState
    time: Time
    reason: str | None


class RestartOfJob(TypedDict):
    """A restart by the job's supervisor."""

    time: Time
    reason: str | None


class Process(TypedDict):
    """A process of a job."""

    host: str
    pid: int


class RecordedSavepoint(TypedDict):
    """A savepoint in the registry."""

    path: str
    created: Time
    format: SavepointFormat
    trigger: Trigger
    bytes: Bytes
    files: int
    duration: Seconds
    queries: list[SavedQuery]
    request_id: str | None


class JobDescriptionRecord(JobName):
    """Everything about a job."""

    state: JobState
    start_time: Time
    end_time: Time | None
    state_history: list[JobStateEntry]
    restart_strategy: str
    restarts: list[RestartOfJob]
    spark_version: str | None
    application_id: str | None
    launcher: Literal["flinkish", "external"]
    external_launcher: ExternalLauncher | None
    program: Annotated[str | None, "its file or module"]
    arguments: list[str]
    master: str | None
    restored_from: Annotated[str | None, "the location of the savepoint"]
    checkpoint_dir: str | None
    log_path: str | None
    heartbeat: Annotated[Time | None, "the newest sign of life of its driver"]
    supervisor: Process | None
    driver: Process | None
    exit_status: Annotated[int | None, "of spark-submit; negative: minus a signal's number"]
    failure: Mapping[str, Any] | None
    queries: list[QueryStatus]
    savepoints: list[RecordedSavepoint]
    requests: list[RequestRecord]
    upgrades: list[UpgradeDocument]


class StatusDocument(TypedDict):
    """One job in full."""

    job: JobDescriptionRecord


class CommittedQuery(QueryBatch):
    """A query and its newest committed batch."""

    query_id: str | None
    checkpoint_dir: str


class CheckpointDocument(JobName):
    """The newest committed batches of a job."""

    state: JobState
    queries: list[CommittedQuery]


class WaitDocument(TypedDict):
    """The job that has reached the goal."""

    job_id: str
    state: JobState
    queries: list[QueryStatus]


class AckDocument(TypedDict):
    """The jobs whose failure is acknowledged."""

    jobs: list[JobName]


class RestartDryRunDocument(JobName):
    """The job that would be restarted."""

    dry_run: Literal[True]
    how: Annotated[str, "where its queries would resume"]


class RestartedJob(JobName):
    """A job that was started again."""

    savepoint: str | None
    new_job_id: str | None
    state: JobState | None


class NotRestartedJob(FailedJob):
    """A job that could not be started again."""

    savepoint: str | None


class SkippedRestart(SkippedJob):
    """A job that was left out."""

    savepoint: str | None


class RestartAllDocument(TypedDict):
    """The jobs that were stopped together and are started again (``--all``)."""

    dry_run: bool
    restarted: list[RestartedJob]
    failed: list[NotRestartedJob]
    skipped: list[SkippedRestart]


class RecoveredJob(JobName):
    """A lost job that is started again."""

    batches: Annotated[Mapping[str, int | None], "the batch after which each query resumes"]


class RecoverDocument(TypedDict):
    """The lost jobs of this host."""

    dry_run: bool
    restarted: list[RecoveredJob]
    failed: list[FailedJob]


class PurgedPart(TypedDict):
    """A part of what a job has left."""

    what: str
    path: str | None
    bytes: Bytes
    keep: bool
    reason: Annotated[str | None, "why it is kept"]


class PurgedJob(JobName):
    """A job that ended long ago."""

    state: JobState
    end_time: Time | None
    keep: bool
    reasons: Annotated[list[str], "why it is kept"]
    removed: bool
    bytes: Bytes
    parts: list[PurgedPart]
    error: ErrorRecord | None


class PurgedLeftover(TypedDict):
    """A directory that belongs to no job."""

    what: str
    path: str
    written: Time | None
    bytes: Bytes
    keep: bool
    reason: Annotated[str | None, "why it is kept"]
    removed: bool
    error: ErrorRecord | None


class PurgeDocument(TypedDict):
    """The jobs that were, or would be, removed."""

    ended_before: Time | None
    dry_run: bool
    jobs: list[PurgedJob]
    leftovers: list[PurgedLeftover]


class LogsDocument(TypedDict):
    """Lines of a driver's log."""

    job_id: str
    path: str | None
    lines: list[str]


class MetricSample(TypedDict):
    """One number."""

    labels: Mapping[str, str]
    value: float


class MetricRecord(TypedDict):
    """A metric with its numbers."""

    name: str
    type: Literal["gauge", "counter"]
    help: str
    samples: list[MetricSample]


class MetricsDocument(TypedDict):
    """The registry in numbers."""

    metrics: list[MetricRecord]
