"""``flinkish upgrade in-place JOB``: stop it with a savepoint, start the new one, or go back."""

from __future__ import annotations

from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.upgrade_result import carry_out, show_dry_run
from flinkish.cli.options.arguments import (
    dry_run_option,
    job_argument,
)
from flinkish.cli.options.new_version import NewVersion, new_version_options, prepared
from flinkish.cli.output import rehearsals_text
from flinkish.cli.output.driver_log import driver_output
from flinkish.cli.output.plan_table import show_plan
from flinkish.cli.session import Session
from flinkish.messages.upgrades import UpgradeKind
from flinkish.registry.jobs import JobRecord
from flinkish.upgrade.preparation import Ready, check_agreed, rehearse
from flinkish.upgrade.takeover import begin


@command("in-place", exit_codes=(4, 5, 10, 12, 13, 14, 15))
@job_argument
@new_version_options
@click.option(
    "--rehearse",
    "rehearsed",
    is_flag=True,
    help="First run a few batches of the new program on a copy of the state, without output.",
)
@click.option(
    "--handover",
    is_flag=True,
    help="Start the new program's driver first, and stop the job once it is ready.",
)
@dry_run_option
def in_place(
    call: Call, job: str, rehearsed: bool, handover: bool, dry_run: bool, **options: Any
) -> int:
    """Upgrade a running job: to another program, another Spark, other settings.

    First checks against the running job whether the new program could resume; if not, exits
    with 4 or 5 and touches nothing. Then stops the job with a savepoint and starts the new
    program from it. Everything you do not specify stays as the job was started. If the new
    program does not start, or does not commit its batches in time, it is ended and the old one
    is restarted from the same savepoint: exit 1. Finish or undo an interrupted upgrade with
    upgrade resume or upgrade rollback.

    With --handover, two drivers run for a while: the new program runs up to its first query and
    is held there. Only then is the job stopped, so that the pause between its last batch and
    the new program's first is short. If the new program does not get that far, the job keeps
    running.
    """
    with call.session() as session, driver_output(session.out):
        found = session.find_job(job)
        kind = UpgradeKind.HANDOVER if handover else UpgradeKind.IN_PLACE
        ready = prepared(session, found, NewVersion(**options), kind)
        if dry_run:
            return show_dry_run(session, ready)
        if not (session.out.json or session.out.quiet):
            show_plan(ready.plan.restore_plan)
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
