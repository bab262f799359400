"""``flinkish state export SAVEPOINT UID[/STATE] TARGET``: export a state to files."""

from __future__ import annotations

from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.options.arguments import raw_option, savepoint_argument, state_argument, words_of
from flinkish.cli.options.spark import prepared, spark_options
from flinkish.cli.output.driver_log import driver_output
from flinkish.client import state
from flinkish.messages.calls import EXPORT_FORMATS


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
    from flinkish.savepoint.format.reader import open_savepoint

    state.check_export_format(form, where)
    planned = state.plan_export(open_savepoint(path), name, target, form, where, raw=raw)
    operator, place = planned.operator, planned.place
    out = call.out
    if dry_run:
        if out.json:
            out.document({"dry_run": True, "operator": operator, "path": place, "format": form})
        else:
            out.line(f"Would write the state {operator['state']} of {name} as {form} to {place}")
        return 0
    with call.session({}) as session:
        application = prepared(session, spark)
        with driver_output(out):
            rows = state.export(session, planned, *application)
    if out.json:
        exported = {"path": place, "format": form, "rows": rows}
        out.document({"operator": operator, "export": exported})
    elif out.quiet:
        out.line(place)
    else:
        out.line(f"{rows:,} rows written. Path: {place}")
    return 0
