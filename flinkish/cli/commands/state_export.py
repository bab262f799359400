"""``flinkish state export SAVEPOINT UID[/STATE] TARGET``: export a state to files."""

from __future__ import annotations

from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.options.arguments import raw_option, savepoint_argument, state_argument, words_of
from flinkish.cli.options.spark import spark_options
from flinkish.cli.output.driver_log import driver_output
from flinkish.client.state import export_state
from flinkish.messages.calls import EXPORT_FORMATS
from flinkish.messages.launch import Program


@command("export", exit_codes=(4, 11, 15))
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
        out.document(
            {"dry_run": True, "operator": written.state, "path": written.path, "format": form}
        )
    elif dry_run:
        state = written.state["state"]
        out.line(f"Would write the state {state} of {name} as {form} to {written.path}")
    elif out.json:
        exported = {"path": written.path, "format": form, "rows": written.rows}
        out.document({"operator": written.state, "export": exported})
    elif out.quiet:
        out.line(written.path)
    else:
        out.line(f"{written.rows:,} rows written. Path: {written.path}")
    return 0
