"""``flinkish export``: plain Spark checkpoints, and what to write into a program that uses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from flinkish.cli.base import Call, Command, command, end_of_options
from flinkish.cli.options.arguments import complete_file
from flinkish.cli.options.origin import OriginOptions
from flinkish.cli.options.program import named_by, parallelism_option, program_options
from flinkish.cli.options.restore import restore_options
from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import driver_output
from flinkish.client import exporting
from flinkish.client.exporting import ExportedCheckpoint, ExportResult
from flinkish.errors import UsageError
from flinkish.messages.codec import encode_fields
from flinkish.registry.jobs import JobRecord

_NAMED = {"-s", "--fromSavepoint"}
_REPLACES = "--in-place-of"
_USAGE = "flinkish export SAVEPOINT DIR [APP.py [ARGS]...]"


@dataclass(frozen=True)
class ExportOptions(OriginOptions):
    """The parsed options of ``export``."""

    query: str | None
    replaces: str | None

    @property
    def leading(self) -> tuple[str, ...]:
        """The names of the arguments before the program, without those that an option replaces."""
        words = (("SAVEPOINT", self.savepoint), ("DIR", self.replaces))
        return tuple(name for name, option in words if option is None)


class PlacesFirst(Command):
    """A command that accepts options between and after the words that precede its program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the leading words behind the options after them: ``SAVEPOINT DIR --fork APP.py``."""
        rest, options, words = list(args), list[str](), list[str]()
        while True:
            at = end_of_options(self, rest)
            options, rest = [*options, *rest[:at]], rest[at:]
            if rest[:1] == ["--"]:
                return super().parse_args(ctx, [*options, "--", *words, *rest[1:]])
            flags = {word.partition("=")[0] for word in options}
            leading = 2 - bool(flags & _NAMED) - (_REPLACES in flags)
            if not rest or len(words) >= leading:
                return super().parse_args(ctx, [*options, *words, *rest])
            words.append(rest.pop(0))


@command(
    "export",
    exit_codes=(4, 5, 10, 11, 13, 15),
    documents=(ExportResult,),
    cls=PlacesFirst,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.argument(
    "words",
    metavar="SAVEPOINT DIR [APP.py [ARGS]...]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_file,
)
@restore_options
@click.option(
    "--query",
    metavar="NAME",
    help="Export only this query; the program must still be able to restore all queries.",
)
@click.option(
    _REPLACES,
    "replaces",
    metavar="PATH",
    type=click.Path(),
    help="Instead of DIR: replace this checkpoint of a program with that of the query; the old "
    "checkpoint is kept beside it.",
)
@parallelism_option
@program_options
def export(call: Call, **options: Any) -> int:
    """Make plain Spark checkpoints from a savepoint, so that programs continue without flinkish.

    Each query gets a directory in DIR for its checkpointLocation. Without APP.py the state stays
    as it is, and no JVM is started. With APP.py, the plan of check is carried out: the program
    runs to its end and none of its queries is started; the checkpoints are for the Spark that
    runs the program. SAVEPOINT may also be a plain checkpoint, or a job that has ended. A
    local DIR is created only when all checkpoints are complete; on remote storage the logs of a
    checkpoint are written after everything else in it. Exit codes 4 and 5 mean the same as for
    check.
    """
    parsed = ExportOptions(**options)
    with call.session(parsed.settings()) as session, driver_output(call.out):
        words = parsed.program.arguments
        names = parsed.leading
        if len(words) < len(names):
            raise UsageError(f"no {names[len(words)]} was specified", hint=_USAGE)
        places = dict(zip(names, words, strict=False))
        program = named_by(words[len(names) :], parsed.program)
        origin = session.find_origin(places["SAVEPOINT"]) if "SAVEPOINT" in places else None
        result = exporting.export(
            session,
            program if program.application or program.module else None,
            origin if isinstance(origin, str) else parsed.savepoint,
            places.get("DIR"),
            parsed.restore,
            job=origin if isinstance(origin, JobRecord) else None,
            parallelism=parsed.parallelism,
            query=parsed.query,
            replaces=parsed.replaces,
        )
    show(call.out, result)
    return 0


def show(out: Output, result: ExportResult) -> None:
    """Show the checkpoints: with ``-q`` only their locations."""
    if out.json:
        out.document(encode_fields(result))
        return
    _show(out, result)
    for warning in result.warnings:
        out.warning(warning)


def _show(out: Output, result: ExportResult) -> None:
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
        out.line("readable by the Spark that wrote the state; its version is not recorded")
    else:
        out.line(f"readable by Spark {result.spark_version}")
    if result.replaced is not None:
        out.line(f"the replaced checkpoint is kept at {result.replaced}")


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
