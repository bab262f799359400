"""``flinkish state show|export SAVEPOINT UID[/STATE]``: the state in savepoints, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from flinkish.cli.base import HELP_NAMES, Call, command
from flinkish.cli.documents.programs import (
    StateExportDocument,
    StateExportDryRunDocument,
    StateRecord,
    StateRow,
    StateRowsDocument,
)
from flinkish.cli.options.arguments import raw_option, savepoint_argument, state_argument, words_of
from flinkish.cli.options.program import spark_options
from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import driver_output
from flinkish.client.state import StateRows, export_state, show_state
from flinkish.messages.calls import EXPORT_FORMATS
from flinkish.messages.launch import Program
from flinkish.units import table

#: Longer cells are truncated in tables; ``--json`` has the complete values.
_WIDEST = 60


@click.group("state", context_settings={"help_option_names": HELP_NAMES}, no_args_is_help=False)
def state() -> None:
    """Show and export the state in savepoints."""


@command("show", exit_codes=(4, 11, 15), documents=(StateRowsDocument,))
@savepoint_argument
@state_argument
@click.option(
    "--where",
    metavar="SQL",
    help="Only rows that match, such as: \"key.k = 'a' AND value.count > 3\" (needs Spark).",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Maximum number of rows.",
)
@click.option(
    "--partition", type=click.IntRange(min=0), metavar="P", help="Only this state partition."
)
@raw_option
@spark_options
def show(
    call: Call,
    path: str,
    name: str,
    where: str | None,
    limit: int,
    partition: int | None,
    raw: bool,
    **spark: Any,
) -> int:
    """Show rows of a state in a savepoint: partition, key and value.

    UID is the operator's uid, operator id or ordinal; prefix it with QUERY/ if several queries
    have it. STATE selects one of several states: a state variable of a processor, or left or
    right of a join. Spark is needed only with --where, which runs a Spark application.
    """
    with call.session() as session, driver_output(call.out):
        state_rows = show_state(
            session,
            path,
            name,
            where=where,
            limit=limit,
            partition=partition,
            raw=raw,
            program=Program(**spark),
        )
    _show(call.out, state_rows)
    return 0


def _show(out: Output, state: StateRows) -> None:
    rows = state.rows
    if out.json:
        document: StateRowsDocument = {
            "operator": cast(StateRecord, state.state),
            "rows": [cast(StateRow, row) for row in rows],
            "more": state.more,
        }
        out.document(document)
    elif out.quiet:
        for row in rows:
            out.line(_text(row))
    else:
        for line in render(rows):
            out.line(line)
        if state.more:
            out.note(f"there are more than these {len(rows):,} rows; use --limit")
        elif not rows:
            out.note(f"the state {state.state['state']} has no matching rows")


def render(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return rows as a table with a column for each field of key and value. Pure."""
    if not rows:
        return []
    fields: dict[tuple[str, str | None], None] = {}
    for row in rows:
        for part in ("key", "value"):
            inner = row[part]
            names = list(inner) if isinstance(inner, Mapping) else [None]
            fields.update(dict.fromkeys((part, name) for name in names))
    head = ["PARTITION", *(part if name is None else f"{part}.{name}" for part, name in fields)]
    lines = [
        [str(row["partition"]), *(_cell(row[part], name) for part, name in fields)] for row in rows
    ]
    return list(table(head, lines, right="0"))


def _cell(value: Any, name: str | None) -> str:
    field = value if name is None else value.get(name)
    text = field if isinstance(field, str) else _text(field)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@command(
    "export", exit_codes=(4, 11, 15), documents=(StateExportDocument, StateExportDryRunDocument)
)
@savepoint_argument
@state_argument
@click.argument("target", metavar="TARGET", type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice(EXPORT_FORMATS, case_sensitive=False),
    shell_complete=words_of(*EXPORT_FORMATS),
    default="parquet",
    show_default=True,
    help="Format of the files.",
)
@click.option("--where", metavar="SQL", help="Only rows that match this condition; not with avro.")
@raw_option
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@spark_options
def export(
    call: Call,
    path: str,
    name: str,
    target: str,
    form: str,
    where: str | None,
    raw: bool,
    dry_run: bool,
    **spark: Any,
) -> int:
    """Write a state of a savepoint into the new directory TARGET, using a Spark application.

    Rows have partition, key and value (avro: key and value, one file per partition; typed state
    as bytes). The file _SUCCESS in TARGET marks a complete export.
    """
    out = call.out
    with call.session() as session, driver_output(out):
        written = export_state(
            session,
            path,
            name,
            target,
            form=form,
            where=where,
            raw=raw,
            program=Program(**spark),
            dry_run=dry_run,
        )
    if dry_run and out.json:
        planned: StateExportDryRunDocument = {
            "dry_run": True,
            "operator": cast(StateRecord, written.state),
            "path": written.path,
            "format": form,
        }
        out.document(planned)
    elif dry_run:
        if not out.quiet:
            state = written.state["state"]
            out.line(f"Would write the state {state} of {name} as {form} to {written.path}")
    elif out.json:
        document: StateExportDocument = {
            "operator": cast(StateRecord, written.state),
            "export": {"path": written.path, "format": form, "rows": written.rows},
        }
        out.document(document)
    elif out.quiet:
        out.line(written.path)
    else:
        out.line(f"{written.rows:,} rows written. Path: {written.path}")
    return 0


state.add_command(show)
state.add_command(export)
