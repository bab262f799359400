"""``flinkish check``: what a restore would do, before anything is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.options.program import (
    ProgramOptions,
    parallelism_option,
    program_of,
    program_options,
    program_words,
)
from flinkish.cli.options.restore import (
    RestoreArguments,
    restore_of,
    restore_options,
)
from flinkish.cli.output.driver_log import driver_output
from flinkish.cli.output.plan_table import show_plan
from flinkish.client import checking
from flinkish.restore.plan.plan_text import verdict_line


@dataclass(frozen=True)
class CheckOptions(ProgramOptions, RestoreArguments):
    """The parsed options of ``check``."""

    output: str | None


@command(
    "check",
    exit_codes=(4, 5, 11, 15),
    context_settings={"allow_interspersed_args": False},
    options_metavar="-s PATH [OPTIONS]",
)
@program_words
@restore_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="Save the plan, for run --plan FILE: bound to the savepoint, the program and Spark.",
)
@parallelism_option
@program_options
def check(call: Call, **options: Any) -> int:
    """Show what restoring a savepoint with a program would do, without doing it.

    The program runs to its end, but its queries are only planned: none is started, no stream is
    read and nothing is written. The plan is the one that run -s carries out. Exit code 0: it can be
    restored; 4: it cannot; 5: it can with -n or another consent.
    """
    given = CheckOptions(**options)
    restore = restore_of(given)
    parallelism = given.parallelism
    flags = {
        **restore.settings(),
        "parallelism.default": None if parallelism is None else str(parallelism),
    }
    with call.session(flags) as session, driver_output(call.out):
        plan = checking.check(session, program_of(given), restore)
    if call.out.json:
        call.out.document(plan.document)
    elif call.out.quiet:
        call.out.line(plan.verdict)
    else:
        show_plan(plan.document)
        call.out.line(verdict_line(plan.document))
    if given.output is not None:  # last: the plan has been shown even if saving it fails
        plan.save(given.output)
    return plan.exit_code
