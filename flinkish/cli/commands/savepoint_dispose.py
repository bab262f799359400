"""``flinkish savepoint -d PATH``: ask, delete, report what is kept."""

from __future__ import annotations

from flinkish.cli.output.printer import Output
from flinkish.cli.session import Session
from flinkish.client.savepoints import dispose_savepoint
from flinkish.errors import ConsentNeeded
from flinkish.units import size_text


def dispose(session: Session, path: str, *, yes: bool, dry_run: bool) -> int:
    """Delete the savepoint at ``path``, after asking, and return the exit status."""
    out = session.out
    gone: list[str] = []
    tell = gone.append if dry_run or out.json else None
    plan = dispose_savepoint(session, path, dry_run=True, tell=tell)
    what = f"{plan.removed} files, {size_text(plan.bytes)}"
    if not dry_run:
        if not yes:
            _ask(out, plan.path, what)
        out.note(f"Disposing savepoint '{plan.path}'.")
        gone.clear()
        done = dispose_savepoint(session, path, tell=tell)
    else:
        done = plan
    if out.json:
        out.document(
            {
                "disposed": not dry_run,
                "dry_run": dry_run,
                "path": done.path,
                "files": done.removed,
                "bytes": done.bytes,
                "missing": done.missing,
                "foreign": list(done.foreign),
                "gone": gone,
                "kept": done.kept,
                "kept_bytes": done.kept_bytes,
                "users": list(done.users),
            }
        )
    elif out.quiet:
        out.line(done.path)
    elif dry_run:
        out.line(f"Savepoint '{done.path}' would be disposed: {what}.")
        for each in gone:
            out.line(f"  {each}")
    else:
        out.line(f"Savepoint '{path}' disposed.")
    if done.kept:
        stay = "would stay" if dry_run else "stay"
        out.note(
            f"{done.kept} of its files ({size_text(done.kept_bytes)}) {stay}: they are "
            f"used by {', '.join(done.users[:3])}{' ...' if len(done.users) > 3 else ''}."
        )
    if done.foreign:
        some = ", ".join(done.foreign[:3]) + (", ..." if len(done.foreign) > 3 else "")
        out.warning(f"{len(done.foreign)} files that do not belong to the savepoint stay: {some}")
    return 0


def _ask(out: Output, path: str, what: str) -> None:
    refused = ConsentNeeded(
        f"disposing of the savepoint {path} ({what}) needs confirmation",
        hint="use --yes to delete it, or --dry-run to see what would be deleted",
    )
    if not out.agree(f"Delete the savepoint {path} ({what})?"):
        raise refused
