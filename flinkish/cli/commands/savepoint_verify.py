"""``flinkish savepoint verify PATH...``: check that savepoints are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.options.arguments import words_of
from flinkish.cli.output.printer import Output
from flinkish.client.savepoints import Savepoint
from flinkish.errors import Corrupt, FlinkishError, PartialFailure
from flinkish.units import size_text

if TYPE_CHECKING:
    from flinkish.savepoint.manage.verify import Verification

_LEVELS = ("quick", "full", "deep")


@command("savepoint verify", exit_codes=(3, 4, 11, 15))
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    default="full",
    shell_complete=words_of(*_LEVELS),
    help="quick: names and sizes; full (default): digests of all files; deep: also decode "
    "every state row.",
)
def verify_savepoints(call: Call, paths: tuple[str, ...], level: str) -> int:
    """Verify savepoints: every file exists, with the recorded size and digest.

    Files that belong to another savepoint are checked there. If a file is bad, the exit code is
    15, and the first bad files are named (all of them with --json).
    """
    out = call.out
    documents, errors = [], []
    for path in paths:
        document, error = _verify(path, level)
        documents.append(document)
        if error is not None:
            errors.append(error)
        if not out.json:
            _show(out, document, error if len(paths) > 1 else None)
    if out.json:
        out.document({"savepoints": documents})
    if errors:
        raise _together(errors, len(paths))
    return 0


def _verify(path: str, level: str) -> tuple[dict[str, Any], FlinkishError | None]:
    try:
        verification = Savepoint.open(path).verify(level)
    except FlinkishError as error:
        return {"path": path, "level": level, "ok": False, "error": error.to_record()}, error
    damage = None if verification.ok else verification.error()
    return _document(verification, damage), damage


def _document(verification: Verification, error: FlinkishError | None) -> dict[str, Any]:
    return {
        "path": verification.path,
        "level": verification.level,
        "ok": verification.ok,
        "files": verification.files,
        "bytes": verification.bytes,
        "rows": verification.rows,
        "bad": [{"path": bad.path, "reason": bad.reason} for bad in verification.bad],
        "unexpected": list(verification.unexpected),
        "unread": list(verification.unread),
        "error": None if error is None else error.to_record(),
    }


def _show(out: Output, document: dict[str, Any], error: FlinkishError | None) -> None:
    path = document["path"]
    if document["ok"] and out.quiet:
        out.line(path)
    elif document["ok"]:
        rows = "" if document["rows"] is None else f", {document['rows']} state rows"
        out.line(
            f"Savepoint '{path}' is intact: {document['files']} files, "
            f"{size_text(document['bytes'])}{rows} ({document['level']})."
        )
    if error is not None:
        out.warning(error.message)
    unexpected = document.get("unexpected") or []
    if unexpected:
        some = ", ".join(unexpected[:3]) + (", ..." if len(unexpected) > 3 else "")
        out.note(f"{len(unexpected)} files do not belong to the savepoint: {some}")
    for text in document.get("unread") or []:
        out.warning(f"rows were not decoded: {text}")


def _together(errors: list[FlinkishError], asked: int) -> FlinkishError:
    """Return one error for all: Corrupt if any savepoint is damaged, else PartialFailure."""
    if asked == 1:
        return errors[0]
    damaged = [error for error in errors if isinstance(error, Corrupt)]
    words = f"{len(errors)} of {asked} savepoints are damaged or could not be read"
    hint = "each is named above; --json names every bad file"
    if damaged:
        return Corrupt(f"{words}: {damaged[0].message}", hint=hint)
    return PartialFailure(f"{words}: {errors[0].message}", hint=hint)
