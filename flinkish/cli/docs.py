"""Generate the tables of the documentation; ``python -m flinkish.cli.docs`` writes them.

A table replaces all text between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import click

from flinkish.cli import command_index
from flinkish.cli.base import Command
from flinkish.cli.commands.schema import every_document
from flinkish.config import KEYS
from flinkish.errors import FlinkishError, error_classes
from flinkish.messages.json_schema import members, summary

#: What an exit code means for the caller; the error ids beside it come from the error classes.
MEANINGS = {
    0: "done",
    1: "the operation failed",
    2: "wrong arguments or configuration",
    3: "done in part: some of several jobs or paths failed; `list --stuck`: a job is stuck",
    4: "the restore check refuses, or a version, state or format is not supported",
    5: "needs explicit consent: `-n`, `--yes`",
    10: "no such job or request",
    11: "no savepoint at that path",
    12: "another operation holds the job or the savepoint",
    13: "the job's state does not allow it",
    14: "the wait timed out; the work continues",
    15: "damaged: digests, sizes or structure do not match",
    16: "storage or registry unreachable, refused or full",
    130: "interrupted (SIGINT)",
    143: "terminated (SIGTERM)",
}
#: Options and exit codes that every command has, left out of the table of commands.
COMMON_OPTIONS = ("dynamic", "json_output", "quiet", "debug")
COMMON_CODES = frozenset({0, 1, 2, 16, 130, 143})


def command_table() -> str:
    """Return the table of commands: usage, purpose, options and special exit codes."""
    rows = [("Command", "What it does", "Options", "Other exit codes")]
    for name, command in command_index.every_command():
        ctx = click.Context(command, info_name=name)
        arguments = [p.make_metavar(ctx) for p in command.params if isinstance(p, click.Argument)]
        codes = sorted(set(getattr(command, "exit_codes", ())) - COMMON_CODES)
        rows.append(
            (
                f"`{' '.join([name, *arguments])}`",
                (command.help or "").strip().partition("\n\n")[0].replace("\n", " "),
                ", ".join(f"`{'/'.join(names)}`" for names in _options(command)),
                ", ".join(map(str, codes)),
            )
        )
    return _table(rows)


def exit_code_table() -> str:
    """Return the table of exit codes, with their meanings and the ids of their errors."""
    ids: dict[int, list[str]] = {code: [] for code in MEANINGS}
    for cls in error_classes():
        # Error classes that other modules define are internal, and exist only after an import.
        if cls.__module__ == FlinkishError.__module__:
            ids[cls.code].append(cls.id)
    rows = [("Code", "Meaning", "Error ids (in `--json` errors)")]
    for code, meaning in MEANINGS.items():
        rows.append((str(code), meaning, ", ".join(f"`{name}`" for name in ids[code])))
    return _table(rows)


def configuration_table() -> str:
    """Return the table of configuration keys, with old names, defaults and meanings."""
    rows = [("Key (older name)", "Default", "Meaning")]
    for key in KEYS:
        old = f" ({', '.join(f'`{name}`' for name in key.old_names)})" if key.old_names else ""
        default = f"`{key.default}`" if key.default is not None else "none"
        rows.append((f"`{key.name}`{old}", default, key.meaning))
    return _table(rows)


def document_table() -> str:
    """Return the table of JSON documents: the commands that print each document, and its keys."""
    commands: dict[type, list[str]] = {}
    for name, kinds in every_document().items():
        for kind in kinds:
            commands.setdefault(kind, []).append(name)
    rows = [("Document", "Printed by", "Keys")]
    for kind, names in commands.items():
        own = sorted(members(kind), key=lambda member: not member[2])
        keys = [f"`{key}`{'' if always else ' (may be absent)'}" for key, _, always in own]
        rows.append((summary(kind), ", ".join(f"`{name}`" for name in names), ", ".join(keys)))
    return _table(rows)


def api_table() -> str:
    """Return the table of exported names, from the record that ``make api-check`` compares."""
    path = os.path.join(checkout(), "tools", "apicheck", "record.json")
    with open(path, encoding="utf-8") as file:
        recorded = json.load(file)["python"]
    names: dict[tuple[str, str], list[str]] = {}
    for exported, record in recorded.items():
        place, _, name = exported.rpartition(".")
        names.setdefault((place, record["annotation"]), []).append(f"`{name}`")
    rows = [("Package", "Annotation", "Names")]
    rows += [(f"`{place}`", f"`{what}`", ", ".join(some)) for (place, what), some in names.items()]
    return _table([rows[0], *sorted(rows[1:])])


#: The pages with tables, relative to the checkout, and the tables of each.
PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "README.md": {"exit codes": exit_code_table},
    "docs/compatibility.md": {"api": api_table},
    "docs/reference.md": {
        "commands": command_table,
        "documents": document_table,
        "configuration": configuration_table,
    },
}


def render(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return ``text`` with every table updated; ValueError if a table's markers are missing."""
    for name, table in tables.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, begins, rest = text.partition(begin)
        _, found_end, after = rest.partition(end)
        if not begins or not found_end:
            raise ValueError(f"no place for the table: {begin.strip()} ... {end}")
        text = f"{before}{begin}{table()}{end}{after}"
    return text


def checkout() -> str:
    """Return the path of this checkout."""
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.dirname(os.path.dirname(here))


def main() -> int:
    """Write the tables into their pages."""
    for page, tables in PAGES.items():
        path = os.path.join(checkout(), page)
        with open(path, encoding="utf-8") as file:
            text = render(file.read(), tables)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


def _options(command: click.Command) -> Iterator[Sequence[str]]:
    """Yield the spellings of each of the command's own options."""
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or parameter.hidden:
            continue
        if not (isinstance(command, Command) and parameter.name in COMMON_OPTIONS):
            yield parameter.opts


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first row is the header."""
    lines = [[re.sub(r"\s+", " ", cell).replace("|", "\\|") for cell in row] for row in rows]
    lines.insert(1, ["---"] * len(rows[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
