"""``flinkish status JOB``: one job in full."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from flinkish import __version__
from flinkish.cli.base import Call, command
from flinkish.cli.commands.list import REDRAW
from flinkish.cli.documents.jobs import (
    JobDescriptionRecord,
    JobStateEntry,
    Process,
    RecordedSavepoint,
    StatusDocument,
)
from flinkish.cli.documents.requests import RequestRecord
from flinkish.cli.documents.upgrades import UpgradeDocument
from flinkish.cli.options.arguments import job_argument
from flinkish.cli.output.printer import Output, is_terminal
from flinkish.cli.output.text import folded, iso_time, known_time, local_time, terminal_width
from flinkish.client.listing import JobDescription, describe_job
from flinkish.config import mask_secrets
from flinkish.errors import UsageError, with_job
from flinkish.launch.restart_strategy import name_of
from flinkish.launch.secret_settings import shown_arguments
from flinkish.messages.launch import ExternalLauncher
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.messages.upgrades import Upgrade
from flinkish.registry.jobs import JobRecord, JobStateChange, ProcessRef, Request
from flinkish.restore.plan.plan_text import of_query
from flinkish.units import shortened, size_text, table, visible, width_of


@command("status", exit_codes=(10,), documents=(StatusDocument,))
@job_argument
@click.option("--watch", is_flag=True, help="Redraw every second until the job ends, or Ctrl-C.")
def status(call: Call, job: str, watch: bool) -> int:
    """Show one job in full: its states, queries, operators, savepoints and requests.

    On a terminal, names and paths are shortened and columns omitted to fit the width.
    """
    if watch and call.out.json:
        raise UsageError("--watch and --json are mutually exclusive", hint="use only one of them")
    while True:
        with call.session() as session:
            record = session.find_job(job, include_final=True)
            job = record.job_id  # a name may mean another job later
            description = describe_job(session.registry, record)
            _show(session.out, description, drawn=watch and is_terminal(sys.stdout))
        if not watch or record.state.is_final:
            return 0
        sys.stdout.flush()
        time.sleep(REDRAW)


def _show(out: Output, description: JobDescription, *, drawn: bool) -> None:
    if out.json:
        document: StatusDocument = {"job": job_document(description)}
        out.document(document)
        return
    width = terminal_width(sys.stdout)
    lines = [description.job.state.value] if out.quiet else render(description, width)
    if drawn:
        out.screen(lines)
        return
    for line in lines:
        out.line(line)


def job_document(description: JobDescription) -> JobDescriptionRecord:
    """Return a job as JSON data, as ``status --json`` shows it."""
    job = description.job
    return {
        "job_id": job.job_id,
        "name": job.name,
        "state": job.state,
        "start_time": iso_time(job.start_time),
        "end_time": known_time(job.end_time),
        "state_history": [_change(change) for change in description.history],
        "restart_strategy": name_of(job.launch.options),
        "restarts": [
            {"time": iso_time(change.time), "reason": change.reason}
            for change in description.restarts
        ],
        "spark_version": job.spark_version,
        "application_id": job.application_id,
        "launcher": "flinkish" if job.launch.external is None else "external",
        "external_launcher": job.launch.external,
        "program": job.launch.application or job.launch.module,
        "arguments": list(shown_arguments(job.launch)),
        "master": job.launch.master,
        "restored_from": (job.launch.restore.path or None) if job.launch.restore else None,
        "checkpoint_dir": job.checkpoint_dir,
        "log_path": job.log_path,
        "heartbeat": known_time(job.heartbeat),
        "supervisor": _process(job.supervisor),
        "driver": _process(job.driver),
        "exit_status": job.exit_status,
        "failure": job.failure,
        "queries": list(description.queries),
        "savepoints": [savepoint_document(s) for s in description.savepoints],
        "requests": [request_document(request) for request in description.requests],
        "upgrades": [upgrade_document(upgrade) for upgrade in description.upgrades],
    }


def _external_text(launcher: ExternalLauncher | None) -> str | None:
    if launcher is None:
        return None
    other = "" if launcher.agent == __version__ else f", with flinkish {launcher.agent}"
    return f"external ({launcher.name}{other})"


def savepoint_document(record: SavepointSummary) -> RecordedSavepoint:
    """Return a savepoint of the registry as JSON data."""
    return {
        "path": record.path,
        "created": iso_time(record.created),
        "format": record.format,
        "trigger": record.trigger,
        "bytes": record.bytes,
        "files": record.files,
        "duration": record.duration,
        "queries": list(record.queries),
        "request_id": record.request_id,
    }


def upgrade_document(upgrade: Upgrade) -> UpgradeDocument:
    """Return an upgrade as JSON data. Pure."""
    return {
        "upgrade_id": upgrade.upgrade_id,
        "kind": upgrade.kind,
        "state": upgrade.state,
        "job_id": upgrade.job_id,
        "name": upgrade.name,
        "created": iso_time(upgrade.created),
        "ended": known_time(upgrade.ended),
        "savepoint": upgrade.savepoint,
        "old_savepoint": upgrade.old_savepoint,
        "new_job_id": upgrade.new_job_id,
        "old_again_id": upgrade.old_again_id,
        "failure": None if upgrade.failure is None else dict(upgrade.failure),
        "committed": {name: list(batches) for name, batches in upgrade.committed.items()},
    }


def request_document(request: Request) -> RequestRecord:
    """Return a request as JSON data."""
    return {
        "request_id": request.request_id,
        "job_id": request.job_id,
        "kind": request.kind,
        "state": request.state,
        "created": iso_time(request.created),
        "started": known_time(request.started),
        "finished": known_time(request.finished),
        "requester": request.requester,
        "arguments": request.arguments,
        "progress": request.progress,
        "result": request.result,
        "error": request.error,
    }


def render(description: JobDescription, width: int | None = None) -> list[str]:
    """Return a job as lines for people, at most ``width`` columns wide. Pure."""
    job = description.job
    lines = [_title(job, width), ""]
    facts = {
        "program": " ".join([job.launch.application or f"-m {job.launch.module}"]),
        "launcher": _external_text(job.launch.external),
        "started": local_time(job.start_time),
        "ended": local_time(job.end_time) if job.end_time else None,
        "spark": job.spark_version,
        "application": job.application_id,
        "restored from": (job.launch.restore.path or None) if job.launch.restore else None,
        "checkpoints": job.checkpoint_dir,
        "log": job.log_path,
        "restarts": _restarts(description.restarts),
        "exit status": None if job.exit_status is None else str(job.exit_status),
    }
    indent = max(len(name) for name in facts) + 2
    for name, value in facts.items():
        if value:
            lines += _fact(name.ljust(indent), value, width)
    if job.failure:
        failure = [f"failure ({job.failure.get('id')}): {job.failure.get('message')}"]
        failure += [f"  {line}" for line in job.failure.get("tail") or ()]
        if job.failure.get("hint"):
            failure.append(f"hint: {with_job(str(job.failure['hint']), job.job_id)}")
        lines += ["", *_sentences(failure, width)]
    lines += ["", "STATES"]
    for change in description.history:
        reason = f"  {change.reason}" if change.reason else ""
        state = f"  {local_time(change.time)}  {change.state.value}{reason}"
        lines += _sentences([state], width)
    queries = description.queries
    inner = None if width is None else width - 2
    if queries:
        lines += ["", "QUERIES", *_indented(_query_table(queries, inner))]
    operators = [(query.name, op) for query in queries for op in query.operators]
    if operators:
        rows = [
            (name, str(op.ordinal), op.kind, op.uid or "-", _number(op.rows))
            for name, op in operators
        ]
        head = ("QUERY", "ORDINAL", "OPERATOR", "UID", "ROWS")
        drawn = table(head, rows, right="14", width=inner, flexible={0: 8, 2: 10}, optional=(1,))
        lines += ["", "STATEFUL OPERATORS", *_indented(drawn)]
    notes = [
        f"  {of_query(query.name, note, len(queries))}" for query in queries for note in query.notes
    ]
    if notes:
        lines += ["", "NOTES", *_sentences(notes, width)]
    if description.savepoints:
        rows_ = [
            (
                local_time(s.created),
                s.trigger,
                size_text(s.bytes),
                str(s.files),
                mask_secrets(s.path),
            )
            for s in description.savepoints
        ]
        head_ = ("TAKEN", "BY", "SIZE", "FILES", "PATH")
        drawn = table(head_, rows_, right="23", width=inner, flexible={4: 24}, optional=(3, 1))
        lines += ["", "SAVEPOINTS", *_indented(drawn)]
    if description.requests:
        drawn = _request_table(description.requests, inner)
        lines += ["", "REQUESTS", *_indented(drawn)]
    upgrades = [upgrade_row(upgrade) for upgrade in description.upgrades]
    if upgrades:
        drawn = table(("BEGUN", "STATE", "UPGRADE ID", ""), upgrades, width=inner, flexible={3: 8})
        lines += ["", "UPGRADES", *_indented(drawn)]
    return [mask_secrets(line) for line in lines]


def _title(job: JobRecord, width: int | None) -> str:
    rest = f"  {job.job_id}  {job.state.value}"
    name = visible(job.name)
    return (name if width is None else shortened(name, max(width - len(rest), 8))) + rest


def _fact(title: str, value: str, width: int | None) -> list[str]:
    """Return a fact as lines: a path is shortened to fit, a sentence is wrapped."""
    text = visible(mask_secrets(value))
    if width is None or width_of(title + text) <= width:
        return [title + text]
    if "/" in text and " " not in text:
        return [title + shortened(text, max(width - len(title), 8))]
    return folded(title + text, width, " " * len(title))


def _sentences(lines: Sequence[str], width: int | None) -> list[str]:
    """Return lines, wrapped and indented where they do not fit."""
    return [part for line in lines for part in folded(mask_secrets(line), width, indent=" " * 4)]


def _query_table(queries: Sequence[QueryStatus], width: int | None) -> list[str]:
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
    # An id is whole or not there: --json has it.
    return table(head, rows, right="2456", width=width, flexible={0: 8}, optional=(7, 5, 4))


def _request_table(requests: Sequence[Request], width: int | None) -> list[str]:
    head = ("CREATED", "KIND", "STATE", "REQUEST ID", "")
    rows = [
        (
            local_time(request.created),
            request.kind.value,
            request.state.value,
            request.request_id,
            mask_secrets(str((request.error or {}).get("message") or "")),
        )
        for request in requests
    ]
    lines = table(head, rows)
    if width is None or all(width_of(line) <= width for line in lines):
        return lines
    # The messages go below the rows.
    first, *lines = table(head[:4], [row[:4] for row in rows])
    folded_lines = [first]
    for line, row in zip(lines, rows, strict=True):
        folded_lines += [line, *(folded(f"    {row[4]}", width, " " * 4) if row[4] else [])]
    return folded_lines


def _restarts(changes: Sequence[JobStateChange]) -> str | None:
    """Return how often a job was started again, and why the last time; None if it never was."""
    return f"{len(changes)}; the last: {changes[-1].reason}" if changes else None


def _change(change: JobStateChange) -> JobStateEntry:
    return {
        "state": change.state,
        "time": iso_time(change.time),
        "reason": change.reason,
    }


def _process(ref: ProcessRef | None) -> Process | None:
    return {"host": ref.host, "pid": ref.pid} if ref else None


def _indented(lines: list[str]) -> list[str]:
    return ["  " + line for line in lines]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def upgrade_row(upgrade: Upgrade) -> tuple[str, str, str, str]:
    """Return an upgrade as a row: when, its state, its id, why it was given up."""
    reason = str((upgrade.failure or {}).get("message") or "")
    return local_time(upgrade.created), upgrade.state.value, upgrade.upgrade_id, reason
