"""Jobs, requests and savepoint records as plain data, and the table of job states.

State names and transitions are Flink's (``org.apache.flink.api.common.JobStatus``). Times are
seconds since the epoch (UTC), durations seconds, sizes bytes. Kept light on purpose: ``flinkish
list`` imports this module, and its start-up is a measured budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any


class JobState(str, Enum):
    """Flink's job states."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"

    @property
    def is_final(self) -> bool:
        """True when the job can never run again under this id."""
        return self in FINAL_STATES


_S = JobState
FINAL_STATES = frozenset({_S.FAILED, _S.CANCELED, _S.FINISHED})
#: States in which ``flinkish list`` (no option) shows a job: Flink's running + scheduled.
ACTIVE_STATES = frozenset(set(JobState) - FINAL_STATES)
SCHEDULED_STATES = frozenset({_S.INITIALIZING, _S.CREATED})

#: state -> states that may follow it.
TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    _S.INITIALIZING: frozenset({_S.CREATED, _S.FAILING, _S.FAILED, _S.CANCELLING, _S.CANCELED}),
    _S.CREATED: frozenset(
        {_S.RUNNING, _S.FAILING, _S.FAILED, _S.CANCELLING, _S.CANCELED, _S.FINISHED}
    ),
    _S.RUNNING: frozenset(
        {
            _S.FAILING,
            _S.FAILED,
            _S.CANCELLING,
            _S.CANCELED,
            _S.FINISHED,
            _S.RESTARTING,
            _S.SUSPENDED,
        }
    ),
    _S.FAILING: frozenset({_S.FAILED, _S.RESTARTING, _S.CANCELLING, _S.CANCELED}),
    _S.CANCELLING: frozenset({_S.CANCELED, _S.FAILED, _S.FINISHED}),
    _S.RESTARTING: frozenset(
        {_S.CREATED, _S.RUNNING, _S.FAILING, _S.FAILED, _S.CANCELLING, _S.CANCELED, _S.SUSPENDED}
    ),
    _S.SUSPENDED: frozenset({_S.RESTARTING, _S.RUNNING, _S.CANCELLING, _S.CANCELED, _S.FAILED}),
    _S.FAILED: frozenset(),
    _S.CANCELED: frozenset(),
    _S.FINISHED: frozenset(),
}


def may_follow(old: JobState, new: JobState) -> bool:
    """True when a job in state ``old`` may go to state ``new``."""
    return new in TRANSITIONS[old]


@dataclass(frozen=True)
class ProcessRef:
    """A process of one host: its pid and start time (a reused pid is another process)."""

    host: str
    pid: int
    #: Field 22 of /proc/<pid>/stat (clock ticks since boot); None where there is no /proc.
    start_ticks: int | None = None


@dataclass(frozen=True)
class RestoreSpec:
    """What ``run -s`` asked for.

    ``uid_map`` holds pairs (old, new): the state of ``old``, a uid or an operator id (32 hex digits
    in any case) in the savepoint, is that of the program's operator with the uid ``new``. No state
    and no uid stands in it twice. ``reset_sources`` start afresh, ``sink_ahead`` says what to do
    with a sink that has later batches already, ``parallelism`` is the number of state partitions
    that was asked for.
    """

    path: str
    allow_non_restored: bool = False
    claim_mode: str = "no_claim"  # or "claim"
    fork: bool = False
    uid_map: tuple[tuple[str, str], ...] = ()
    reset_sources: tuple[str, ...] = ()
    sink_ahead: str | None = None  # rebase | accept
    parallelism: int | None = None
    #: What the plan says that was shown to the user, by query: the restore must come to the same.
    expected: Mapping[str, Any] | None = None

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> RestoreSpec:
        """Of plain data, also of an older flinkish; keys of a newer one are ignored."""
        known = {k: v for k, v in data.items() if k in RestoreSpec.__dataclass_fields__}
        known["uid_map"] = tuple((old, new) for old, new in known.get("uid_map", ()))
        known["reset_sources"] = tuple(known.get("reset_sources", ()))
        return RestoreSpec(**known)


@dataclass(frozen=True)
class Launch:
    """How a job is launched: all the driver and the launcher need, JSON-serialisable.

    ``application`` is the absolute path of the program, or None with ``module`` set (``-pym``).
    ``options`` is flinkish's effective configuration at submission, ``conf`` Spark's.
    ``secret_arguments`` follow ``arguments``; only the driver gets them as they are
    (:mod:`flinkish.jobs.secretconf`).
    """

    application: str | None
    module: str | None = None
    arguments: tuple[str, ...] = ()
    master: str | None = None
    spark_home: str | None = None
    python: str | None = None  # interpreter of the executors' workers (-pyexec)
    client_python: str | None = None  # interpreter of the driver (-pyclientexec)
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    restore: RestoreSpec | None = None
    secret_arguments: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data for the registry."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Launch:
        """The inverse of :meth:`to_json`; keys of a newer flinkish are ignored."""
        known = {k: v for k, v in data.items() if k in Launch.__dataclass_fields__}
        for key in ("arguments", "secret_arguments", "py_files", "archives", "jars", "packages"):
            if key in known:
                known[key] = tuple(known[key])
        if known.get("restore"):
            known["restore"] = RestoreSpec.from_json(known["restore"])
        return Launch(**known)


@dataclass(frozen=True)
class Job:
    """One row of the registry's jobs."""

    job_id: str
    name: str
    state: JobState
    start_time: float
    launch: Launch
    log_path: str | None = None
    checkpoint_dir: str | None = None
    end_time: float | None = None
    supervisor: ProcessRef | None = None
    driver: ProcessRef | None = None
    heartbeat: float | None = None
    spark_version: str | None = None
    application_id: str | None = None
    exit_status: int | None = None  # of spark-submit; negative: minus the signal number
    failure: Mapping[str, Any] | None = None  # FlinkishError.to_record()


@dataclass(frozen=True)
class StateChange:
    """One line of a job's state history."""

    state: JobState
    time: float
    reason: str | None = None


@dataclass(frozen=True)
class OperatorStatus:
    """One stateful operator of a query, as the driver sees it."""

    ordinal: int
    kind: str  # Spark's operator name, e.g. "stateStoreSave"
    uid: str | None = None
    operator_id: str | None = None
    rows: int | None = None


@dataclass(frozen=True)
class QueryStatus:
    """One streaming query of a job, refreshed with each heartbeat."""

    name: str
    query_id: str
    run_id: str
    checkpoint_dir: str
    active: bool = True
    batch_id: int | None = None  # newest committed batch
    watermark: str | None = None  # ISO-8601, as Spark's progress gives it
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    state_rows: int | None = None
    operators: tuple[OperatorStatus, ...] = ()
    error: str | None = None
    #: What the user is to hear of its start: uids that are missing, state that starts empty ...
    notes: tuple[str, ...] = ()
    #: How it was restored: its part of the restore plan (``flinkish.restore.document``).
    plan: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data for the registry and for ``--json``."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> QueryStatus:
        """The inverse of :meth:`to_json`."""
        known = {k: v for k, v in data.items() if k in QueryStatus.__dataclass_fields__}
        known["operators"] = tuple(OperatorStatus(**o) for o in known.get("operators", ()))
        known["notes"] = tuple(known.get("notes", ()))
        return QueryStatus(**known)


@dataclass(frozen=True)
class QueryFacts:
    """What only the driver knows of a query and every savepoint of it holds, as plain data.

    It stays in the registry when the driver is gone, so that a savepoint of what it left is as good
    as one that it would have taken. ``sources`` and ``sink`` are descriptions as in a savepoint,
    ``operators`` the fields of its ``OperatorFacts`` without rows. ``problem`` is the record of the
    error (``FlinkishError.to_record()``) that says why there can be no savepoint of the query.
    """

    run_id: str
    sources: tuple[Mapping[str, Any], ...] = ()
    sink: Mapping[str, Any] = field(default_factory=dict)
    operators: tuple[Mapping[str, Any], ...] = ()
    python_version: str | None = None
    problem: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data for the registry."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> QueryFacts:
        """The inverse of :meth:`to_json`; keys of a newer flinkish are ignored."""
        known = {k: v for k, v in data.items() if k in QueryFacts.__dataclass_fields__}
        for key in ("sources", "operators"):
            known[key] = tuple(known.get(key) or ())
        return QueryFacts(**known)


class RequestKind(str, Enum):
    """What a client may ask of a job's driver."""

    SAVEPOINT = "savepoint"
    STOP = "stop"
    CANCEL = "cancel"


class RequestState(str, Enum):
    """Flink's trigger states, with PENDING before a driver has claimed the request."""

    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"

    @property
    def is_final(self) -> bool:
        """True when the request has its result."""
        return self in (RequestState.COMPLETED, RequestState.FAILED)


@dataclass(frozen=True)
class Request:
    """One request (Flink's trigger) to a job's driver.

    ``arguments`` by kind. SAVEPOINT and STOP: ``target`` (directory URL), ``format`` ("native").
    CANCEL: the same with ``target`` None for a cancel without savepoint.
    ``result``: ``{"savepoint": {...} | None, "rung": "quiesce"|"stop"|"kill" | None}``, with
    ``left_out`` where queries are not in the savepoint: ``[{"query", "reason"}]``.
    """

    request_id: str
    job_id: str
    kind: RequestKind
    state: RequestState
    created: float
    arguments: Mapping[str, Any] = field(default_factory=dict)
    requester: str | None = None  # user@host
    started: float | None = None
    finished: float | None = None
    progress: Mapping[str, Any] | None = None  # {"phase", "files", "bytes", ...}
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None  # FlinkishError.to_record()


@dataclass(frozen=True)
class SavepointRecord:
    """One savepoint the registry knows of; the savepoint's directory is the truth about it."""

    path: str
    job_id: str
    created: float
    format: str  # "native" or "canonical"
    bytes: int
    files: int
    duration: float
    queries: tuple[Mapping[str, Any], ...] = ()  # {"name", "batch_id", "query_id"}
    trigger: str = "savepoint"  # savepoint | stop | cancel | offline
    request_id: str | None = None
    disposed: float | None = None
