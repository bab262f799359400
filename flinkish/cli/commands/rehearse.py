"""``flinkish rehearse``: a few batches of a program on a copy of the state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.documents.programs import RehearseDocument
from flinkish.cli.options.arguments import parse_seconds, words_of
from flinkish.cli.options.origin import OriginFirst, OriginOptions, origin_and_program, origin_of
from flinkish.cli.options.program import parallelism_option, program_options
from flinkish.cli.options.restore import restore_options
from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import driver_output
from flinkish.client import rehearsal
from flinkish.client.rehearsal import RehearsalResult
from flinkish.messages.rehearsals import RehearsalLimits, RehearsedQuery
from flinkish.units import table


@dataclass(frozen=True)
class RehearseOptions(OriginOptions):
    """The parsed options of ``rehearse``."""

    batches: int
    max_rows: int | None
    timeout: float
    sink: str | None


@command(
    "rehearse",
    exit_codes=(4, 5, 10, 11, 13, 15),
    documents=(RehearseDocument,),
    cls=OriginFirst,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@origin_and_program
@restore_options
@click.option(
    "--batches",
    metavar="N",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Number of batches that each query runs.",
)
@click.option(
    "--max-rows",
    metavar="N",
    type=click.IntRange(min=1),
    help="Start no further batch of a query after this many input rows.",
)
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=parse_seconds,
    default="5m",
    show_default=True,
    help="Time limit for all batches of a query.",
)
@click.option(
    "--sink",
    metavar="noop",
    type=click.Choice(["noop"]),
    shell_complete=words_of("noop"),
    help="Discard the output of all queries; code in foreachBatch does not run.",
)
@parallelism_option
@program_options
def rehearse(call: Call, **options: Any) -> int:
    """Run a program for a few batches on a copy of the state of a savepoint or a job.

    This shows what check cannot: whether the program runs, how fast it runs, and what happens to
    its state. Sources are read from the saved positions. Checkpoints and the output of file sinks
    go into a temporary directory; without --sink noop, all other sinks are refused except
    console, memory and noop. The job and the savepoint are not changed. Exit code 0: no query
    failed; 1: one did; 4 and 5 mean the same as for check.
    """
    rehearse_options = RehearseOptions(**options)
    with call.session(rehearse_options.settings()) as session, driver_output(call.out):
        origin = origin_of(session, rehearse_options)
        result = rehearsal.rehearse(
            session,
            origin.program,
            origin.savepoint,
            rehearse_options.restore,
            job=origin.job,
            limits=RehearsalLimits(
                rehearse_options.batches, rehearse_options.max_rows, rehearse_options.timeout
            ),
            drop_output=rehearse_options.sink is not None,
        )
    show_rehearsal(call.out, result)
    error = result.error()
    if error is not None:
        raise error
    return 0


def show_rehearsal(out: Output, done: RehearsalResult) -> None:
    """Show what became of a rehearsal: a row for each query."""
    if out.json:
        rehearsed: RehearseDocument = {
            "queries": list(done.queries),
            "warnings": list(done.warnings),
        }
        out.document(rehearsed)
        return
    for warning in done.warnings:
        out.warning(warning)
    if out.quiet:
        return
    head = ("QUERY", "BATCHES", "ROWS IN", "ROWS OUT", "STATE ROWS", "ROWS/S", "JOB'S ROWS/S")
    rows = [tuple(_row(query)) for query in done.queries]
    for line in table(head, rows, right="123456"):
        out.line(line)


def _row(query: RehearsedQuery) -> Iterator[str]:
    states = [batch.state_rows for batch in query.batches if batch.state_rows is not None]
    rate, before = query.rows_per_second, query.job_rows_per_second
    yield query.name
    yield str(len(query.batches))
    yield f"{query.input_rows:,}"
    yield "-" if query.output_rows is None else f"{query.output_rows:,}"
    yield "-" if not states else f"{states[-1]:,} ({states[-1] - states[0]:+,})"
    yield "-" if rate is None else f"{rate:,.0f}"
    yield "-" if before is None else f"{before:,.0f}"
