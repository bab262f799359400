"""``flinkish savepoint show PATH``: what is inside a savepoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.text import size_text, table


@command("savepoint show", exit_codes=(4, 11, 15))
@click.argument("path", metavar="PATH", type=click.Path())
def show(call: Call, path: str) -> int:
    """Show what is inside a savepoint: its queries, offsets, operators and schemas.

    A job that is itself named "show" is given to flinkish savepoint by its id.
    """
    from flinkish.savepoint.reader import describe, open_savepoint

    document = describe(open_savepoint(path))
    out = call.out
    if out.json:
        out.document(document)
    elif out.quiet:
        out.line(document["savepoint"]["path"])
    else:
        for line in render(document["savepoint"]):
            out.line(line)
    return 0


def render(savepoint: Mapping[str, Any]) -> list[str]:
    """A savepoint's description for people. Pure."""
    lines = [
        f"{savepoint['path']}",
        f"  job       {savepoint['job_name']}  {savepoint['job_id']}",
        f"  taken     {savepoint['created']} by {savepoint['trigger']}",
        f"  format    {savepoint['format']}, version {savepoint['format_version']}",
        f"  written   by flinkish {savepoint['flinkish_version']} on Spark "
        f"{savepoint['spark_version']}",
        f"  data      {savepoint['files']} files, {size_text(savepoint['bytes'])}",
    ]
    for query in savepoint["queries"]:
        lines += [
            "",
            f"query {query['name']}  {query['query_id']}",
            f"  batch      {query['batch_id']}",
            f"  watermark  {query['watermark'] or '-'}",
            f"  data       {query['files']} files, {size_text(query['bytes'])}",
        ]
        rows = [
            (
                str(operator["ordinal"]),
                operator["kind"] or "-",
                operator["uid"] or "-",
                str(operator["partitions"]),
                "-" if operator["rows"] is None else str(operator["rows"]),
                size_text(operator["bytes"]),
                ", ".join(store["name"] for store in operator["stores"]),
            )
            for operator in query["operators"]
        ]
        if rows:
            head = ("ORDINAL", "OPERATOR", "UID", "PARTITIONS", "ROWS", "SIZE", "STORES")
            lines += ["  " + line for line in table(head, rows, right="0345")]
    return lines
