"""``flinkish upgrade shadow JOB``: run the new program alongside the job until a decision."""

from __future__ import annotations

from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.upgrade_result import carry_out, show_dry_run
from flinkish.cli.options.arguments import dry_run_option, job_argument
from flinkish.cli.options.new_version import NewVersion, new_version_options, prepared
from flinkish.cli.output.driver_log import driver_output
from flinkish.cli.output.plan_table import show_plan
from flinkish.cli.session import Session
from flinkish.errors import UsageError
from flinkish.messages.upgrades import UpgradeKind
from flinkish.registry.jobs import JobRecord
from flinkish.upgrade import takeover
from flinkish.upgrade.preparation import Secrets, check_agreed
from flinkish.upgrade.shadow import check_apart, find_shadow


@command("shadow", exit_codes=(4, 5, 10, 12, 13, 14, 15))
@job_argument
@new_version_options
@click.option("--promote", is_flag=True, help="Let JOB's shadow take over from it.")
@click.option("--abandon", is_flag=True, help="End JOB's shadow; JOB keeps running.")
@dry_run_option
def shadow(
    call: Call, job: str, promote: bool, abandon: bool, dry_run: bool, **options: Any
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
    given = NewVersion(**options)
    with call.session() as session, driver_output(session.out):
        found = session.find_job(job)
        if promote or abandon:
            return _decide(session, found, given, promote=promote)
        ready = prepared(session, found, given, UpgradeKind.SHADOW)
        for warning in check_apart(session, found, ready.plan.restore_plan):
            session.out.warning(warning)
        if dry_run:
            return show_dry_run(session, ready)
        if not (session.out.json or session.out.quiet):
            show_plan(ready.plan.restore_plan)
        check_agreed(ready)
        return carry_out(session, takeover.begin(session, ready))


def _decide(session: Session, job: JobRecord, given: NewVersion, *, promote: bool) -> int:
    upgrade = find_shadow(session, job)
    secrets = Secrets(given.program.conf, given.program.secret_arguments or None)
    if promote:
        left = takeover.promote(session, upgrade.upgrade_id, secrets)
    else:
        left = takeover.rollback(session, upgrade.upgrade_id, secrets)
    return carry_out(session, left, asked_back=not promote)
