"""Carry out an upgrade and show how it ended."""

from __future__ import annotations

from flinkish.cli.output.plan_table import show_plan
from flinkish.cli.output.upgrades_text import document
from flinkish.cli.session import Session
from flinkish.client.context import interruptible
from flinkish.errors import FlinkishError, RolledBack, from_record
from flinkish.messages.codec import encode_fields
from flinkish.messages.plan import SinkRow
from flinkish.messages.upgrades import Upgrade, UpgradeState
from flinkish.restore.plan.plan_text import verdict_line
from flinkish.upgrade.execution import Execution
from flinkish.upgrade.preparation import Ready


def carry_out(session: Session, left: Execution, *, asked_back: bool = False) -> int:
    """Carry out the rest of an upgrade, show its end, and return the exit status.

    With ``asked_back`` the user requested the rollback, so that ROLLED_BACK is a success; otherwise
    it raises RolledBack.
    """
    upgrade_id = left.upgrade.upgrade_id
    out = session.out
    out.note(f"Upgrade {upgrade_id}")
    message = f"upgrade {upgrade_id} is interrupted"
    short = upgrade_id[:8]
    hint = f"flinkish upgrade resume {short}, or: flinkish upgrade rollback {short}"
    with interruptible(message, hint):
        try:
            done = left.run()
        except FlinkishError as error:  # the record says how far it is
            error.hint = "; ".join(filter(None, (error.hint, f"continue with: {hint}")))
            error.data.setdefault("upgrade_id", upgrade_id)
            raise
    shadows = done.state is UpgradeState.SHADOWING and done.failure is None
    if done.state is UpgradeState.UPGRADED or shadows or asked_back:
        if asked_back:
            _tell_what_was_written(session, left)
        _show(session, done)
        return 0
    failure = dict(done.failure or {})
    if done.state is UpgradeState.SHADOWING or not (
        done.starts_beside or done.state is UpgradeState.ROLLED_BACK
    ):
        raise from_record(failure)
    if not (out.json or out.quiet):
        for line in failure.get("tail") or ():
            out.complain(f"  {line}")
    sinks = _tell_what_was_written(session, left)
    raise RolledBack(
        f"job {done.name} was not upgraded, and continues as job {running(done)}: "
        f"{failure.get('message')}",
        hint=f"see the log of the new program with: flinkish logs {done.new_job_id}",
        **document(done),
        sinks=[encode_fields(sink) for sink in sinks],
    )


def _tell_what_was_written(session: Session, left: Execution) -> list[SinkRow]:
    """Warn of what the new program has committed, and return what became of the sinks."""
    sinks = left.sinks_of_old()
    undone = {sink.query for sink in sinks if sink.rollback_to is not None}
    for name, (first, last) in left.upgrade.committed.items():
        stays = "rolled back in its table" if name in undone else "not rolled back"
        session.out.warning(
            f"query '{name}' of the new program committed the batches {first} to {last}: "
            f"their output is {stays}"
        )
    for sink in sinks:
        session.out.warning(f"query '{sink.query}' of the old program: {sink.text}")
    return sinks


def running(upgrade: Upgrade) -> str | None:
    """Return the job that runs after a finished upgrade, or the shadow. Pure."""
    if upgrade.state in (UpgradeState.UPGRADED, UpgradeState.SHADOWING):
        return upgrade.new_job_id
    return upgrade.old_again_id or upgrade.job_id


def _show(session: Session, upgrade: Upgrade) -> None:
    out = session.out
    job = running(upgrade)
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
