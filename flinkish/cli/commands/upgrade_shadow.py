"""``flinkish upgrade shadow JOB``: run the new program alongside the job until a decision."""

from __future__ import annotations

from functools import partial

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.upgrade_result import show_dry_run, show_end, show_plan_of
from flinkish.cli.options.arguments import dry_run_option, job_argument
from flinkish.cli.options.new_version import new_version_options
from flinkish.cli.output.driver_log import driver_output
from flinkish.errors import UsageError
from flinkish.messages.upgrades import UpgradeKind
from flinkish.upgrade import workflows
from flinkish.upgrade.preparation import Secrets, prepare
from flinkish.upgrade.target import NewVersion


@command("shadow", exit_codes=(4, 5, 10, 12, 13, 14, 15))
@job_argument
@new_version_options
@click.option("--promote", is_flag=True, help="Let JOB's shadow take over from it.")
@click.option("--abandon", is_flag=True, help="End JOB's shadow; JOB keeps running.")
@dry_run_option
def shadow(
    call: Call, job: str, version: NewVersion, promote: bool, abandon: bool, dry_run: bool
) -> int:
    """Run a new program alongside a job, on a copy of its state, before it takes over.

    Checks as upgrade in-place does, takes a savepoint of the running job, and starts the new
    program from it as the job NAME-shadow, with its own query ids. ARGS must make it write
    elsewhere: file sinks and tables of the job are refused. The command returns once every
    query has committed its batches and has caught up, and both jobs run on; a shadow that does
    not catch up is ended: exit 1. --promote stops the job with a savepoint and gives its name
    to the shadow; --abandon ends the shadow.
    """
    if promote and abandon:
        raise UsageError(
            "--promote and --abandon are mutually exclusive", hint="use only one of them"
        )
    with call.session() as session, driver_output(session.out):
        record = session.find_job(job)
        if promote or abandon:
            secrets = Secrets.of(version.changes.program)
            decide = workflows.promote if promote else workflows.abandon
            return show_end(session, decide(session, record, secrets))
        if dry_run:
            return show_dry_run(session, prepare(session, record, version, UpgradeKind.SHADOW))
        result = workflows.upgrade(
            session,
            record,
            version,
            UpgradeKind.SHADOW,
            on_plan=partial(show_plan_of, session),
        )
        return show_end(session, result)
