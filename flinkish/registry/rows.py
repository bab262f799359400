"""Convert rows of the registry's tables to the types of ``registry.jobs``, and back.

Pure, except for :func:`one_place`, which follows links.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flinkish.errors import Corrupt, RegistryError, UnsupportedFormat, UsageError
from flinkish.messages.codec import decode, decode_fields, encode, encode_fields
from flinkish.messages.launch import Launch
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.messages.requests import (
    Arguments,
    CancelArguments,
    RequestResult,
    SavedQuery,
    SavepointSummary,
)
from flinkish.registry.jobs import (
    ARGUMENTS,
    JobRecord,
    JobState,
    JobStateChange,
    ProcessRef,
    Request,
    RequestKind,
    RequestState,
)

Row = Mapping[str, Any]

#: Columns of flinkish_jobs that :meth:`Registry.update_job` may set.
UPDATABLE = frozenset(
    {
        "log_path",
        "checkpoint_dir",
        "end_time",
        "supervisor",
        "driver",
        "heartbeat",
        "spark_version",
        "application_id",
        "exit_status",
        "failure",
    }
)

JOB_COLUMNS = (
    "job_id, name, state, start_time, end_time, launch, log_path, checkpoint_dir, supervisor, "
    "driver, heartbeat, spark_version, application_id, exit_status, failure"
)
REQUEST_COLUMNS = (
    "request_id, job_id, kind, state, created, arguments, requester, started, finished, "
    "progress, result, error"
)
SAVEPOINT_COLUMNS = (
    "path, job_id, created, format, bytes, files, duration, queries, cause, request_id, disposed"
)


_Made = TypeVar("_Made")


def _checked(what: str) -> Callable[[Callable[[Row], _Made]], Callable[[Row], _Made]]:
    """Decorate a reader of rows: a row that flinkish cannot have written raises RegistryError."""

    def decorate(make: Callable[[Row], _Made]) -> Callable[[Row], _Made]:
        @functools.wraps(make)
        def made(row: Row) -> _Made:
            try:
                return make(row)
            except Corrupt as error:
                raise RegistryError(
                    f"the registry has a damaged row of {what}: {error.message}"
                ) from error
            except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
                raise RegistryError(f"the registry has a damaged row of {what}: {error}") from error

        return made

    return decorate


def dump(value: Any) -> str | None:
    """Return plain data as JSON text; None stays None (SQL NULL)."""
    return None if value is None else json.dumps(value, separators=(",", ":"))


def load(text: str | None) -> Any:
    """Return the data of JSON text, the inverse of :func:`dump`."""
    return None if text is None else json.loads(text)


def column_value(name: str, value: Any) -> Any:
    """Return the stored form of one updatable field of a job. Raises TypeError for other names."""
    if name not in UPDATABLE:
        raise TypeError(f"a job's {name} cannot be updated")
    if isinstance(value, ProcessRef):
        return dump({"host": value.host, "pid": value.pid, "start_ticks": value.start_ticks})
    return dump(dict(value)) if name == "failure" and value is not None else value


def job_values(job: JobRecord) -> dict[str, Any]:
    """Return the statement parameters of a whole job; UsageError for a launch of wrong types."""
    values = {name: column_value(name, getattr(job, name)) for name in UPDATABLE}
    return values | {
        "job_id": job.job_id,
        "name": job.name,
        "state": job.state.value,
        "start_time": job.start_time,
        "launch": launch_value(job.launch),
    }


def launch_value(launch: Launch) -> str | None:
    """Return the stored form of a launch; UsageError if it is of wrong types."""
    data = encode(launch)
    try:  # one row that cannot be read back would make the whole registry unreadable
        decode(Launch, data)
    except Corrupt as error:
        raise UsageError(error.message, hint="give values of the documented types") from error
    return dump(data)


@_checked("a job")
def job_of(row: Row) -> JobRecord:
    """Return the job of a row with :data:`JOB_COLUMNS`."""
    values = dict(row)
    values["state"] = JobState(row["state"])
    values["launch"] = decode(Launch, load(row["launch"]))
    values["supervisor"] = _process(row["supervisor"])
    values["driver"] = _process(row["driver"])
    values["failure"] = load(row["failure"])
    return JobRecord(**values)


def _process(text: str | None) -> ProcessRef | None:
    data = load(text)
    return ProcessRef(data["host"], data["pid"], data.get("start_ticks")) if data else None


@_checked("a state of a job")
def change_of(row: Row) -> JobStateChange:
    """Return the state change of a row of a job's history."""
    return JobStateChange(JobState(row["state"]), row["time"], row["reason"])


@_checked("a query")
def query_of(row: Row) -> QueryStatus:
    """Return a query as its driver last reported it."""
    return decode(QueryStatus, load(row["status"]))


@_checked("a query")
def facts_of(row: Row) -> QueryFacts | None:
    """Return the facts that a query's driver recorded; None if it has not recorded them."""
    data = load(row["facts"])
    return None if data is None else decode(QueryFacts, data)


def request_values(request: Request) -> dict[str, Any]:
    """Return the statement parameters of a new request."""
    return {
        "request_id": request.request_id,
        "job_id": request.job_id,
        "kind": request.kind.value,
        "state": request.state.value,
        "created": request.created,
        "arguments": dump(encode(request.arguments)),
        "requester": request.requester,
    }


def settled_values(request: Request) -> dict[str, Any]:
    """Return the statement parameters of a request that already has its result or its error."""
    return request_values(request) | {
        "started": request.started,
        "finished": request.finished,
        "result": None if request.result is None else dump(encode(request.result)),
        "error": None if request.error is None else dump(dict(request.error)),
    }


@_checked("a request")
def arguments_of(row: Row) -> Arguments:
    """Return the arguments of a request from a row with ``kind`` and ``arguments``."""
    return decode(ARGUMENTS[RequestKind(row["kind"])], load(row["arguments"]))


def is_plain_cancel(arguments: Arguments) -> bool:
    """Return whether a request is a cancel without a savepoint. Pure."""
    return isinstance(arguments, CancelArguments) and arguments.savepoint is None


def asks_plain_cancel(row: Row) -> bool:
    """Return whether a row as of :func:`arguments_of` is of a plain cancel that can be read."""
    try:
        return is_plain_cancel(arguments_of(row))
    except (RegistryError, UnsupportedFormat):  # Mailbox.claim() fails such a request
        return False


@_checked("a request")
def request_of(row: Row) -> Request:
    """Return the request of a row with :data:`REQUEST_COLUMNS`."""
    values = dict(row)
    values["kind"] = RequestKind(row["kind"])
    values["state"] = RequestState(row["state"])
    values["arguments"] = arguments_of(row)
    for name in ("progress", "error"):
        values[name] = load(row[name])
    result = load(row["result"])
    values["result"] = None if result is None else decode(RequestResult, result)
    return Request(**values)


def savepoint_values(record: SavepointSummary) -> dict[str, Any]:
    """Return the statement parameters of a savepoint."""
    return {
        "path": record.path,
        "job_id": record.job_id,
        "created": record.created,
        "format": record.format,
        "bytes": record.bytes,
        "files": record.files,
        "duration": record.duration,
        "queries": dump([encode_fields(query) for query in record.queries]),
        "cause": record.trigger,  # TRIGGER is a reserved word of SQL
        "request_id": record.request_id,
        "disposed": record.disposed,
    }


@_checked("a savepoint")
def savepoint_of(row: Row) -> SavepointSummary:
    """Return the savepoint of a row with :data:`SAVEPOINT_COLUMNS`."""
    values = dict(row)
    values["trigger"] = values.pop("cause")
    values["queries"] = tuple(decode_fields(SavedQuery, each) for each in load(row["queries"]))
    return SavepointSummary(**values)


def one_place(path: str) -> str:
    """Return a recorded path in the spelling by which savepoints are compared."""
    if path.startswith("/"):
        return os.path.realpath(path)
    from flinkish.storage import one_name  # `list` starts without it

    return one_name(path) if "://" in path else path
