"""``flinkish status JOB``: one job in full."""

from __future__ import annotations

import sys
import time

import click

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
from flinkish.cli.output.live import Draw, redrawn
from flinkish.cli.output.printer import Output
from flinkish.cli.output.status_text import render
from flinkish.cli.output.streams import flush
from flinkish.cli.output.text import iso_time, known_time, terminal_width
from flinkish.client.listing import JobDescription, describe_job
from flinkish.errors import UsageError
from flinkish.launch.restart_strategy import name_of
from flinkish.launch.secret_settings import shown_arguments
from flinkish.messages.requests import SavepointSummary
from flinkish.messages.upgrades import Upgrade
from flinkish.registry.jobs import JobStateChange, ProcessRef, Request


@command("status", exit_codes=(10,), documents=(StatusDocument,))
@job_argument
@click.option("--watch", is_flag=True, help="Redraw every second until the job ends, or Ctrl-C.")
def status(call: Call, job: str, watch: bool) -> int:
    """Show one job in full: its states, queries, operators, savepoints and requests.

    On a terminal, names and paths are shortened and columns omitted to fit the width.
    """
    if watch and call.out.json:
        raise UsageError("--watch and --json are mutually exclusive", hint="use only one of them")
    with redrawn(watch) as draw:
        while True:
            with call.session() as session:
                record = session.find_job(job, include_final=True)
                job = record.job_id  # a name may mean another job later
                _show(session.out, describe_job(session.registry, record), draw)
            if not watch or record.state.is_final:
                return 0
            flush(sys.stdout)
            time.sleep(REDRAW)


def _show(out: Output, description: JobDescription, draw: Draw | None) -> None:
    if out.json:
        document: StatusDocument = {"job": job_document(description)}
        out.document(document)
        return
    width = terminal_width(sys.stdout)
    lines = [description.job.state.value] if out.quiet else render(description, width)
    if draw is not None:
        draw(lines)
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
        "restart_strategy": name_of(job.launch),
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


def _change(change: JobStateChange) -> JobStateEntry:
    return {
        "state": change.state,
        "time": iso_time(change.time),
        "reason": change.reason,
    }


def _process(ref: ProcessRef | None) -> Process | None:
    return {"host": ref.host, "pid": ref.pid} if ref else None
