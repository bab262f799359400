"""``flinkish savepoint unlock [DIR]``: see who is at work in a directory, remove dead locks."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.text import iso_time, local_time, table
from flinkish.errors import ConsentNeeded, NoSavepointDirectory

if TYPE_CHECKING:
    from flinkish.savepoint.leases import LeaseRecord

_SAVEPOINT_DIR = "execution.checkpointing.savepoint-dir"


@command("savepoint unlock", exit_codes=(5,))
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path())
@click.option("--force", is_flag=True, help="Remove locks whose owner may be alive, too: asks.")
@click.option("--yes", is_flag=True, help="With --force: do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
def unlock(call: Call, directory: str | None, force: bool, yes: bool, dry_run: bool) -> int:
    """Show who holds a directory of savepoints, and remove the locks of those who are gone.

    DIR defaults to execution.checkpointing.savepoint-dir. Locks are refreshed while their owner
    lives; one that is not is removed, by this command or by the next savepoint. With --force those
    of living owners go too: their savepoints may then be damaged.
    """
    from flinkish import storage
    from flinkish.savepoint import leases

    with call.session() as session:
        where = directory or session.config.get(_SAVEPOINT_DIR)
        if where is None:
            raise NoSavepointDirectory(
                f"which directory is not said, and {_SAVEPOINT_DIR} is not set",
                hint="flinkish savepoint unlock DIR",
            )
        location = storage.locate(where)
        found = leases.read_leases(location)
        stale = {record.lease_id for record in found if record.is_stale(time.time())}
        chosen = [record for record in found if force or record.lease_id in stale]
        alive = [record for record in chosen if record.lease_id not in stale]
        if alive and not (yes or dry_run):
            _ask(location, alive)
        if not dry_run:
            for record in chosen:
                leases.remove(location, record.lease_id)
            storage.remove_empty_directories([storage.join(location, leases.DIRECTORY)])
        gone = {record.lease_id for record in chosen}
        out = session.out
        if out.json:
            documents = [_document(record, stale, gone, dry_run) for record in found]
            out.document({"directory": location, "dry_run": dry_run, "leases": documents})
        elif out.quiet:
            for record in chosen:
                out.line(record.lease_id)
        elif not found:
            out.line(f"Nobody holds {location}.")
        else:
            for line in _render(found, stale, gone, dry_run):
                out.line(line)
    return 0


def _document(
    record: LeaseRecord, stale: set[str], gone: set[str], dry_run: bool
) -> dict[str, Any]:
    return {
        "lease_id": record.lease_id,
        "kind": record.kind.value,
        "job_id": record.job_id,
        "owner": record.owner,
        "host": record.host,
        "pid": record.pid,
        "created": iso_time(record.created),
        "refreshed": iso_time(record.refreshed),
        "path": record.path,
        "stale": record.lease_id in stale,
        "removed": record.lease_id in gone and not dry_run,
    }


def _render(
    found: tuple[LeaseRecord, ...], stale: set[str], gone: set[str], dry_run: bool
) -> list[str]:
    removed = "would be removed" if dry_run else "removed"
    rows = [
        (
            record.kind.value,
            (record.job_id or "-")[:6],
            f"{record.owner} on {record.host}",
            str(record.pid),
            local_time(record.created),
            local_time(record.refreshed),
            "stale" if record.lease_id in stale else "alive",
            removed if record.lease_id in gone else "stays",
        )
        for record in found
    ]
    head = ("FOR", "JOB", "OWNER", "PID", "SINCE", "REFRESHED", "STATE", "")
    return table(head, rows, right="3")


def _ask(location: str, alive: list[LeaseRecord]) -> None:
    names = ", ".join(f"{record.owner} on {record.host}" for record in alive)
    refused = ConsentNeeded(
        f"removing {len(alive)} locks of {location} whose owners may be at work ({names}) needs "
        "your agreement",
        hint="give --yes, or leave out --force to remove only the stale ones",
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise refused
    sys.stderr.write(f"Remove the locks of {names}, who may be at work in {location}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise refused
