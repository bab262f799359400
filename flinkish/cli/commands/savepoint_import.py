"""``flinkish savepoint import PATH...``: add savepoints on storage to the registry."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.parts import error_record
from flinkish.cli.documents.savepoints import ImportDocument
from flinkish.client import catalog
from flinkish.units import counted


@command("savepoint import", exit_codes=(3, 4, 11, 15), documents=(ImportDocument,))
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
def import_savepoints(call: Call, paths: tuple[str, ...]) -> int:
    """Add savepoints to the registry: each PATH is one, or a directory of them.

    Savepoints that the registry already knows are left unchanged, so you can repeat the command
    at any time. Savepoints of unknown jobs are added too.
    """
    with call.session() as session:
        imported = catalog.import_savepoints(session, paths)
    out, entries, new = session.out, imported.entries, imported.new
    if out.json:
        document: ImportDocument = {
            "savepoints": [
                {"path": entry.path, "job_id": entry.header.job.job_id, "new": entry.path in new}
                for entry in entries
            ],
            "new": len(new),
            "failed": [
                {"path": path, "error": error_record(error)} for path, error in imported.failed
            ],
        }
        out.document(document)
    elif out.quiet:
        for path in new:
            out.line(path)
    elif entries or not imported.failed:
        already_recorded = len(entries) - len(new)
        out.line(f"Imported {counted(len(new), 'savepoint')}; {already_recorded} already known.")
    for path, error in imported.failed if len(imported.failed) > 1 else ():
        out.warning(f"{path}: {error.message}")
    if imported.failure is not None:
        raise imported.failure
    return 0
