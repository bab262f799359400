"""``schema``: every command has one, which refuses a document that lacks something."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from flinkish.cli import command_index
from flinkish.cli.commands.schema import command_schema, documents_of, every_document, schema
from tests.cli.conftest import Command
from tests.support.cli.documents import command_of

DOCUMENTS = [(name, kind) for name, kinds in every_document().items() for kind in kinds]


def sample(schema: Any, types: dict[str, Any]) -> Any:
    """A document with all that a schema names; of alternatives the first."""
    if schema is True or schema == {}:
        return None
    if "$ref" in schema:
        return sample(types[schema["$ref"].rpartition("/")[2]], types)
    if "anyOf" in schema:
        return sample(schema["anyOf"][0], types)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        return [sample(each, types) for each in schema.get("prefixItems", [schema.get("items")])]
    if kind == "object":
        if "properties" not in schema:
            return {"key": sample(schema.get("additionalProperties", True), types)}
        parts = schema["properties"].items()
        return {key: sample(part, types) for key, part in parts if part is not False}
    plain = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "null": None}
    return plain.get(kind) if kind else None


def required(
    schema: Any, document: Any, types: dict[str, Any], seen: set[str], path: Any = ()
) -> Iterator[Any]:
    """The path of every key that a sample must have; within a type that occurs often, once."""
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            seen.add(name)
            yield from required(types[name], document, types, seen, path)
    elif "anyOf" in schema:
        yield from required(schema["anyOf"][0], document, types, seen, path)
    elif isinstance(document, list):
        for at, part in enumerate(schema.get("prefixItems", [schema.get("items")])):
            yield from required(part, document[at], types, seen, (*path, at))
    elif isinstance(document, dict):
        yield from ((*path, key) for key in schema.get("required", ()))
        for key in document:
            part = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            yield from required(part, document[key], types, seen, (*path, key))


def without(document: Any, path: Any) -> Any:
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return changed


def test_every_command_says_what_its_documents_are() -> None:
    lacking = [name for name, each in command_index.every_command() if not documents_of(name)]
    assert lacking == []


def test_the_schemas_are_schemas() -> None:
    types: dict[str, Any] = {}
    for name, kinds in every_document().items():
        schema = command_schema(name, kinds)
        for key, part in schema.pop("$defs", {}).items():
            assert types.setdefault(key, part) == part, f"two types are called {key}"
        types[f"flinkish {name}"] = schema
    Draft202012Validator.check_schema({"$defs": types})


@pytest.mark.parametrize(("name", "kind"), DOCUMENTS)
def test_a_document_that_lacks_a_key_is_refused(name: str, kind: type) -> None:
    whole = command_schema(name, documents_of(name))
    judge = Draft202012Validator(whole)
    alone = command_schema(name, [kind])
    document = sample(alone, alone.get("$defs", {}))
    paths = list(required(alone, document, alone.get("$defs", {}), set()))
    assert ("schema_version",) in paths
    assert len(paths) > 1
    assert judge.is_valid(document), next(judge.iter_errors(document))
    assert [path for path in paths if judge.is_valid(without(document, path))] == []


def test_a_schema_is_printed_and_all_are_listed(cli: Command) -> None:
    printed = json.loads(cli.ok("schema", "savepoint", "show").out)
    assert printed["title"] == "flinkish savepoint show --json"
    assert "SavedOperator" in printed["$defs"]
    assert cli.ok("schema", "savepoint", "show", "--json").json()["schema"] == printed
    listed = cli.ok("schema", "--json").json()["commands"]
    assert [each["command"] for each in listed] == list(every_document())
    assert cli.ok("schema", "-q").out.splitlines() == list(every_document())
    assert "One job in full" in cli.ok("schema").out


def test_a_group_has_no_schema_but_its_commands_have(cli: Command) -> None:
    error = cli("schema", "--json", "upgrade").error()
    assert error["message"].startswith("'upgrade' is a group of commands: in-place, ")
    assert error["hint"].endswith("flinkish schema upgrade in-place")


@pytest.mark.parametrize(
    ("words", "incomplete", "offered"),
    [
        ([], "sta", ["state", "status"]),
        ([], "err", ["error"]),
        (["savepoint"], "p", ["prune"]),
        (["upgrade"], "r", ["resume", "rollback"]),
        (["status"], "", []),
    ],
)
def test_shells_complete_the_command(words: list[str], incomplete: str, offered: list[str]) -> None:
    ctx = schema.make_context("schema", list(words))
    assert [each.value for each in schema.params[0].shell_complete(ctx, incomplete)] == offered


@pytest.mark.parametrize("words", [("nothing",), ("savepoint", "nothing"), ("config",), ("",)])
def test_what_is_no_command_has_no_schema(cli: Command, words: tuple[str, ...]) -> None:
    assert cli("schema", "--json", *words).error()["id"] == "usage"


def test_the_error_line_has_a_schema_too(cli: Command) -> None:
    schema = json.loads(cli.ok("schema", "error").out)
    line = json.loads(cli("status", "nothing", "--json").err)
    judge = Draft202012Validator(schema)
    assert judge.is_valid(line)
    for key in ("id", "code", "message", "hint"):
        assert not judge.is_valid(without(line, ("error", key)))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("list --json", "list"),
        ("--json list", "list"),
        ("savepoint show P --json", "savepoint show"),
        ("savepoint --json show P", "savepoint show"),
        ("savepoint JOB --json", "savepoint"),
        ("config show --json", "config show"),
        ("config", None),
        ("nothing --json", None),
    ],
)
def test_the_checks_of_the_tests_know_the_command(line: str, name: str | None) -> None:
    assert command_of(line.split()) == name
