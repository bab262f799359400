"""Every JSON document that a test gets from the command is checked against its schema."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from typing import Any

import click

from flinkish.cli import command_index
from flinkish.cli.app import common_options_behind
from flinkish.cli.base import scan
from flinkish.cli.commands.schema import ERROR, command_schema, documents_of

#: What may have more keys than its schema says: an error has further facts by its id.
OPEN = frozenset({"ErrorRecord"})


def check_output(argv: Sequence[str], out: str, err: str) -> None:
    """Check the documents of one call; a call without ``--json`` has none."""
    if "--json" not in argv and not _asks_for_json(argv):
        return
    name = command_of(argv)
    if name is not None and (document := _document(out)) is not None:
        refuse_nothing(name, document)
    for line in err.splitlines()[-1:]:
        if (document := _document(line)) is not None:
            refuse_nothing(ERROR, document)


def _asks_for_json(argv: Sequence[str]) -> bool:
    """Return whether the plan of ``check`` is asked for as JSON."""
    return "--format=json" in argv or ("--format", "json") in itertools.pairwise(argv)


def refuse_nothing(name: str, document: Any) -> None:
    """Fail if a document lacks a key, has an unknown one or a value of another type."""
    from jsonschema.exceptions import best_match

    error = best_match(closed_validator(name).iter_errors(document))
    assert error is None, f"flinkish {name} --json, at {error.json_path}: {error.message}"


def command_of(argv: Sequence[str]) -> str | None:
    """Return the words of the command that a command line calls; None if there is none."""
    words = common_options_behind(argv)
    name = words[0] if words else ""
    if name not in command_index.COMMANDS:
        return None
    command = command_index.load(name)
    assert command is not None
    if isinstance(command, click.Group):
        return f"{name} {words[1]}" if words[1:2] and words[1] in command.commands else None
    word = next((word for kind, word in scan(command, words[1:]) if kind == "argument"), None)
    return f"{name} {word}" if word in command_index.SUB_WORDS.get(name, {}) else name


@functools.cache
def closed_validator(name: str) -> Any:
    """Return the validator of a command's documents that refuses unknown keys."""
    from jsonschema import Draft202012Validator

    schema = command_schema(name, documents_of(name))
    for part in (schema, *schema.get("anyOf", ())):
        _close(part)
    for kind, part in schema.get("$defs", {}).items():
        if kind not in OPEN:
            _close(part)
    return Draft202012Validator(schema)


def _close(schema: dict[str, Any]) -> None:
    if "properties" in schema:
        schema["additionalProperties"] = False


def _document(text: str) -> Any:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) and "schema_version" in document else None
