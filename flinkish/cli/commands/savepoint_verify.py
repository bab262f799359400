"""``flinkish savepoint verify PATH...``: check that savepoints are complete."""

from __future__ import annotations

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.parts import error_record
from flinkish.cli.documents.savepoints import Level, VerifiedSavepoint, VerifyDocument
from flinkish.cli.options.arguments import words_of
from flinkish.cli.output.printer import Output
from flinkish.client.savepoints import Verified
from flinkish.client.savepoints import verify_savepoints as verify_all
from flinkish.errors import FlinkishError
from flinkish.units import counted, first_of, size_text

_LEVELS = ("quick", "full", "deep")


@command("savepoint verify", exit_codes=(3, 4, 11, 15), documents=(VerifyDocument,))
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    default="full",
    shell_complete=words_of(*_LEVELS),
    help="quick: names and sizes; full (default): digests of all files; deep: also decode "
    "every state row.",
)
def verify_savepoints(call: Call, paths: tuple[str, ...], level: Level) -> int:
    """Verify savepoints: every file exists, with the recorded size and digest.

    Files that belong to another savepoint are checked there. If a file is bad, the exit code is
    15, and the first bad files are named (all of them with --json).
    """
    out = call.out
    documents: list[VerifiedSavepoint] = []

    def show(verified: Verified) -> None:
        documents.append(_document(verified, level))
        if not out.json:
            _show(out, documents[-1], verified.error if len(paths) > 1 else None)

    failure = verify_all(paths, level, show)
    if out.json:
        document: VerifyDocument = {"savepoints": documents}
        out.document(document)
    if failure is not None:
        raise failure
    return 0


def _document(verified: Verified, level: Level) -> VerifiedSavepoint:
    error = None if verified.error is None else error_record(verified.error)
    verification = verified.verification
    if verification is None:
        return {"path": verified.path, "level": level, "ok": False, "error": error}
    return {
        "path": verification.path,
        "level": level,
        "ok": verification.ok,
        "files": verification.files,
        "bytes": verification.bytes,
        "rows": verification.rows,
        "bad": [{"path": bad.path, "reason": bad.reason} for bad in verification.bad],
        "unexpected": list(verification.unexpected),
        "unread": list(verification.unread),
        "error": error,
    }


def _show(out: Output, document: VerifiedSavepoint, error: FlinkishError | None) -> None:
    path = document["path"]
    if document["ok"] and out.quiet:
        out.line(path)
    elif document["ok"]:
        rows = "" if document["rows"] is None else f", {document['rows']} state rows"
        out.line(
            f"Savepoint '{path}' is intact: {counted(document['files'], 'file')}, "
            f"{size_text(document['bytes'])}{rows} ({document['level']})."
        )
    if error is not None:
        out.warning(error.message)
    unexpected = document.get("unexpected") or []
    if unexpected:
        some = first_of(unexpected, limit=3)
        out.note(f"{counted(len(unexpected), 'file')} not belonging to the savepoint: {some}")
    for text in document.get("unread") or []:
        out.warning(f"rows were not decoded: {text}")
