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
from flinkish.registry.jobs import JobRecord
from flinkish.spec.upgrades import UpgradeKind
from flinkish.upgrade.preparation import Ready, check_agreed, rehearse
from flinkish.upgrade.takeover import begin


@command("in-place", exit_codes=(4, 5, 10, 12, 13, 14, 15))
@job_argument
@new_version_options
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
@dry_run_option
def in_place(
    call: Call, job: str, rehearsed: bool, handover: bool, dry_run: bool, **options: Any
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
