"""``flinkish schema [COMMAND]``: the JSON Schema of what a command prints with ``--json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from flinkish.cli import command_index
from flinkish.cli.base import Call, Command, command, did_you_mean
from flinkish.cli.documents.installation import SchemaDocument, SchemasDocument
from flinkish.cli.documents.parts import Envelope, ErrorDocument
from flinkish.errors import UsageError
from flinkish.launch.notices import NoticeDocument
from flinkish.messages.json_schema import schema_of, summary
from flinkish.units import table

#: Names that stand for no command: a failing command's line on stderr, and a notice.
ERROR, NOTICE = "error", "notice"
#: The types of documents that no command prints on stdout, and the titles of their schemas.
_OTHERS: dict[str, tuple[type, str]] = {
    ERROR: (ErrorDocument, "flinkish: an error"),
    NOTICE: (NoticeDocument, "flinkish: a notice"),
}


def _complete(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the words that can come next in the name of a schema."""
    before = list(ctx.params.get("words") or ())
    names = (name.split() for name in every_document())
    following = {name[len(before)] for name in names if name[: len(before)] == before != name}
    return [CompletionItem(word) for word in sorted(following) if word.startswith(incomplete)]


@command("schema", exit_codes=(), documents=(SchemasDocument, SchemaDocument))
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=_complete)
def schema(call: Call, words: tuple[str, ...]) -> int:
    """Print the JSON Schema of what a command prints with --json.

    Without a COMMAND, list the commands. error is the line that a failing command writes to
    stderr, notice what notify.command and notify.url get. A schema accepts unknown keys, which a
    later flinkish may add.
    """
    out, name = call.out, " ".join(words)
    if name:
        contents = command_schema(name, documents_of(name))
        document: SchemaDocument = {"command": name, "schema": contents}
        if out.json:
            out.document(document)
        else:
            out.text(json.dumps(contents, indent=2) + "\n")
        return 0
    all_documents = every_document()
    if out.json:
        listed: SchemasDocument = {
            "commands": [
                {"command": each, "documents": [summary(kind) for kind in kinds]}
                for each, kinds in all_documents.items()
            ]
        }
        out.document(listed)
    elif out.quiet:
        for each in all_documents:
            out.line(each)
    else:
        rows = [
            (each if number == 0 else "", summary(kind))
            for each, kinds in all_documents.items()
            for number, kind in enumerate(kinds)
        ]
        for line in table(("COMMAND", "DOCUMENTS"), rows):
            out.line(line)
    return 0


def every_document() -> dict[str, Sequence[type]]:
    """Return the types of the documents of every command, of the error line and of notices."""
    named: dict[str, Sequence[type]] = {
        name: each.documents
        for name, each in command_index.every_command()
        if isinstance(each, Command)
    }
    return named | {name: (document,) for name, (document, _) in _OTHERS.items()}


def documents_of(name: str) -> Sequence[type]:
    """Return the types of a command's documents; UsageError for a group, or an unknown name."""
    if name in _OTHERS:
        return (_OTHERS[name][0],)
    first, _, word = name.partition(" ")
    each = command_index.load(name)
    group = command_index.load(first) if each is None else None
    if isinstance(group, click.Group):
        each = group.commands.get(word)
    if isinstance(each, Command):
        return each.documents
    if isinstance(each, click.Group):
        raise UsageError(
            f"{name!r} is a group of commands: {', '.join(each.commands)}",
            hint=f"name one of them, such as: flinkish schema {name} {next(iter(each.commands))}",
        )
    raise UsageError(
        f"no such command {name!r}.{did_you_mean(name, every_document())}",
        hint="list them with: flinkish schema",
    )


def command_schema(name: str, documents: Sequence[type]) -> dict[str, Any]:
    """Return the schema of a command's documents. Pure."""
    title = _OTHERS[name][1] if name in _OTHERS else f"flinkish {name} --json"
    return schema_of(documents, Envelope, title=title)
