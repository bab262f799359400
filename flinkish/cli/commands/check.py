"""``flinkish check``: what a restore would do, before anything is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.options.origin import OriginFirst, OriginOptions, origin_and_program, origin_of
from flinkish.cli.options.program import parallelism_option, program_options
from flinkish.cli.options.restore import restore_options
from flinkish.cli.output.plan_table import show_plan
from flinkish.cli.output.progress import driver_output
from flinkish.client import checking
from flinkish.messages.plan import RestorePlan
from flinkish.restore.plan.plan_text import verdict_line


@dataclass(frozen=True)
class CheckOptions(OriginOptions):
    """The parsed options of ``check``."""

    output: str | None


@command(
    "check",
    exit_codes=(4, 5, 10, 11, 13, 15),
    documents=(RestorePlan,),
    cls=OriginFirst,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@origin_and_program
@restore_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="Save the plan for run --plan FILE. It is bound to the savepoint, the program and Spark.",
)
@parallelism_option
@program_options
def check(call: Call, **options: Any) -> int:
    """Show what restoring a savepoint or a job with a program would do.

    The program runs to its end, but its queries are only planned: none is started, no stream is
    read and nothing is written. The plan is the one that run -s carries out. Exit code 0: can
    be restored; 4: cannot; 5: can be restored with -n or another consent.

    With a JOB, running or ended, check whether APP.py could resume from it if it stopped now.
    This reads the newest committed batch of each query; nothing is copied and the job is not
    touched. Existing paths and URLs are savepoints, as after -s.
    """
    check_options = CheckOptions(**options)
    with call.session(check_options.settings()) as session, driver_output(call.out):
        origin = origin_of(session, check_options)
        plan = checking.check(
            session,
            origin.program,
            origin.savepoint,
            check_options.restore,
            job=origin.job,
            to_save=check_options.output is not None,
        )
    if call.out.json:
        call.out.document(plan.document)
    elif call.out.quiet:
        call.out.line(plan.verdict)
    else:
        show_plan(plan.restore_plan)
        call.out.line(verdict_line(plan.restore_plan))
    if check_options.output is not None:  # last: the plan has been shown even if saving it fails
        plan.save(check_options.output)
    return plan.exit_code
