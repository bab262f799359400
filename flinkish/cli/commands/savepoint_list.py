"""``flinkish savepoint list [DIR]``: the savepoints in a directory or in the registry."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.savepoints import ListedSavepoint, SavepointListDocument
from flinkish.cli.output.text import fitting_time, known_time, terminal_width, utc_time
from flinkish.client.catalog import Listed, list_directory, list_registry, state_of
from flinkish.client.requests import SAVEPOINT_DIR
from flinkish.errors import FlinkishError, UsageError, quoted_path
from flinkish.units import size_text, table

if TYPE_CHECKING:
    from flinkish.messages.requests import SavepointSummary
    from flinkish.savepoint.directory.catalog import CatalogEntry


@command("savepoint list", exit_codes=(11,), documents=(SavepointListDocument,))
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path())
@click.option("--registry", "registry", is_flag=True, help="List the registry's savepoints.")
def list_savepoints(call: Call, directory: str | None, registry: bool) -> int:
    """List the savepoints directly in a directory, newest first.

    DIR defaults to execution.checkpointing.savepoint-dir; if that is not set, the registry's
    savepoints are listed. Times are those in the savepoints' metadata, in UTC. Damaged
    savepoints are detected by the sizes of their files (verify reads the files).
    """
    if directory is not None and registry:
        raise UsageError(
            "DIR and --registry are mutually exclusive",
            hint="flinkish savepoint list DIR, or flinkish savepoint list --registry",
        )
    with call.session() as session:
        where = None if registry else directory or session.config.get(SAVEPOINT_DIR)
        if where is None:
            listed = list_registry(session)
            session.warn_of_absent_registry()
        else:
            listed = list_directory(where, must_exist=directory is not None)
        rows, notice = _rows(listed), _unfinished(listed)
        out = session.out
        if out.json:
            for text in listed.warnings:
                out.warning(text)
            write = session.document if where is None else out.document
            document: SavepointListDocument = {"savepoints": [_document(row) for row in rows]}
            write(document)
        elif out.quiet:
            for row in rows:
                if row["state"] == "complete":
                    out.line(row["path"])
        elif rows:
            for line in render(rows, terminal_width(sys.stdout)):
                out.line(line)
        else:
            out.note(f"No savepoints in {where or 'the registry'}.")
        for row in rows:
            if row["error"] is not None:
                out.note(f"{row['path']}: {row['error']['message']}")
        for text in () if out.json else listed.warnings:
            out.warning(text)
        if notice:
            out.note(notice)
    return 0


def _unfinished(listed: Listed) -> str:
    count = len(listed.catalog.unfinished)
    return (
        f"{count} unfinished or disposed "
        f"{'savepoints are' if count > 1 else 'savepoint is'} not shown; to remove those "
        "that nobody is writing, run: flinkish savepoint prune --garbage "
        f"{quoted_path(listed.location)}"
        if count
        else ""
    )


def _rows(listed: Listed) -> list[dict[str, Any]]:
    """Return the savepoints found on storage, and recorded savepoints that are gone."""
    catalog = listed.catalog
    rows = [_found(entry, listed.damage.get(entry.path)) for entry in catalog.savepoints]
    rows += [_row(each.path, state_of(each.error), each.error) for each in catalog.unreadable]
    if not listed.gone:
        return rows
    rows += [_gone(record) for record in listed.gone]
    return sorted(rows, key=lambda row: (-(row["created"] or 0), row["path"]))


def _gone(record: SavepointSummary) -> dict[str, Any]:
    return {
        **_row(record.path, "missing"),
        "job_id": record.job_id,
        "created": record.created,
        "trigger": record.trigger,
        "format": record.format,
        "queries": {query.name: query.batch_id for query in record.queries},
        "files": record.files,
        "bytes": record.bytes,
    }


def _row(path: str, state: str, error: FlinkishError | None = None) -> dict[str, Any]:
    return {
        "path": path,
        "state": state,
        "leads_to": None,
        "job_id": None,
        "job_name": None,
        "created": None,
        "trigger": None,
        "spark_version": None,
        "flinkish_version": None,
        "format": None,
        "queries": {},
        "files": None,
        "bytes": None,
        "error": error.to_record() if error is not None else None,
    }


def _found(entry: CatalogEntry, damage: FlinkishError | None) -> dict[str, Any]:
    header = entry.header
    state = state_of(damage)
    return {
        **_row(entry.path, state if entry.leads_to is None else "link", damage),
        "leads_to": entry.leads_to,
        "job_id": header.job.job_id,
        "job_name": header.job.name,
        "created": header.created,
        "trigger": header.trigger,
        "spark_version": header.job.spark_version,
        "flinkish_version": header.job.flinkish_version,
        "format": header.format,
        "queries": {query.name: query.batch_id for query in entry.queries},
        "files": entry.files,
        "bytes": entry.bytes,
    }


def _document(row: Mapping[str, Any]) -> ListedSavepoint:
    queries = [{"name": name, "batch_id": batch} for name, batch in row["queries"].items()]
    document = {**row, "created": known_time(row["created"]), "queries": queries}
    return cast(ListedSavepoint, document)


def render(rows: list[dict[str, Any]], width: int | None = None) -> list[str]:
    """Return the savepoints as a table for people that fits ``width`` characters. Pure."""
    head = ("CREATED (UTC)", "JOB", "NAME", "BY", "SPARK", "QUERIES", "SIZE", "STATE", "PATH")
    cells = [_cells(row, width) for row in rows]
    flexible = {2: 8, 5: 10, 8: 24}
    return table(head, cells, right="6", width=width, flexible=flexible, optional=(4, 3, 5))


def _cells(row: Mapping[str, Any], width: int | None) -> tuple[str, ...]:
    queries = ", ".join(f"{name} at {batch}" for name, batch in row["queries"].items())
    return (
        fitting_time(utc_time(row["created"]), width),
        (row["job_id"] or "-")[:6],
        row["job_name"] or "-",
        row["trigger"] or "-",
        row["spark_version"] or "-",
        queries or "-",
        "-" if row["bytes"] is None else size_text(row["bytes"]),
        row["state"] if row["format"] != "canonical" else f"{row['state']}, canonical",
        row["path"] if row["leads_to"] is None else f"{row['path']} -> {row['leads_to']}",
    )
