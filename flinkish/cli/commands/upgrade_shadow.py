"""``flinkish upgrade shadow JOB``: the new program beside the job, until somebody decides."""

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
from flinkish.registry.jobs import JobRecord
from flinkish.spec.upgrades import UpgradeKind
from flinkish.upgrade import takeover
from flinkish.upgrade.preparation import Secrets, check_agreed
from flinkish.upgrade.shadow import check_apart, find_shadow


@command("shadow", exit_codes=(4, 5, 10, 12, 13, 14, 15))
@job_argument
@new_version_options
@click.option("--promote", is_flag=True, help="Let the shadow that JOB has take over from it.")
@click.option("--abandon", is_flag=True, help="End the shadow that JOB has; JOB goes on.")
@dry_run_option
def shadow(
    call: Call, job: str, promote: bool, abandon: bool, dry_run: bool, **options: Any
) -> int:
    """Run a new program beside a job, on a copy of its state, before it takes over.

    Checks as upgrade in-place, takes a savepoint of the job, which goes on, and starts the new
    program from it as the job NAME-shadow, with query ids of its own. Its ARGS have to let it write
    elsewhere: a file sink or a table of the job is refused. It is watched until every query has
    committed its batches and has caught up; if it does not, it is ended: exit 1. Then both run.
    --promote stops the job with a savepoint and gives the shadow its name; --abandon ends the
    shadow.
    """
    if promote and abandon:
        raise UsageError("--promote and --abandon exclude each other", hint="give one of them")
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
    secrets = Secrets(given.conf, given.secret_arguments or None)
    if promote:
        left = takeover.promote(session, upgrade.upgrade_id, secrets)
    else:
        left = takeover.rollback(session, upgrade.upgrade_id, secrets)
    return carry_out(session, left, asked_back=not promote)
