"""``flinkish savepoint unlock [DIR]``: show a directory's locks, and remove stale locks."""

from __future__ import annotations

import sys
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.savepoints import Lock, UnlockDocument
from flinkish.cli.output.printer import Output
from flinkish.cli.output.text import iso_time, known_time, local_time
from flinkish.client import locks
from flinkish.errors import ConsentNeeded
from flinkish.units import counted, table

if TYPE_CHECKING:
    from flinkish.savepoint.directory.leases import FoundLease


@command("savepoint unlock", exit_codes=(5, 11), documents=(UnlockDocument,))
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path())
@click.option(
    "--force",
    is_flag=True,
    help="Also remove locks whose owner may be alive; asks for confirmation.",
)
@click.option("--yes", is_flag=True, help="With --force: do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
def unlock(call: Call, directory: str | None, force: bool, yes: bool, dry_run: bool) -> int:
    """Show who holds locks on a directory of savepoints, and remove stale locks.

    DIR defaults to execution.checkpointing.savepoint-dir. Owners refresh their locks while they
    are alive; this command, or the next savepoint, removes locks that are no longer refreshed.
    --force also removes damaged locks, foreign files among the locks, and the locks of living
    owners, whose savepoints may then be damaged.
    """
    with call.session() as session:
        held = locks.unlock(
            session,
            directory,
            force=force,
            dry_run=dry_run,
            agree=None if yes else partial(_ask, session.out),
        )
        location, leases, stale, chosen = held.directory, held.found, held.stale, held.chosen
        gone = {each.name for each in chosen}
        out = session.out
        if out.json:
            document: UnlockDocument = {
                "directory": location,
                "dry_run": dry_run,
                "leases": [_document(each, stale, gone, dry_run) for each in leases],
            }
            out.document(document)
            return 0
        if out.quiet:
            for each in chosen:
                out.line(each.name)
        elif not leases:
            out.line(f"Nobody holds {location}.")
        else:
            for line in _render(leases, stale, gone, dry_run):
                out.line(line)
        for each in leases:
            if each.damage is not None:
                is_gone = each.name in gone and not dry_run
                out.warning(locks.damage_text(held, each, gone=is_gone))
    return 0


def _document(
    lease: FoundLease, stale: Collection[str], gone: Collection[str], dry_run: bool
) -> Lock:
    record = lease.record
    kind = lease.kind if record is None else record.kind
    return {
        "lease_id": lease.name,
        "kind": None if kind is None else kind.value,
        "job_id": None if record is None else record.job_id,
        "owner": None if record is None else record.owner,
        "host": None if record is None else record.host,
        "pid": None if record is None else record.pid,
        "created": None if record is None else iso_time(record.created),
        "refreshed": known_time(lease.modified if record is None else record.refreshed),
        "path": None if record is None else record.path,
        "damage": lease.damage,
        "stale": lease.name in stale,
        "removed": lease.name in gone and not dry_run,
    }


def _render(
    leases: tuple[FoundLease, ...], stale: Collection[str], gone: Collection[str], dry_run: bool
) -> list[str]:
    removed = "would be removed" if dry_run else "removed"
    rows = []
    for each in leases:
        record = each.record
        ends = removed if each.name in gone else "stays"
        if record is None:
            kind = each.kind.value if each.kind else "-"
            written = local_time(each.modified)
            rows.append((kind, "-", each.name, "-", "-", written, "damaged", ends))
            continue
        rows.append(
            (
                record.kind.value,
                (record.job_id or "-")[:6],
                f"{record.owner} on {record.host}",
                str(record.pid),
                local_time(record.created),
                local_time(record.refreshed),
                "stale" if each.name in stale else "alive",
                ends,
            )
        )
    head = ("FOR", "JOB", "OWNER", "PID", "SINCE", "REFRESHED", "STATE", "")
    return table(head, rows, right="3")


def _ask(out: Output, held: locks.Locks) -> None:
    location, alive = held.directory, held.alive
    names = ", ".join(
        f"the damaged {each.name}"
        if each.record is None
        else f"{each.record.owner} on {each.record.host}"
        for each in alive
    )
    what = f"{counted(len(alive), 'lock')} of {location} whose owners may be active ({names})"
    refused = ConsentNeeded(
        f"removing {what} needs confirmation",
        hint="use --yes, or omit --force to remove only stale locks",
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise refused
    if not out.ask(f"Remove {what}?"):
        raise refused
