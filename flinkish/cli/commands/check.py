"""``flinkish check``: what a restore would do, before anything is touched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.options.arguments import words_of
from flinkish.cli.options.origin import (
    Origin,
    OriginFirst,
    OriginOptions,
    origin_and_program,
    origin_of,
)
from flinkish.cli.options.program import parallelism_option, program_options
from flinkish.cli.options.restore import restore_options
from flinkish.cli.output import plan_markdown
from flinkish.cli.output.plan_table import show_plan
from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import driver_output
from flinkish.client import checking
from flinkish.client.checking import Plan
from flinkish.errors import FlinkishError, UsageError
from flinkish.messages.plan import RestorePlan
from flinkish.restore.plan.plan_text import verdict_line

TEXT, JSON, MARKDOWN, GITHUB = FORMS = ("text", "json", "markdown", "github")
#: The variable with the path of the file that GitHub shows below a workflow run.
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True)
class CheckOptions(OriginOptions):
    """The parsed options of ``check``."""

    output: str | None
    form: str | None


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
    help="Save the plan of a savepoint for run --plan FILE. The plan is bound to the savepoint, "
    "the program and Spark.",
)
@click.option(
    "--format",
    "form",
    metavar="|".join(FORMS),
    type=click.Choice(FORMS),
    shell_complete=words_of(*FORMS),
    help="How the plan is shown. json: as --json. markdown: for the reviewers of a change. github: "
    f"as annotations of a workflow, and as Markdown in the file that {STEP_SUMMARY} names.",
)
@parallelism_option
@program_options
def check(call: Call, **options: Any) -> int:
    """Show what restoring a savepoint or a job with a program would do.

    The program runs to its end, but its queries are only planned: none is started, no stream is
    read and no output is written. The plan is the one that run -s carries out. Exit code 0: the
    state can be restored; 4: it cannot; 5: it can be restored with -n or another consent.

    With a JOB, running or ended, check whether APP.py could resume from the newest committed
    batch of each of the job's queries. Nothing is copied and the job is not touched. Words that
    are existing paths or URLs are savepoints, as after -s.
    """
    check_options = CheckOptions(**options)
    form = _form(call.out, check_options.form)
    origin: Origin | None = None
    try:
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
    except FlinkishError as error:
        _show_failure(call.out, form, error, origin)
        raise
    _show(call.out, form, plan, origin)
    if check_options.output is not None:  # last: the plan has been shown even if saving it fails
        plan.save(check_options.output)
    return plan.exit_code


def _form(out: Output, asked: str | None) -> str:
    """Return the form of the plan; ``--format json`` makes the output JSON."""
    if asked is None:
        return JSON if out.json else TEXT
    if out.quiet or (out.json and asked != JSON):
        flag = "-q" if out.quiet else "--json"
        raise UsageError(f"{flag} and --format {asked} are mutually exclusive", hint="name one")
    out.json = asked == JSON
    return asked


def _program_of(origin: Origin | None) -> str | None:
    return None if origin is None else origin.program.application or origin.program.module


def _annotated(origin: Origin | None) -> str | None:
    """Return the program's file for annotations; None if it is unknown or not in the checkout."""
    file = None if origin is None else origin.program.application
    return plan_markdown.in_repository(file, os.environ)


def _show(out: Output, form: str, plan: Plan, origin: Origin) -> None:
    program = _program_of(origin)
    if form == JSON:
        out.document(plan.document)
    elif form == MARKDOWN:
        out.text(plan_markdown.markdown(plan.restore_plan, program))
    elif form == GITHUB:
        out.text(plan_markdown.github_log(plan.restore_plan, _annotated(origin)))
        _summarize(out, plan_markdown.markdown(plan.restore_plan, program))
    elif out.quiet:
        out.line(plan.verdict)
    else:
        show_plan(plan.restore_plan)
        out.line(verdict_line(plan.restore_plan))


def _show_failure(out: Output, form: str, error: FlinkishError, origin: Origin | None) -> None:
    """Show why there is no plan, to readers who do not see stderr."""
    program = _program_of(origin)
    if form == MARKDOWN:
        out.text(plan_markdown.failure_markdown(error, program))
    elif form == GITHUB:
        out.text(plan_markdown.failure_annotation(error, _annotated(origin)))
        _summarize(out, plan_markdown.failure_markdown(error, program))


def _summarize(out: Output, text: str) -> None:
    """Append Markdown to GitHub's summary of the step; a failure is only a warning."""
    path = os.environ.get(STEP_SUMMARY)
    if path:
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            out.warning(f"cannot write {STEP_SUMMARY}: {error}")
