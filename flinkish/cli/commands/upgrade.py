"""``flinkish upgrade``: upgrade the program or Spark of a job or of a fleet, with rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import click

from flinkish.cli.base import HELP_NAMES, Call, command
from flinkish.cli.commands.rehearse import show_rehearsal
from flinkish.cli.commands.status import upgrade_document
from flinkish.cli.documents.parts import error_record
from flinkish.cli.documents.upgrades import (
    FleetDocument,
    FleetMember,
    UpgradeDocument,
    UpgradeDryRunDocument,
)
from flinkish.cli.options.arguments import F, complete_file, dry_run_option, job_argument
from flinkish.cli.options.new_version import new_version_options
from flinkish.cli.options.program import conf_option, secret_args_option
from flinkish.cli.options.restore import sink_ahead_option
from flinkish.cli.output.plan_table import show_plan
from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import driver_output
from flinkish.cli.session import Session
from flinkish.client.checking import Plan
from flinkish.client.rehearsal import RehearsalResult
from flinkish.errors import RolledBack, UsageError
from flinkish.messages.codec import encode_fields
from flinkish.messages.launch import Program
from flinkish.messages.upgrades import UpgradeKind, UpgradeState
from flinkish.restore.plan.plan_text import verdict_line
from flinkish.units import table
from flinkish.upgrade import workflows
from flinkish.upgrade.fleet import FleetResult, exit_code, upgrade_fleet
from flinkish.upgrade.preparation import Ready, Secrets, prepare
from flinkish.upgrade.target import Changes, NewVersion
from flinkish.upgrade.workflows import UpgradeResult


@command("fleet", exit_codes=(3,), documents=(FleetDocument,))
@click.argument("file", metavar="FILE.toml", type=click.Path(), shell_complete=complete_file)
@click.option(
    "--jobs",
    "at_once",
    type=click.IntRange(min=1),
    metavar="K",
    default=1,
    show_default=True,
    help="Number of upgrades that run at the same time.",
)
@click.option("--keep-going", is_flag=True, help="Continue with the others after a failed upgrade.")
@dry_run_option
def fleet(call: Call, file: str, at_once: int, keep_going: bool, dry_run: bool) -> int:
    """Upgrade the jobs named in a file, each as upgrade in-place does.

    Without --keep-going, no upgrade is started after a failed one. Jobs that already run what the
    file asks for are up to date, and interrupted upgrades are finished, so you can run the command
    again to continue. Exit code 0: every job is up to date; 3: some are not; 1: none is.
    """
    out = call.out
    with call.session() as session:
        results = upgrade_fleet(
            session,
            file,
            at_once=at_once,
            keep_going=keep_going,
            dry_run=dry_run,
            on_result=partial(_tell, out),
        )
    _show(out, results)
    return exit_code(results)


def _tell(out: Output, result: FleetResult) -> None:
    if result.error is None:
        out.note(f"{result.name}: {result.outcome.value}")
    elif not out.json:  # the JSON document has the error
        out.complain(f"{result.name}: {result.outcome.value}: {result.error.message}")


def _show(out: Output, results: Sequence[FleetResult]) -> None:
    if out.json:
        fleet: FleetDocument = {"jobs": [_document(result) for result in results]}
        out.document(fleet)
    elif not out.quiet:
        rows = [(r.name, r.outcome.value, r.job_id or "-") for r in results]
        for line in table(("NAME", "OUTCOME", "JOB ID"), rows):
            out.line(line)


def _document(result: FleetResult) -> FleetMember:
    return {
        "name": result.name,
        "outcome": result.outcome,
        "job_id": result.job_id,
        "upgrade": None if result.upgrade is None else upgrade_document(result.upgrade),
        "error": None if result.error is None else error_record(result.error),
    }


@click.group("upgrade", context_settings={"help_option_names": HELP_NAMES}, no_args_is_help=False)
def upgrade() -> None:
    """Upgrade a job to another program or another Spark, with rollback."""


@command(
    "in-place",
    exit_codes=(4, 5, 10, 12, 13, 14, 15),
    documents=(UpgradeDocument, UpgradeDryRunDocument),
)
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

    The command first checks against the running job whether the new program could resume; if
    not, it exits with 4 or 5 and touches nothing. It then stops the job with a savepoint and
    starts the new program from it. Everything you do not specify stays as it is. If the new
    program does not start, or does not commit its batches in time, it is ended, the old one is
    restarted from the same savepoint, and the exit code is 1. Finish or undo an interrupted
    upgrade with upgrade resume or upgrade rollback.

    With --handover, two drivers run for a while: the new program runs up to its first query and
    is held there. Only then is the job stopped, so that the pause between its last batch and
    the new program's first is short. If the new program does not get that far, the job keeps
    running.
    """
    with call.session() as session, driver_output(session.out):
        record = session.find_job(job)
        kind = UpgradeKind.HANDOVER if handover else UpgradeKind.IN_PLACE
        if dry_run:
            return _show_dry_run(session.out, prepare(session, record, version, kind), rehearsed)
        result = workflows.upgrade(
            session,
            record,
            version,
            kind,
            rehearsed=rehearsed,
            on_plan=partial(_show_plan, session),
            on_rehearsal=partial(_show_rehearsal, session.out),
        )
        return _show_end(session, result)


def _show_rehearsal(out: Output, result: RehearsalResult) -> None:
    if not out.json:  # the one JSON document is about the upgrade
        show_rehearsal(out, result)


@command(
    "shadow",
    exit_codes=(4, 5, 10, 12, 13, 14, 15),
    documents=(UpgradeDocument, UpgradeDryRunDocument),
)
@job_argument
@new_version_options
@click.option(
    "--promote", is_flag=True, help="Stop JOB with a savepoint and let its shadow take over."
)
@click.option("--abandon", is_flag=True, help="End JOB's shadow; JOB keeps running.")
@dry_run_option
def shadow(
    call: Call, job: str, version: NewVersion, promote: bool, abandon: bool, dry_run: bool
) -> int:
    """Run a new program alongside a job, on a copy of its state, before the program takes over.

    The command checks as upgrade in-place does, takes a savepoint of the running job, and starts
    the new program from it as the job NAME-shadow, with its own query ids. ARGS must make the new
    program write elsewhere, because file sinks and tables of the job are refused. The command
    returns once every query has committed its batches and has caught up, and both jobs run on. A
    shadow that does not catch up is ended, and the exit code is 1. --promote stops the job with a
    savepoint and gives its name to the shadow; --abandon ends the shadow. These two options take
    only secrets (--conf, --secret-args).
    """
    if promote and abandon:
        raise UsageError(
            "--promote and --abandon are mutually exclusive", hint="use only one of them"
        )
    program = version.changes.program
    secrets = Secrets.of(program)
    if promote or abandon:
        settings = Program(conf=program.conf, secret_arguments=program.secret_arguments)
        if dry_run or version != NewVersion(changes=Changes(settings)):
            raise UsageError(
                "--promote and --abandon take only --conf and --secret-args: "
                "the shadow is already running",
                hint="omit the other options and ARGS; --promote and --abandon take effect at "
                "once, without a dry run",
            )
    with call.session() as session, driver_output(session.out):
        record = session.find_job(job)
        if promote or abandon:
            decide = workflows.promote if promote else workflows.abandon
            return _show_end(session, decide(session, record, secrets))
        if dry_run:
            ready = prepare(session, record, version, UpgradeKind.SHADOW)
            return _show_dry_run(session.out, ready)
        result = workflows.upgrade(
            session,
            record,
            version,
            UpgradeKind.SHADOW,
            on_plan=partial(_show_plan, session),
        )
        return _show_end(session, result)


def _left_options(function: F) -> F:
    """Add the parameters for an interrupted upgrade: its id, --force, and the job's secrets."""
    function = secret_args_option(function)
    function = conf_option(function)
    function = click.option(
        "--force",
        is_flag=True,
        help="Confirm that the upgrade's process on another host has ended.",
    )(function)
    return click.argument("upgrade_id", metavar="ID")(function)


@command("resume", exit_codes=(10, 12, 13, 14, 15), documents=(UpgradeDocument,))
@_left_options
def resume(
    call: Call,
    upgrade_id: str,
    force: bool,
    conf: Mapping[str, str],
    secret_arguments: tuple[str, ...],
) -> int:
    """Finish an upgrade whose command was interrupted.

    flinkish status JOB shows the ID; a prefix is enough. Secrets must be given again.
    """
    with call.session() as session:
        secrets = Secrets(conf, secret_arguments or None)
        return _show_end(session, workflows.resume(session, upgrade_id, secrets, force=force))


@command("rollback", exit_codes=(10, 12, 13, 14, 15), documents=(UpgradeDocument,))
@_left_options
@sink_ahead_option
def rollback(
    call: Call,
    upgrade_id: str,
    force: bool,
    conf: Mapping[str, str],
    secret_arguments: tuple[str, ...],
    sink_ahead: str | None,
) -> int:
    """Undo an upgrade whose command was interrupted: the old program resumes.

    The exit code is 0 when it does. Secrets must be given again. --sink-ahead defaults to that
    of the upgrade; if others have written to a table that should be rolled back, use
    --sink-ahead rebase.
    """
    with call.session() as session:
        secrets = Secrets(conf, secret_arguments or None)
        result = workflows.rollback(
            session, upgrade_id, secrets, force=force, sink_ahead=sink_ahead
        )
        return _show_end(session, result)


upgrade.add_command(in_place)
upgrade.add_command(shadow)
upgrade.add_command(fleet)
upgrade.add_command(resume)
upgrade.add_command(rollback)


def _show_plan(session: Session, plan: Plan) -> None:
    """Show people the plan of an upgrade before it is carried out."""
    if not (session.out.json or session.out.quiet):
        show_plan(plan.restore_plan)


def _show_end(session: Session, result: UpgradeResult) -> int:
    """Show how an upgrade ended and return the exit status, or raise its failure."""
    out, failure = session.out, result.failure
    if failure is None:
        _warn(out, result)
        _show_result(out, result)
        return 0
    if isinstance(failure, RolledBack):
        if not (out.json or out.quiet):
            for line in (result.upgrade.failure or {}).get("tail") or ():
                out.complain(f"  {line}")
        failure.data.update(upgrade_document(result.upgrade))
        failure.data["sinks"] = [encode_fields(sink) for sink in result.sinks]
        failure.data["checks"] = [encode_fields(check) for check in result.checks]
    _warn(out, result)
    raise failure


def _warn(out: Output, result: UpgradeResult) -> None:
    for warning in result.warnings:
        out.warning(warning)


def _show_result(out: Output, result: UpgradeResult) -> None:
    upgrade, job = result.upgrade, result.job_id
    if out.json:
        out.document(upgrade_document(upgrade))
    elif out.quiet:
        out.line(str(job))
    elif upgrade.state is UpgradeState.SHADOWING:
        out.line(f"Job {job} has caught up with job {upgrade.name}; both are running.")
        out.line(f"To let it take over: flinkish upgrade shadow {upgrade.job_id} --promote")
        out.line(f"To end it: flinkish upgrade shadow {upgrade.job_id} --abandon")
    elif upgrade.state is UpgradeState.UPGRADED:
        out.line(f"Job {upgrade.name} is upgraded and continues as job {job}.")
    else:
        out.line(f"Upgrade {upgrade.upgrade_id} is undone; job {job} continues.")


def _show_dry_run(out: Output, ready: Ready, rehearsed: bool = False) -> int:
    """Show the plan and the steps of an upgrade, and return the exit status."""
    first = ["first: rehearse the new program on a copy of the state, without output"]
    steps = [*(first if rehearsed else ()), *ready.steps()]
    if out.json:
        planned: UpgradeDryRunDocument = {
            "dry_run": True,
            "job_id": ready.upgrade.job_id,
            "steps": steps,
            "plan": ready.plan.restore_plan,
        }
        out.document(planned)
    elif not out.quiet:
        show_plan(ready.plan.restore_plan)
        out.line(verdict_line(ready.plan.restore_plan))
        for line in steps:
            out.line(line)
    return ready.plan.exit_code
