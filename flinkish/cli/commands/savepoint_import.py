"""``flinkish savepoint import PATH...``: add savepoints on storage to the registry."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.client.catalog import find_savepoints, register
from flinkish.errors import PartialFailure


@command("savepoint import", exit_codes=(3, 4, 11, 15))
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
def import_savepoints(call: Call, paths: tuple[str, ...]) -> int:
    """Add savepoints to the registry: each PATH is one, or a directory of them.

    Savepoints that the registry already knows are left unchanged, so you can repeat the command
    at any time. Savepoints of unknown jobs are added too.
    """
    entries, failed = find_savepoints(paths)
    with call.session() as session:
        new = register(session, entries)
        out = session.out
        if out.json:
            out.document(
                {
                    "savepoints": [
                        {
                            "path": entry.path,
                            "job_id": entry.header.job.job_id,
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
            out.line(f"Imported {len(new)} savepoints, {known} were already known.")
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
