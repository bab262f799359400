"""The output about an upgrade: its plan, and how it ended."""

from __future__ import annotations

from flinkish.cli.output.plan_table import show_plan
from flinkish.cli.output.printer import Output
from flinkish.cli.output.upgrades_text import document
from flinkish.cli.session import Session
from flinkish.client.checking import Plan
from flinkish.errors import RolledBack
from flinkish.messages.codec import encode_fields
from flinkish.messages.upgrades import UpgradeState
from flinkish.restore.plan.plan_text import verdict_line
from flinkish.upgrade.preparation import Ready
from flinkish.upgrade.workflows import UpgradeResult


def show_plan_of(session: Session, plan: Plan) -> None:
    """Show people the plan of an upgrade before it is carried out."""
    if not (session.out.json or session.out.quiet):
        show_plan(plan.restore_plan)


def show_end(session: Session, result: UpgradeResult) -> int:
    """Show how an upgrade ended, and return the exit status; raise what it failed with."""
    out, failure = session.out, result.failure
    if failure is None:
        _warn(out, result)
        _show(out, result)
        return 0
    if isinstance(failure, RolledBack):
        if not (out.json or out.quiet):
            for line in (result.upgrade.failure or {}).get("tail") or ():
                out.complain(f"  {line}")
        failure.data.update(document(result.upgrade))
        failure.data["sinks"] = [encode_fields(sink) for sink in result.sinks]
    _warn(out, result)
    raise failure


def _warn(out: Output, result: UpgradeResult) -> None:
    for warning in result.warnings:
        out.warning(warning)


def _show(out: Output, result: UpgradeResult) -> None:
    upgrade, job = result.upgrade, result.job_id
    if out.json:
        out.document(document(upgrade))
    elif out.quiet:
        out.line(str(job))
    elif upgrade.state is UpgradeState.SHADOWING:
        out.line(
            f"Job {upgrade.new_job_id} has caught up with job {upgrade.name}; both are running."
        )
        out.line(f"To let it take over: flinkish upgrade shadow {upgrade.job_id} --promote")
        out.line(f"To end it: flinkish upgrade shadow {upgrade.job_id} --abandon")
    elif upgrade.state is UpgradeState.UPGRADED:
        out.line(f"Job {upgrade.name} is upgraded and continues as job {job}.")
    else:
        out.line(f"Upgrade {upgrade.upgrade_id} is undone; job {job} continues.")


def show_dry_run(session: Session, ready: Ready) -> int:
    """Show the plan and the steps of an upgrade, and return the exit status."""
    out = session.out
    if out.json:
        out.document(
            {"dry_run": True, "job_id": ready.upgrade.job_id, "steps": ready.steps()}
            | {"plan": ready.plan.document}
        )
    elif not out.quiet:
        show_plan(ready.plan.restore_plan)
        out.line(verdict_line(ready.plan.restore_plan))
        for line in ready.steps():
            out.line(line)
    return ready.plan.exit_code
