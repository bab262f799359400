"""What scripts rely on: commands, options, exit codes, JSON documents, versions of what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from flinkish.cli import command_index
from flinkish.cli.base import Command, OptionalValue
from flinkish.cli.commands.schema import command_schema, every_document
from flinkish.cli.output.text import SCHEMA_VERSION
from flinkish.client.planfile import PLAN_VERSION
from flinkish.config import KEYS
from flinkish.errors import FlinkishError, error_classes
from flinkish.registry.schema import VERSION as REGISTRY_VERSION
from flinkish.savepoint.format.records import FORMAT_VERSION
from tools.apicheck.promise import Annotation, Change, Level

#: The command line is as public as a class can be.
PROMISE = Annotation.PUBLIC
#: Kinds of values of an option.
NOTHING, VALUE, MAY_HAVE_VALUE = "nothing", "a value", "a value or nothing"


def interface() -> dict[str, Any]:
    """Return all of it, as it is recorded."""
    types: dict[str, Any] = {}
    return {
        "commands": {
            name: _command(command)
            for name, command in command_index.every_command()
            if isinstance(command, Command)
        },
        "errors": {
            each.id: each.code
            for each in sorted(error_classes(), key=lambda each: (each.code, each.id))
            if each.__module__ == FlinkishError.__module__
        },
        "keys": {key.name: [key.default, *key.old_names] for key in KEYS},
        "documents": {
            name: [_document(name, kind, types) for kind in kinds]
            for name, kinds in every_document().items()
        },
        "types": dict(sorted(types.items())),
        "versions": {
            "JSON documents": SCHEMA_VERSION,
            "_metadata of a savepoint": FORMAT_VERSION,
            "plan file": PLAN_VERSION,
            "registry": REGISTRY_VERSION,
        },
    }


def _command(command: Command) -> dict[str, Any]:
    arguments, options = [], {}
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            many = parameter.nargs == -1
            name = f"{parameter.name}{'...' if many else ''}"
            arguments.append(name if parameter.required else f"[{name}]")
        elif isinstance(parameter, click.Option) and not parameter.hidden:
            for spelling in (*parameter.opts, *parameter.secondary_opts):
                options[spelling] = _option(parameter)
    return {
        "arguments": arguments,
        "exit_codes": list(command.exit_codes),
        "options": dict(sorted(options.items())),
    }


def _option(option: click.Option) -> dict[str, Any]:
    takes = NOTHING if option.is_flag or option.count else VALUE
    default = option.to_info_dict()["default"]
    is_plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    record: dict[str, Any] = {
        "takes": MAY_HAVE_VALUE if isinstance(option, OptionalValue) else takes
    }
    if option.required:
        record["required"] = True
    if option.multiple or option.count:
        record["repeatable"] = True
    if isinstance(option.type, click.Choice):
        record["choices"] = sorted(str(choice) for choice in option.type.choices)
    if is_plain:
        record["default"] = default
    return record


def _document(name: str, kind: type, types: dict[str, Any]) -> str:
    schema = command_schema(name, [kind])
    types[kind.__name__] = _keys(schema)
    types.update({key: _keys(part) for key, part in schema.get("$defs", {}).items()})
    return kind.__name__


def _keys(schema: Mapping[str, Any]) -> dict[str, str]:
    required = schema["required"]
    return {
        f"{key}{'' if key in required else '?'}": "|".join(sorted(_types(part)))
        for key, part in sorted(schema["properties"].items())
    }


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types that a value may have; values of an enumeration do not count."""
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]
    elif "anyOf" in schema:
        for part in schema["anyOf"]:
            yield from _types(part)
    elif "enum" in schema:
        yield from {"integer" if isinstance(v, int) else "string" for v in schema["enum"]}
    elif schema.get("type") == "array":
        parts = schema.get("prefixItems", [schema.get("items", {})])
        yield f"list of {' and '.join('|'.join(sorted(_types(part))) for part in parts)}"
    elif schema.get("type") == "object":
        yield f"map of {'|'.join(sorted(_types(schema.get('additionalProperties', {}))))}"
    elif "type" in schema:
        kinds = schema["type"]
        if isinstance(kinds, str):
            yield kinds
        else:
            for kind in kinds:
                yield from _types({**schema, "type": kind})
    else:
        yield "anything"


def changes(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Return the changes that may break scripts written against what is recorded."""
    return [
        *_commands(recorded["commands"], now["commands"]),
        *_errors(recorded["errors"], now["errors"]),
        *_keys_of_configuration(recorded["keys"], now["keys"]),
        *_documents(recorded, now),
        *_versions(recorded["versions"], now["versions"]),
    ]


def _change(what: str, text: str, level: Level = Level.SOURCE) -> Change:
    return Change(what, text, PROMISE, level)


def _commands(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name, was in old.items():
        place = f"flinkish {name}"
        if name not in new:
            yield _change(place, "the command is gone")
            continue
        now = new[name]
        for at, argument in enumerate(now["arguments"]):
            before = was["arguments"][at] if at < len(was["arguments"]) else None
            if not argument.startswith("[") and (before is None or before.startswith("[")):
                yield _change(place, f"the argument {argument} is required now")
            if before is not None and _is_many(before) and not _is_many(argument):
                yield _change(place, f"the argument {argument} is a single one now")
        if len(now["arguments"]) < len(was["arguments"]):
            yield _change(place, "it takes fewer arguments")
        gone = set(was["exit_codes"]) - set(now["exit_codes"])
        if gone:
            codes = ", ".join(map(str, sorted(gone)))
            yield _change(place, f"it does not exit with {codes} any more")
        for option, record in now["options"].items():
            if record.get("required") and not was["options"].get(option, {}).get("required"):
                yield _change(f"{place} {option}", "the option is required now")
        for option, record in was["options"].items():
            yield from _of_option(f"{place} {option}", record, now["options"].get(option))


def _is_many(argument: str) -> bool:
    return argument.strip("[]").endswith("...")


def _of_option(
    place: str, was: Mapping[str, Any], now: Mapping[str, Any] | None
) -> Iterator[Change]:
    if now is None:
        yield _change(place, "the option is gone")
        return
    if was["takes"] != now["takes"] and now["takes"] != MAY_HAVE_VALUE:
        yield _change(place, f"it takes {now['takes']}, and took {was['takes']}")
    if was.get("repeatable") and not now.get("repeatable"):
        yield _change(place, "it is not repeatable any more")
    gone = set(was.get("choices", ())) - set(now.get("choices", was.get("choices", ())))
    if gone or ("choices" in now and "choices" not in was):
        yield _change(place, f"it takes fewer values: {', '.join(sorted(gone)) or 'a choice'}")
    if was.get("default") != now.get("default"):
        text = f"its default is {now.get('default')}, and was {was.get('default')}"
        yield _change(place, text, Level.CALL)


def _errors(old: Mapping[str, int], new: Mapping[str, int]) -> Iterator[Change]:
    for name, code in old.items():
        if name not in new:
            yield _change(f"error {name}", "it is gone")
        elif new[name] != code:
            yield _change(f"error {name}", f"its exit code is {new[name]}, and was {code}")


def _keys_of_configuration(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    names = {name: key for key, (_, *others) in new.items() for name in (key, *others)}
    for key, (default, *others) in old.items():
        for name in (key, *others):
            if name not in names:
                yield _change(f"key {name}", "it is gone")
        now = new.get(names.get(key, ""))
        if now is not None and now[0] != default:
            text = f"its default is {now[0]}, and was {default}"
            yield _change(f"key {key}", text, Level.CALL)


def _documents(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name, kinds in old["documents"].items():
        for kind in kinds:
            if kind not in new["documents"].get(name, ()):
                yield _change(f"flinkish {name} --json", f"it prints no {kind} any more")
    for kind, keys in old["types"].items():
        if kind not in new["types"]:
            continue  # what had it has another type now, which is told there
        for key, types in keys.items():
            yield from _of_key(f"{kind} in JSON", key, types, new["types"][kind])


def _of_key(place: str, key: str, types: str, now: Mapping[str, str]) -> Iterator[Change]:
    bare = key.removesuffix("?")
    if key not in now and f"{bare}?" in now:
        yield _change(place, f"{bare} may be absent now")
    elif bare not in now and key not in now:
        yield _change(place, f"the key {bare} is gone")
        return
    kinds = now.get(key) or now.get(bare) or now[f"{bare}?"]
    more = set(kinds.split("|")) - set(types.split("|"))
    if more and types != "anything":
        yield _change(place, f"{bare} may be of type {', '.join(sorted(more))}")


def _versions(old: Mapping[str, int], new: Mapping[str, int]) -> Iterator[Change]:
    for name, version in old.items():
        if new.get(name, 0) < version:
            yield _change(name, f"its version is {new.get(name)}, and was {version}")
        elif name == "JSON documents" and new[name] != version:
            yield _change(name, f"their version is {new[name]}, and was {version}")
