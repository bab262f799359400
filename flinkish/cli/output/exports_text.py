"""The checkpoints of an export, and what to write into the program."""

from __future__ import annotations

from collections.abc import Iterator

from flinkish.cli.output.printer import Output
from flinkish.client.exporting import ExportedCheckpoint, ExportResult
from flinkish.messages.codec import encode_fields


def show(out: Output, result: ExportResult) -> None:
    """Show the checkpoints: with ``-q`` only their locations."""
    if out.json:
        out.document(encode_fields(result))
        return
    if out.quiet:
        for checkpoint in result.checkpoints:
            out.line(checkpoint.location)
        return
    for checkpoint in result.checkpoints:
        for line in _lines(checkpoint):
            out.line(line)
    for name in result.new_queries:
        out.line(f"query {name} has no saved state: it starts in a new checkpoint")
    if result.spark_version is None:
        out.line("readable by the Spark that wrote the state, which is not recorded")
    else:
        out.line(f"readable by Spark {result.spark_version}")
    if result.replaced is not None:
        out.line(f"the replaced checkpoint is kept at {result.replaced}")
    for warning in result.warnings:
        out.warning(warning)


def _lines(checkpoint: ExportedCheckpoint) -> Iterator[str]:
    kept = checkpoint.kept_query_id
    which = "same query id" if kept.keep else "new query id"
    reason = f": {kept.reason}" if kept.reason else ""
    yield f"query {checkpoint.query} continues after batch {checkpoint.batch_id} ({which}{reason})"
    yield f'  .option("checkpointLocation", "{checkpoint.location}")'
    for key, value in checkpoint.settings.items():
        yield f'  spark.conf.set("{key}", "{value}")'
    if checkpoint.partitions is not None:
        yield f"  pinned: {checkpoint.partitions} state partitions, and the state's formats"
    for note in checkpoint.notes:
        yield f"  {note}"
