"""Upgrades and rehearsals as JSON data and as tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flinkish.cli.documents.programs import RehearseDocument, RehearsedQueryRecord
from flinkish.cli.documents.upgrades import UpgradeDocument
from flinkish.cli.output.printer import Output
from flinkish.cli.output.text import iso_time, known_time, local_time
from flinkish.client.rehearsal import RehearsalResult
from flinkish.messages.rehearsals import RehearsedQuery
from flinkish.messages.upgrades import Upgrade
from flinkish.units import table


def document(upgrade: Upgrade) -> UpgradeDocument:
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


def upgrade_row(upgrade: Upgrade) -> tuple[str, str, str, str]:
    """Return an upgrade as a row: when, its state, its id, why it was given up."""
    reason = str((upgrade.failure or {}).get("message") or "")
    return local_time(upgrade.created), upgrade.state.value, upgrade.upgrade_id, reason


def show(out: Output, done: RehearsalResult) -> None:
    """Show what became of a rehearsal: a row for each query."""
    if out.json:
        rehearsed: RehearseDocument = {
            "queries": [_document(query, done) for query in done.queries],
            "warnings": list(done.warnings),
        }
        out.document(rehearsed)
        return
    if out.quiet:
        return
    head = ("QUERY", "BATCHES", "ROWS IN", "ROWS OUT", "STATE ROWS", "ROWS/S", "JOB'S ROWS/S")
    rows = [tuple(_row(query, done)) for query in done.queries]
    for line in table(head, rows, right="123456"):
        out.line(line)
    for warning in done.warnings:
        out.warning(warning)


def _row(query: RehearsedQuery, done: RehearsalResult) -> Iterator[str]:
    states = [batch.state_rows for batch in query.batches if batch.state_rows is not None]
    before = done.before.get(query.name)
    rate = query.rows_per_second
    yield query.name
    yield str(len(query.batches))
    yield f"{query.input_rows:,}"
    yield "-" if query.output_rows is None else f"{query.output_rows:,}"
    yield "-" if not states else f"{states[-1]:,} ({states[-1] - states[0]:+,})"
    yield "-" if rate is None else f"{rate:,.0f}"
    yield "-" if before is None else f"{before:,.0f}"


def _document(query: RehearsedQuery, done: RehearsalResult) -> RehearsedQueryRecord:
    return {
        "name": query.name,
        "restored_batch": query.restored_batch,
        "batches": list(query.batches),
        "error": query.error,
        "failed_batch": query.failed_batch,
        "late": query.late,
        "rows_per_second": query.rows_per_second,
        "job_rows_per_second": done.before.get(query.name),
    }
