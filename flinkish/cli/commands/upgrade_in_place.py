"""``flinkish upgrade in-place JOB``: stop it with a savepoint, start the new one, or go back."""

from __future__ import annotations

from functools import partial

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.upgrade_result import show_dry_run, show_end, show_plan_of
from flinkish.cli.options.arguments import dry_run_option, job_argument
from flinkish.cli.options.new_version import new_version_options
from flinkish.cli.output import rehearsals_text
from flinkish.cli.output.driver_log import driver_output
from flinkish.cli.output.printer import Output
from flinkish.client.rehearsal import RehearsalResult
from flinkish.messages.upgrades import UpgradeKind
from flinkish.upgrade.preparation import prepare
from flinkish.upgrade.target import NewVersion
from flinkish.upgrade.workflows import upgrade


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
    call: Call, job: str, version: NewVersion, rehearsed: bool, handover: bool, dry_run: bool
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
        record = session.find_job(job)
        kind = UpgradeKind.HANDOVER if handover else UpgradeKind.IN_PLACE
        if dry_run:
            return show_dry_run(session, prepare(session, record, version, kind))
        result = upgrade(
            session,
            record,
            version,
            kind,
            rehearsed=rehearsed,
            on_plan=partial(show_plan_of, session),
            on_rehearsal=partial(_show_rehearsal, session.out),
        )
        return show_end(session, result)


def _show_rehearsal(out: Output, result: RehearsalResult) -> None:
    if not out.json:  # its one document is about the upgrade
        rehearsals_text.show(out, result)
