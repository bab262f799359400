"""``flinkish rehearse``: a few batches of a program on a copy of the state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.options.arguments import parse_seconds, words_of
from flinkish.cli.options.origin import OriginFirst, origin_and_program
from flinkish.cli.options.program import (
    ProgramOptions,
    parallelism_option,
    program_of,
    program_options,
)
from flinkish.cli.options.restore import RestoreArguments, restore_of, restore_options
from flinkish.cli.output import rehearsals_text
from flinkish.cli.output.driver_log import driver_output
from flinkish.client import check_origin, rehearsal
from flinkish.registry.jobs import JobRecord
from flinkish.spec.rehearsals import RehearsalLimits


@dataclass(frozen=True)
class RehearseOptions(ProgramOptions, RestoreArguments):
    """The parsed options of ``rehearse``."""

    batches: int
    max_rows: int | None
    timeout: float
    sink: str | None


@command(
    "rehearse",
    exit_codes=(4, 5, 10, 11, 13, 15),
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
    help="How many batches each query runs.",
)
@click.option(
    "--max-rows",
    metavar="N",
    type=click.IntRange(min=1),
    help="Run no further batch of a query after so many input rows.",
)
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=parse_seconds,
    default="5m",
    show_default=True,
    help="How long all batches of a query may take.",
)
@click.option(
    "--sink",
    metavar="noop",
    type=click.Choice(["noop"]),
    shell_complete=words_of("noop"),
    help="Let the output of all queries go nowhere, also that of code in foreachBatch.",
)
@parallelism_option
@program_options
def rehearse(call: Call, **options: Any) -> int:
    """Run a program for a few batches on a copy of the state of a savepoint or a job.

    What check cannot know: does the program run, how fast, what does its state do? The sources are
    read from the saved positions on; checkpoints and the output of file sinks go into a directory
    of their own, which is removed. Other sinks are refused without --sink noop. The job and the
    savepoint stay as they are. Exit code 0: no query failed; 1: one did; 4, 5: as check.
    """
    given = RehearseOptions(**options)
    restore = restore_of(given)
    parallelism = given.parallelism
    flags = {
        **restore.settings(),
        "parallelism.default": None if parallelism is None else str(parallelism),
    }
    with call.session(flags) as session, driver_output(call.out):
        word, rest = check_origin.split_words(
            given.words,
            session.config,
            named=given.savepoint is not None,
            has_program=bool(given.program or given.module),
        )
        origin = None if word is None else check_origin.find_origin(session, word)
        if isinstance(origin, str):
            restore = replace(restore, savepoint=origin)
        done = rehearsal.rehearse(
            session,
            program_of(replace(given, words=rest)),
            restore,
            job=origin if isinstance(origin, JobRecord) else None,
            limits=RehearsalLimits(given.batches, given.max_rows, given.timeout),
            drop_output=given.sink is not None,
        )
    rehearsals_text.show(call.out, done)
    error = done.error()
    if error is not None:
        raise error
    return 0
