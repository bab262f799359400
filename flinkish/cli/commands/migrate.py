"""``flinkish migrate PATH TARGET``: make a new savepoint with the rewritten state of an old one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.request_result import completed, summary_document
from flinkish.cli.documents.programs import (
    MigrateDocument,
    MigrateDryRunDocument,
    PlannedRewriteRecord,
)
from flinkish.cli.options.arguments import words_of
from flinkish.cli.options.program import spark_options
from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import driver_output
from flinkish.client import migration
from flinkish.errors import UsageError
from flinkish.messages.launch import Program
from flinkish.messages.migration import MigrationResult
from flinkish.units import size_text

if TYPE_CHECKING:
    from flinkish.savepoint.state.migration_targets import PlannedRewrite

_BACKENDS = ("hdfs", "rocksdb")
_CODECS = ("lz4", "zstd", "snappy", "lzf")


def _schema(text: str) -> tuple[str, Any]:
    """Return the name and the file's schema of ``UID[/STATE]=FILE.avsc``; UsageError if invalid."""
    name, equals, file = text.partition("=")
    if not (name and equals and file):
        raise UsageError(
            f"--schema {text!r} is not UID[/STATE]=FILE.avsc",
            hint="name the operator by its uid, as `flinkish savepoint show` prints it",
        )
    try:
        with open(file, encoding="utf-8") as source:
            return name, json.load(source)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the schema {file}: {error}") from error


@command(
    "migrate", exit_codes=(4, 11, 12, 15, 16), documents=(MigrateDocument, MigrateDryRunDocument)
)
@click.argument("path", metavar="PATH", type=click.Path())
@click.argument("target", metavar="TARGET", type=click.Path())
@click.option(
    "-p",
    "--parallelism",
    "partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="State partitions (spark.sql.shuffle.partitions) of the new savepoint.",
)
@click.option(
    "--backend",
    type=click.Choice(_BACKENDS, case_sensitive=False),
    shell_complete=words_of(*_BACKENDS),
    help="State store backend of the new savepoint.",
)
@click.option(
    "-type",
    "--type",
    "type_",
    type=click.Choice(("native", "canonical"), case_sensitive=False),
    shell_complete=words_of("native", "canonical"),
    help="canonical: state as Avro files; native: files of Spark's state backend.",
)
@click.option(
    "--schema",
    "schema_files",
    metavar="UID[/STATE]=FILE.avsc",
    multiple=True,
    help="New Avro schema for an operator's values, resolved according to Avro's rules "
    "(repeatable).",
)
@click.option(
    "--compression",
    type=click.Choice(_CODECS, case_sensitive=False),
    shell_complete=words_of(*_CODECS),
    help="Compression codec of the state files.",
)
@click.option(
    "--checkpoint-format",
    type=click.IntRange(1, 2),
    metavar="1|2",
    help="Spark's checkpoint format: 2 names state files by unique ids (Spark 4, RocksDB).",
)
@click.option(
    "--join-format", type=click.IntRange(1, 4), metavar="N", help="State format of joins."
)
@click.option(
    "--aggregation-format",
    type=click.IntRange(1, 2),
    metavar="1|2",
    help="State format of aggregations.",
)
@click.option(
    "--group-format",
    type=click.IntRange(1, 2),
    metavar="1|2",
    help="State format of grouped functions (applyInPandasWithState).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@spark_options
def migrate(
    call: Call,
    path: str,
    target: str,
    partitions: int | None,
    backend: str | None,
    type_: str | None,
    schema_files: tuple[str, ...],
    compression: str | None,
    checkpoint_format: int | None,
    join_format: int | None,
    aggregation_format: int | None,
    group_format: int | None,
    dry_run: bool,
    **spark: Any,
) -> int:
    """Rewrite the state of the savepoint PATH into a new savepoint in TARGET.

    The state's partitions, backend, schemas and formats can change in one pass, in a separate
    Spark application. PATH is not changed. Everything you do not specify stays as it is. Rows
    are counted and digested before and after.
    """
    changes = migration.Changes(
        partitions=partitions,
        backend=backend,
        type=type_,
        compression=compression,
        checkpoint_format=checkpoint_format,
        join_format=join_format,
        aggregation_format=aggregation_format,
        group_format=group_format,
    )
    schemas = tuple(_schema(text) for text in schema_files)
    program = Program(**spark)
    with call.session() as session:
        if dry_run:
            plan = migration.plan_migration(session, path, target, changes, schemas, program)
            _show_plan(call.out, plan)
            return 0
        with driver_output(call.out), session.reporter.live():
            result = migration.migrate(session, path, target, changes, schemas, program)
    _show(call.out, result)
    return 0


def _show_plan(out: Output, plan: migration.MigrationPlan) -> None:
    requested = plan.migration
    changes = {
        "state partitions": requested.partitions,
        "backend": requested.backend,
        "type": requested.type,
        "compression": requested.compression,
        "checkpoint format": requested.checkpoint_format,
        **{pin.rpartition("streaming.")[2]: version for pin, version in requested.formats.items()},
        **{f"schema of {schema.name}": "new" for schema in requested.schemas},
    }
    asked = {key: value for key, value in changes.items() if value is not None}
    if out.json:
        planned: MigrateDryRunDocument = {
            "dry_run": True,
            "path": plan.savepoint,
            "changes": asked,
            "operators": [_planned(each) for each in plan.operators],
        }
        out.document(planned)
    if out.json or out.quiet:
        return
    out.line(f"Would rewrite {plan.savepoint} into a new savepoint below {requested.target}:")
    for key, value in asked.items():
        out.line(f"  {key}: {value}")
    if not asked:
        out.line("  no changes: the state is rewritten as it is")
    for each in plan.operators:
        name = f"'{each.uid}'" if each.uid else f"operator {each.ordinal}"
        out.line(f"{name} of {each.query} ({each.kind or 'unknown kind'}):")
        out.line(f"  partitions: {_change(each.partitions)}, backend: {_change(each.backend)}")
        out.line(f"  rows: {_way(each.shuffle)}")
        for line in each.changes:
            out.line(f"  {line}")


def _way(shuffle: str | None) -> str:
    return "without a shuffle" if shuffle is None else f"shuffled: {shuffle}"


def _change(both: tuple[object, object]) -> str:
    before, after = both
    return str(before) if before == after else f"{before} -> {after}"


def _planned(each: PlannedRewrite) -> PlannedRewriteRecord:
    return {
        "query": each.query,
        "uid": each.uid,
        "ordinal": each.ordinal,
        "kind": each.kind,
        "partitions": {"before": each.partitions[0], "after": each.partitions[1]},
        "backend": {"before": each.backend[0], "after": each.backend[1]},
        "shuffle": each.shuffle,
        "changes": list(each.changes),
    }


def _show(out: Output, result: MigrationResult) -> None:
    savepoint = result.savepoint
    if out.json:
        document: MigrateDocument = {
            "savepoint": summary_document(savepoint),
            "operators": list(result.operators),
        }
        out.document(document)
    elif out.quiet:
        out.line(savepoint.path)
    else:
        for operator in result.operators:
            name = operator.uid or f"operator {operator.ordinal}"
            out.line(
                f"{name} of {operator.query}: {operator.rows:,} rows, "
                f"{size_text(operator.bytes)}, digest {operator.content}, "
                f"{_way(operator.shuffle)}{', native' if operator.native else ''}"
            )
        out.line(completed(savepoint))
