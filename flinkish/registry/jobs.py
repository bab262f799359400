"""Jobs and requests as plain data, and the table of job states.

State names are Flink's (``org.apache.flink.api.common.JobStatus``), and so are most transitions.
Times are seconds since the epoch (UTC), durations are seconds, sizes are bytes. The module is kept
light because ``flinkish list`` imports it, and the start-up of ``list`` has a measured budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from flinkish.annotations import public
from flinkish.errors import WrongState
from flinkish.messages.launch import Launch
from flinkish.messages.requests import Arguments, CancelArguments, RequestResult, SavepointArguments


@public
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
        """Whether the job has ended.

        It runs again under this id only after a restart, or if it was declared lost by mistake.
        """
        return self in FINAL_STATES


_S = JobState
FINAL_STATES = frozenset({_S.FAILED, _S.CANCELED, _S.FINISHED})
#: States of the jobs that ``flinkish list`` shows without options: in Flink's words, those that are
#: running or scheduled.
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
    """Return whether a job in state ``old`` may go to state ``new``."""
    return new in TRANSITIONS[old]


@dataclass(frozen=True)
class ProcessRef:
    """A process of one host: its pid and its start time (a reused pid is another process)."""

    host: str
    pid: int
    #: Field 22 of /proc/<pid>/stat (clock ticks since boot); None if /proc does not have it.
    start_ticks: int | None = None


@dataclass(frozen=True)
class JobRecord:
    """One row of the registry's table of jobs."""

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

    @property
    def has_given_name(self) -> bool:
        """Whether a user named the job (``run --name``).

        Such a name is unique among the jobs that have not ended.
        """
        return self.name != self.launch.default_name

    def is_replaced(self, driver: ProcessRef | None) -> bool:
        """Return whether ``driver`` is given, but is not, or is no longer, the job's driver."""
        return driver not in (None, self.driver)

    def written_by(self, driver: ProcessRef | None) -> JobRecord:
        """Return this job; raise WrongState if it :meth:`is_replaced`."""
        if self.is_replaced(driver):
            raise WrongState(
                f"job {self.name} ({self.job_id}) is {self.state.value} and has another driver, "
                "or waits for one: this driver changes nothing of the job",
                job_id=self.job_id,
                state=self.state.value,
            )
        return self


#: The recorded reason of a job's end if its program ended without waiting for its queries.
ENDED_BEFORE_QUERIES = "program ended while its queries ran"


@dataclass(frozen=True)
class JobStateChange:
    """One entry of a job's state history."""

    state: JobState
    time: float
    reason: str | None = None


class RequestKind(str, Enum):
    """What a client may request from a job's driver."""

    SAVEPOINT = "savepoint"
    STOP = "stop"
    CANCEL = "cancel"


#: The requests that end a job, and the state that they end it in.
ENDS: Mapping[RequestKind, JobState] = {
    RequestKind.STOP: JobState.FINISHED,
    RequestKind.CANCEL: JobState.CANCELED,
}

#: The class of a request's arguments, by the kind of the request.
ARGUMENTS: Mapping[RequestKind, type[Arguments]] = {
    RequestKind.SAVEPOINT: SavepointArguments,
    RequestKind.STOP: SavepointArguments,
    RequestKind.CANCEL: CancelArguments,
}


def arguments_for(
    kind: RequestKind,
    target: str | None,
    *,
    format: str = "native",
    timeout: float | None = None,
    full: bool = False,
    drain: bool = False,
    together: str | None = None,
) -> Arguments:
    """Return the arguments of a request; only a cancel may lack a target, only a stop drains."""
    if kind is RequestKind.CANCEL:
        return CancelArguments(target, format, timeout, full)
    assert target is not None, kind
    return SavepointArguments(target, format, timeout, full=full, drain=drain, together=together)


class RequestState(str, Enum):
    """The states of a request, which is PENDING until a driver claims it.

    Flink's triggers are IN_PROGRESS or COMPLETED; Flink also reports a failure as COMPLETED.
    """

    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"

    @property
    def is_final(self) -> bool:
        """Whether the request has its result or its error."""
        return self in (RequestState.COMPLETED, RequestState.FAILED)


@dataclass(frozen=True)
class Request:
    """One request (Flink's trigger) to a job's driver.

    The class of ``arguments`` is the one that :data:`ARGUMENTS` names for the kind.
    """

    request_id: str
    job_id: str
    kind: RequestKind
    state: RequestState
    created: float
    arguments: Arguments
    requester: str | None = None  # user@host
    started: float | None = None
    finished: float | None = None
    progress: Mapping[str, Any] | None = None  # {"phase", "files", "bytes", ...}
    result: RequestResult | None = None
    error: Mapping[str, Any] | None = None  # FlinkishError.to_record()

    @property
    def savepoint(self) -> SavepointArguments | None:
        """The savepoint that is requested; None for a plain cancel."""
        if isinstance(self.arguments, CancelArguments):
            return self.arguments.savepoint
        return self.arguments
