"""``flinkish savepoint import PATH...``: put savepoints on storage into the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from flinkish.cli.base import Call, command
from flinkish.errors import FlinkishError, PartialFailure, SavepointNotFound
from flinkish.jobs.model import SavepointRecord
from flinkish.jobs.registry import Registry

if TYPE_CHECKING:
    from flinkish.savepoint.catalog import Entry


@command("savepoint import", exit_codes=(3, 4, 11, 15))
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
def import_savepoints(call: Call, paths: tuple[str, ...]) -> int:
    """Put savepoints into the registry: each PATH is one, or a directory of them.

    What the registry knows already stays as it is, so it can be done again at any time. Savepoints
    of jobs that the registry does not know are taken too.
    """
    entries: list[Entry] = []
    failed: list[tuple[str, FlinkishError]] = []
    for path in paths:
        found, trouble = _find(path)
        entries += found
        failed += trouble
    with call.session() as session:
        new = _register(session.registry, entries)
        out = session.out
        if out.json:
            out.document(
                {
                    "savepoints": [
                        {
                            "path": entry.path,
                            "job_id": entry.header.job_id,
                            "new": entry.path in new,
                        }
                        for entry in entries
                    ],
                    "new": len(new),
                    "failed": [{"path": p, "error": e.to_record()} for p, e in failed],
                }
            )
        elif out.quiet:
            for path in new:
                out.line(path)
        else:
            known = len(entries) - len(new)
            out.line(f"Imported {len(new)} savepoints, {known} were known already.")
        if not failed:
            return 0
        for path, error in failed if len(failed) > 1 else ():
            out.warning(f"{path}: {error.message}")
    if not entries and len(failed) == 1:
        raise failed[0][1]
    raise PartialFailure(
        f"{len(failed)} could not be imported: {failed[0][0]}: {failed[0][1].message}",
        hint=failed[0][1].hint,
    )


def _find(path: str) -> tuple[Sequence[Entry], list[tuple[str, FlinkishError]]]:
    """The savepoint at ``path``, or those below it; and what is there and cannot be read."""
    from flinkish.savepoint.catalog import read_catalog, read_paths
    from flinkish.savepoint.reader import savepoint_directory

    try:
        directory = savepoint_directory(path)
        found = read_paths([directory], whole=True)
        if found.missing:
            found = read_catalog(directory)
    except FlinkishError as error:
        return (), [(path, error)]
    failed = [(each.path, each.error) for each in found.unreadable]
    if not found.savepoints and not failed:
        failed = [(path, SavepointNotFound(f"there is no savepoint at {path} or below", path=path))]
    return found.savepoints, failed


def _register(registry: Registry, entries: Sequence[Entry]) -> list[str]:
    """Add those that the registry does not know, or takes for disposed; returns their paths."""
    known = {record.path for record in registry.savepoints()}
    new = []
    for entry in entries:
        if entry.path not in known:
            registry.add_savepoint(_record(entry))
            known.add(entry.path)
            new.append(entry.path)
    return new


def _record(entry: Entry) -> SavepointRecord:
    header = entry.header
    return SavepointRecord(
        path=entry.path,
        job_id=header.job_id,
        created=header.created,
        format=header.format,
        bytes=entry.bytes,
        files=entry.files,
        duration=0.0,  # nothing tells how long it took
        queries=tuple(
            {"name": query.name, "batch_id": query.batch_id, "query_id": query.query_id}
            for query in entry.queries
        ),
        trigger=header.trigger,
    )
