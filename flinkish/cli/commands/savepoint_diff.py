"""``flinkish savepoint diff A B``: two savepoints side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.savepoints import DiffDocument
from flinkish.client.savepoints import diff_savepoints
from flinkish.units import table

#: Longest text of one value in the table; the JSON has the complete value.
_WIDTH = 60


@command("savepoint diff", exit_codes=(4, 11, 15), documents=(DiffDocument,))
@click.argument("first", metavar="A", type=click.Path())
@click.argument("second", metavar="B", type=click.Path())
@click.option("--exit-code", is_flag=True, help="Exit 1 if they differ.")
def diff(call: Call, first: str, second: str, exit_code: bool) -> int:
    """Compare two savepoints: operators, schemas, rows, bytes, offsets, pins.

    Shows only the differences. Operators are matched by operator id, then by uid, then by
    ordinal. The exit code is 0 even if they differ, unless --exit-code is given.
    """
    document = diff_savepoints(first, second)
    out = call.out
    if out.json:
        out.document(cast(DiffDocument, document))
    elif out.quiet:
        out.line("equal" if document["equal"] else "different")
    else:
        for line in render(document):
            out.line(line)
    return 1 if exit_code and not document["equal"] else 0


def render(document: Mapping[str, Any]) -> list[str]:
    """Return the differences as lines for people. Pure."""
    lines = [f"a  {document['a']}", f"b  {document['b']}"]
    if document["equal"]:
        return [*lines, "", "no differences"]
    if document["header"]:
        rows = [_cells(fact["name"], fact) for fact in document["header"]]
        lines += ["", *table(("SAVEPOINT", "A", "B"), rows)]
    for query in document["queries"]:
        lines += ["", f"query {query['name']}: {_change(query['change'])}"]
        rows = list(_query_rows(query))
        if rows:
            lines += ["  " + line for line in table(("", "A", "B"), rows)]
        for operator in query["operators"]:
            lines += [f"  {line}" for line in _operator(operator)]
    return lines


def _change(change: str) -> str:
    return {"added": "only in b", "removed": "only in a"}.get(change, change)


def _query_rows(query: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for fact in query["facts"]:
        yield _cells(fact["name"], fact)
    for fact in query["offsets"]:
        yield _cells(f"offset of source {fact['name']}", fact)
    for fact in query["pins"]:
        yield _cells(fact["name"], fact)


def _operator(operator: Mapping[str, Any]) -> Iterator[str]:
    name = operator["uid"] or operator["operator_id"] or "without uid"
    matched = f", matched by {operator['matched_by']}" if operator["matched_by"] else ""
    yield (
        f"operator {name} ({operator['kind'] or 'kind unknown'}, ordinal {operator['ordinal']}"
        f"{matched}): {_change(operator['change'])}"
    )
    rows = [_cells(fact["name"], fact) for fact in operator["facts"]]
    for store in operator["stores"]:
        if store["change"] in ("added", "removed") and operator["matched_by"]:
            there = ("-", "yes") if store["change"] == "added" else ("yes", "-")
            rows.append((f"store {store['name']}", there[0], there[1]))
        for column in store["columns"]:
            rows.append(_cells(f"{store['name']} {column['schema']}.{column['column']}", column))
    if rows:
        yield from ("  " + line for line in table(("", "A", "B"), rows))


def _cells(name: str, fact: Mapping[str, Any]) -> tuple[str, str, str]:
    return name, _text(fact["a"]), _text(fact["b"])


def _text(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value)
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
