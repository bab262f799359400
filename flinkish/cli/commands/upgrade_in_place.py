"""``flinkish upgrade in-place JOB``: stop it with a savepoint, start the new one, or go back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.upgrade_result import carry_out
from flinkish.cli.options.arguments import (
    complete_file,
    dry_run_option,
    job_argument,
    parse_seconds,
    savepoint_path_option,
    timeout_option,
)
from flinkish.cli.options.program import parallelism_option, secret_args_option
from flinkish.cli.options.restore import new_program_options
from flinkish.cli.options.spark import spark_options
from flinkish.cli.output import rehearsals_text
from flinkish.cli.output.driver_log import driver_output
from flinkish.cli.output.plan_table import show_plan
from flinkish.cli.session import Session
from flinkish.client import requests
from flinkish.client.program import program_file
from flinkish.registry.jobs import JobRecord, RestoreSpec
from flinkish.restore.plan.plan_text import verdict_line
from flinkish.spec.upgrades import Health
from flinkish.upgrade.in_place import begin
from flinkish.upgrade.preparation import Ready, check_agreed, prepare, rehearse
from flinkish.upgrade.target import Changes


@command("in-place", exit_codes=(4, 5, 10, 12, 13, 14, 15))
@job_argument
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--to",
    "application",
    metavar="APP.py",
    type=click.Path(),
    shell_complete=complete_file,
    help="The new program. Default: the same. ARGS are its arguments (behind -- where they look "
    "like options); default: as the job was started.",
)
@new_program_options
@parallelism_option
@spark_options
@secret_args_option
@savepoint_path_option()
@click.option(
    "--health-batches",
    metavar="N",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Every query of the new program has to commit so many batches.",
)
@click.option(
    "--health-timeout",
    metavar="DURATION",
    callback=parse_seconds,
    default="5m",
    show_default=True,
    help="How long its start may take, and again these batches.",
)
@click.option(
    "--rehearse",
    "rehearsed",
    is_flag=True,
    help="First run some batches of the new program on a copy of the state, without output.",
)
@click.option(
    "--handover",
    is_flag=True,
    help="Start the driver of the new program first, and stop the job when it is ready.",
)
@timeout_option
@dry_run_option
def in_place(
    call: Call,
    job: str,
    arguments: tuple[str, ...],
    application: str | None,
    parallelism: int | None,
    target: str | None,
    health_batches: int,
    health_timeout: float,
    rehearsed: bool,
    handover: bool,
    timeout: float | None,
    dry_run: bool,
    **options: Any,
) -> int:
    """Upgrade a running job: to another program, another Spark, other settings.

    Checks first, against the running job, whether the new program would go on; if not, exit 4 or 5
    and nothing is touched. Then the job is stopped with a savepoint, and the new program started
    from it. What is not given is as the job was started. When the new program does not start, or
    does not commit its batches in time, it is ended and the old one started again from the same
    savepoint: exit 1. An interrupted upgrade is finished or undone by: upgrade resume, upgrade
    rollback.

    With --handover there are two drivers for a while: the new program runs up to its first query
    and is held there. Only then is the job stopped, so that hardly any time passes between its last
    batch and the first of the new program. If the new program does not come so far, the job goes
    on.
    """
    with call.session() as session, driver_output(session.out):
        found = session.find_job(job)
        ready = prepare(
            session,
            found,
            _changes(application, arguments, parallelism, options),
            restore=RestoreSpec(
                "",
                allow_non_restored=options["allow_non_restored"],
                uid_map=options["uid_map"],
                reset_sources=options["reset_sources"],
                sink_ahead=options["sink_ahead"],
                parallelism=parallelism,
            ),
            target=requests.savepoint_target(session, target, found),
            timeout=session.timeout(timeout),
            health=Health(health_batches, health_timeout),
            handover=handover,
        )
        if dry_run:
            return _show_dry_run(session, ready)
        if not (session.out.json or session.out.quiet):
            show_plan(ready.plan.document)
        check_agreed(ready)
        if rehearsed:
            _rehearse(session, found, ready)
        return carry_out(session, begin(session, ready))


def _rehearse(session: Session, job: JobRecord, ready: Ready) -> None:
    """Rehearse an upgrade; raise ProgramFailed when a batch failed."""
    done = rehearse(session, job, ready)
    if not session.out.json:
        rehearsals_text.show(session.out, done)
    error = done.error()
    if error is not None:
        raise error


def _changes(
    application: str | None,
    arguments: tuple[str, ...],
    parallelism: int | None,
    options: Mapping[str, Any],
) -> Changes:
    if application is not None:
        application = program_file(application, os.getcwd())
    home = options["spark_home"]
    return Changes(
        application=application,
        arguments=arguments or None,
        secret_arguments=options["secret_arguments"] or None,
        master=options["master"],
        spark_home=os.path.abspath(os.path.expanduser(home)) if home else None,
        python=options["python"],
        client_python=options["client_python"],
        conf=options["conf"],
        parallelism=parallelism,
        working_directory=None if application is None else os.getcwd(),
    )


def _show_dry_run(session: Session, ready: Ready) -> int:
    out = session.out
    if out.json:
        out.document(
            {"dry_run": True, "job_id": ready.upgrade.job_id, "steps": ready.steps()}
            | {"plan": ready.plan.document}
        )
    elif not out.quiet:
        show_plan(ready.plan.document)
        out.line(verdict_line(ready.plan.document))
        for line in ready.steps():
            out.line(line)
    return ready.plan.exit_code
