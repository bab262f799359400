"""``flinkish state export SAVEPOINT UID[/STATE] TARGET``: a state as files for other tools."""

from __future__ import annotations

import os
from typing import Any

import click

from flinkish.cli.arguments import words_of
from flinkish.cli.base import Call, command
from flinkish.cli.driver_output import driver_output
from flinkish.cli.spark_options import prepared, spark_options
from flinkish.cli.state_options import open_named, savepoint_argument, state_argument
from flinkish.errors import UsageError
from flinkish.jobs import stateexporter


@command("export", exit_codes=(4, 11, 15))
@savepoint_argument
@state_argument
@click.argument("target", metavar="TARGET", type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice(stateexporter.FORMATS, case_sensitive=False),
    shell_complete=words_of(*stateexporter.FORMATS),
    default="parquet",
    show_default=True,
    help="What the files are.",
)
@click.option("--where", metavar="SQL", help="Only rows of which it is true; not with avro.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@spark_options
def export(
    call: Call,
    path: str,
    name: str,
    target: str,
    form: str,
    where: str | None,
    dry_run: bool,
    **spark: Any,
) -> int:
    """Write a state of a savepoint into the new directory TARGET, by a Spark application.

    Rows have partition, key and value (avro: key and value, a file for each partition). The file
    _SUCCESS in TARGET says that all of it is there.
    """
    from flinkish import storage
    from flinkish.savepoint.reader import open_savepoint

    if where is not None and form == "avro":
        raise UsageError(
            "--where is not for --format avro, which writes whole partitions",
            hint="use --format parquet or json",
        )
    savepoint = open_savepoint(path)
    state = open_named(savepoint, name)
    place = storage.locate(target)
    if storage.exists(place):
        raise UsageError(f"the target exists: {target}", hint="name a directory that does not")
    operator = state.describe()
    out = call.out
    if dry_run:
        if out.json:
            out.document({"dry_run": True, "operator": operator, "path": place, "format": form})
        else:
            out.line(f"Would write the state {operator['state']} of {name} as {form} to {place}")
        return 0
    with call.session({}) as session:
        launch, installation = prepared(session, spark)
        out.note(f"writing the state {operator['state']} as {form} to {place} ...")
        with driver_output(out) as show_log:
            answer = stateexporter.run_state_task(
                stateexporter.StateTask(
                    savepoint.path, name, target=place, format=form, where=where
                ),
                launch,
                installation,
                environ=os.environ,
                show_log=show_log,
            )
    if out.json:
        exported = {"path": place, "format": form, "rows": answer["exported"]}
        out.document({"operator": operator, "export": exported})
    elif out.quiet:
        out.line(place)
    else:
        out.line(f"{answer['exported']:,} rows written. Path: {place}")
    return 0
