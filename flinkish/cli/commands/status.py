"""``flinkish status JOB``: one job in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flinkish.cli.base import Call, command
from flinkish.cli.options.arguments import job_argument
from flinkish.cli.output.text import iso_time, local_time, size_text, table
from flinkish.cli.session import Session
from flinkish.config import mask_secrets
from flinkish.launch.restart_strategy import name_of
from flinkish.launch.secret_settings import shown_arguments
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    JobStateChange,
    ProcessRef,
    QueryStatus,
    Request,
    SavepointRecord,
)
from flinkish.spec.codec import encode_fields


@command("status", exit_codes=(10,))
@job_argument
def status(call: Call, job: str) -> int:
    """Show one job in full: its states, queries, operators, savepoints and requests."""
    with call.session() as session:
        found = session.find_job(job, include_final=True)
        out = session.out
        if out.quiet and not out.json:
            out.line(found.state.value)
        elif out.json:
            out.document({"job": describe(session, found)})
        else:
            for line in render(session, found):
                out.line(line)
    return 0


def describe(session: Session, job: JobRecord) -> dict[str, Any]:
    """Return the job as ``status --json`` shows it."""
    registry = session.registry
    return {
        "job_id": job.job_id,
        "name": job.name,
        "state": job.state.value,
        "start_time": iso_time(job.start_time),
        "end_time": iso_time(job.end_time),
        "state_history": [_change(change) for change in _history(session, job)],
        "restart_strategy": name_of(job.launch.options),
        "restarts": [
            {"time": iso_time(change.time), "reason": change.reason}
            for change in registry.state_history(job.job_id)
            if change.state is JobState.RESTARTING
        ],
        "spark_version": job.spark_version,
        "application_id": job.application_id,
        "program": job.launch.application or job.launch.module,
        "arguments": list(shown_arguments(job.launch)),
        "master": job.launch.master,
        "restored_from": job.launch.restore.path if job.launch.restore else None,
        "checkpoint_dir": job.checkpoint_dir,
        "log_path": job.log_path,
        "heartbeat": iso_time(job.heartbeat),
        "supervisor": _process(job.supervisor),
        "driver": _process(job.driver),
        "exit_status": job.exit_status,
        "failure": job.failure,
        "queries": [query_document(query) for query in registry.queries(job.job_id)],
        "savepoints": [savepoint_document(s) for s in registry.savepoints(job.job_id)],
        "requests": [request_document(request) for request in registry.requests(job.job_id)],
    }


def query_document(query: QueryStatus) -> dict[str, Any]:
    """Return a query as JSON data: everything that its driver last reported."""
    return encode_fields(query)


def savepoint_document(record: SavepointRecord) -> dict[str, Any]:
    """Return a savepoint of the registry as JSON data."""
    return {
        "path": record.path,
        "created": iso_time(record.created),
        "format": record.format,
        "trigger": record.trigger,
        "bytes": record.bytes,
        "files": record.files,
        "duration": record.duration,
        "queries": [dict(query) for query in record.queries],
        "request_id": record.request_id,
    }


def request_document(request: Request) -> dict[str, Any]:
    """Return a request as JSON data."""
    return {
        "request_id": request.request_id,
        "job_id": request.job_id,
        "kind": request.kind.value,
        "state": request.state.value,
        "created": iso_time(request.created),
        "started": iso_time(request.started),
        "finished": iso_time(request.finished),
        "requester": request.requester,
        "arguments": encode_fields(request.arguments),
        "progress": request.progress,
        "result": None if request.result is None else encode_fields(request.result),
        "error": request.error,
    }


def render(session: Session, job: JobRecord) -> list[str]:
    """Return the job as lines for people."""
    registry = session.registry
    lines = [f"{job.name}  {job.job_id}  {job.state.value}", ""]
    facts = {
        "program": " ".join([job.launch.application or f"-m {job.launch.module}"]),
        "started": local_time(job.start_time),
        "ended": local_time(job.end_time) if job.end_time else None,
        "spark": job.spark_version,
        "application": job.application_id,
        "restored from": job.launch.restore.path if job.launch.restore else None,
        "checkpoints": job.checkpoint_dir,
        "log": job.log_path,
        "restarts": _restarts(registry.state_history(job.job_id)),
        "exit status": None if job.exit_status is None else str(job.exit_status),
    }
    width = max(len(name) for name in facts)
    lines += [f"{name.ljust(width)}  {value}" for name, value in facts.items() if value]
    if job.failure:
        lines += ["", f"failure ({job.failure.get('id')}): {job.failure.get('message')}"]
        lines += [f"  {line}" for line in job.failure.get("tail") or ()]
        if job.failure.get("hint"):
            lines.append(f"hint: {job.failure['hint']}".replace(" JOB", f" {job.job_id}"))
    lines += ["", "STATES"]
    for change in _history(session, job):
        reason = f"  {change.reason}" if change.reason else ""
        lines.append(f"  {local_time(change.time)}  {change.state.value}{reason}")
    queries = registry.queries(job.job_id)
    if queries:
        lines += ["", "QUERIES", *_indented(_query_table(queries))]
    operators = [(query.name, op) for query in queries for op in query.operators]
    if operators:
        rows = [
            (name, str(op.ordinal), op.kind, op.uid or "-", _number(op.rows))
            for name, op in operators
        ]
        head = ("QUERY", "ORDINAL", "OPERATOR", "UID", "ROWS")
        lines += ["", "STATEFUL OPERATORS", *_indented(table(head, rows, right="14"))]
    notes = [note for query in queries for note in query.notes]
    if notes:
        lines += ["", "NOTES", *_indented(notes)]
    savepoints = registry.savepoints(job.job_id)
    if savepoints:
        rows_ = [
            (local_time(s.created), s.trigger, size_text(s.bytes), str(s.files), s.path)
            for s in savepoints
        ]
        head_ = ("TAKEN", "BY", "SIZE", "FILES", "PATH")
        lines += ["", "SAVEPOINTS", *_indented(table(head_, rows_, right="23"))]
    requests = registry.requests(job.job_id)
    if requests:
        lines += ["", "REQUESTS", *_indented(_request_table(requests))]
    return [mask_secrets(line) for line in lines]


def _query_table(queries: list[QueryStatus]) -> list[str]:
    rows = [
        (
            query.name,
            "running" if query.active else ("failed" if query.error else "ended"),
            _number(query.batch_id),
            query.watermark or "-",
            _rate(query.input_rows_per_second),
            _rate(query.processed_rows_per_second),
            _number(query.state_rows),
            query.query_id,
        )
        for query in queries
    ]
    head = ("NAME", "STATE", "BATCH", "WATERMARK", "IN/S", "DONE/S", "STATE ROWS", "QUERY ID")
    return table(head, rows, right="2456")


def _request_table(requests: list[Request]) -> list[str]:
    rows = [
        (
            local_time(request.created),
            request.kind.value,
            request.state.value,
            request.request_id,
            str((request.error or {}).get("message") or ""),
        )
        for request in requests
    ]
    return table(("CREATED", "KIND", "STATE", "REQUEST ID", ""), rows)


def _history(session: Session, job: JobRecord) -> list[JobStateChange]:
    """Return the recorded states, and the state that a read-only registry could not record."""
    history = session.registry.state_history(job.job_id)
    if history and history[-1].state is not job.state:
        reason = str((job.failure or {}).get("message") or "")
        history.append(JobStateChange(job.state, job.end_time or job.start_time, reason or None))
    return history


def _restarts(history: Sequence[JobStateChange]) -> str | None:
    """Return how often a job was started again, and why the last time; None if it never was."""
    found = [change for change in history if change.state is JobState.RESTARTING]
    return f"{len(found)}; the last: {found[-1].reason}" if found else None


def _change(change: JobStateChange) -> dict[str, Any]:
    return {
        "state": change.state.value,
        "time": iso_time(change.time),
        "reason": change.reason,
    }


def _process(ref: ProcessRef | None) -> Mapping[str, Any] | None:
    return {"host": ref.host, "pid": ref.pid} if ref else None


def _indented(lines: list[str]) -> list[str]:
    return ["  " + line for line in lines]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
