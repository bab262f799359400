"""``flinkish savepoint -d PATH``: delete a savepoint, and show which of its files are kept."""

from __future__ import annotations

from flinkish.cli.documents.savepoints import DisposeDocument
from flinkish.cli.session import Session
from flinkish.client.context import accept
from flinkish.client.savepoints import dispose_savepoint
from flinkish.units import counted, first_of, size_text


def dispose(session: Session, path: str, *, yes: bool, dry_run: bool) -> int:
    """Delete the savepoint at ``path``, or show what would be deleted; return the exit status.

    Before anything is deleted, the user is asked, unless ``yes``; ConsentNeeded for a refusal.
    """
    out = session.out
    gone: list[str] = []
    disposed = dispose_savepoint(
        session,
        path,
        agree=accept if yes else out.agree,
        dry_run=dry_run,
        tell=gone.append if dry_run or out.json else None,
    )
    if out.json:
        document: DisposeDocument = {
            "disposed": not dry_run,
            "dry_run": dry_run,
            "path": disposed.path,
            "files": disposed.removed,
            "bytes": disposed.bytes,
            "missing": disposed.missing,
            "foreign": list(disposed.foreign),
            "gone": gone,
            "kept": disposed.kept,
            "kept_bytes": disposed.kept_bytes,
            "users": list(disposed.users),
        }
        out.document(document)
    elif out.quiet:
        out.line(disposed.path)
    elif dry_run:
        what = f"{counted(disposed.removed, 'file')}, {size_text(disposed.bytes)}"
        out.line(f"Savepoint '{disposed.path}' would be disposed: {what}.")
        for each in gone:
            out.line(f"  {each}")
    else:
        out.line(f"Savepoint '{path}' disposed.")
    if disposed.kept:
        some = first_of(disposed.users, limit=3)
        out.note(
            f"{counted(disposed.kept, 'file')} ({size_text(disposed.kept_bytes)}) "
            f"{_stay(disposed.kept, dry_run)}, used by {some}."
        )
    if disposed.foreign:
        some = first_of(disposed.foreign, limit=3)
        count = len(disposed.foreign)
        out.warning(
            f"{counted(count, 'file')} not belonging to the savepoint "
            f"{_stay(count, dry_run)}: {some}"
        )
    return 0


def _stay(count: int, dry_run: bool) -> str:
    return "would stay" if dry_run else "stays" if count == 1 else "stay"
