"""``flinkish savepoint copy PATH TARGET``: copy a savepoint to another storage."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.savepoints import CopyDocument
from flinkish.cli.options.arguments import dry_run_option
from flinkish.client.savepoints import copy_savepoint
from flinkish.storage import is_local
from flinkish.units import counted, size_text


@command("savepoint copy", exit_codes=(4, 11, 12, 15, 16), documents=(CopyDocument,))
@click.argument("path", metavar="PATH", type=click.Path())
@click.argument("target", metavar="TARGET", type=click.Path())
@dry_run_option
def copy(call: Call, path: str, target: str, dry_run: bool) -> int:
    """Copy the savepoint PATH into the directory TARGET, on the same or another storage.

    The copy has the same name and is whole, even if PATH uses files of other savepoints. Every
    file must have its recorded digest. Files that are in TARGET already are not sent again, so
    you can repeat the command after an interruption. An incomplete copy is not a savepoint.
    """
    with call.session() as session, session.reporter.live():
        copied = copy_savepoint(session, path, target, dry_run=dry_run)
    out = call.out
    if out.json:
        document: CopyDocument = {"dry_run": dry_run, "copy": copied}
        out.document(document)
        return 0
    if out.quiet:
        out.line(copied.path)
        return 0
    sent = f"{counted(copied.sent_files, 'file')} ({size_text(copied.sent_bytes)})"
    if dry_run:
        out.line(f"Would copy '{copied.source}' to '{copied.path}': {sent} to send.")
        if copied.present_files and not is_local(copied.path):
            out.note("Not checked: whether TARGET is the source's own directory by another URL.")
    elif copied.present_files == copied.files:
        out.line(f"'{copied.path}' is a complete copy already.")
    else:
        out.line(f"Savepoint copied to '{copied.path}': {sent} sent.")
    kept = copied.present_files + copied.reused_files
    if kept and copied.present_files != copied.files:
        out.note(f"{counted(kept, 'file')} of {copied.files} were at the target already.")
    return 0
