"""Begin an upgrade, or continue one whose process has ended."""

from __future__ import annotations

from dataclasses import replace

from flinkish.client.context import Context
from flinkish.errors import Locked, RolledBack, WrongState
from flinkish.messages.upgrades import UpgradeKind
from flinkish.registry.liveness import is_alive, process_ref
from flinkish.upgrade.execution import Execution
from flinkish.upgrade.in_place import InPlaceUpgrade
from flinkish.upgrade.preparation import Ready, Secrets
from flinkish.upgrade.shadow import ShadowUpgrade
from flinkish.upgrade.steps import undo

_CLASSES: dict[UpgradeKind, type[Execution]] = {
    UpgradeKind.IN_PLACE: InPlaceUpgrade,
    UpgradeKind.HANDOVER: InPlaceUpgrade,
    UpgradeKind.SHADOW: ShadowUpgrade,
}


def begin(context: Context, ready: Ready) -> Execution:
    """Record an upgrade; :meth:`.execution.Execution.run` carries it out.

    Raises Locked if another upgrade of the job is not finished.
    """
    owner = process_ref()
    upgrade = context.registry.add_upgrade(ready.upgrade, owner)
    return _CLASSES[upgrade.kind](context, upgrade, owner, Secrets.of(ready.launch))


def resume(
    context: Context, reference: str, secrets: Secrets | None = None, *, force: bool = False
) -> Execution:
    """Take over an upgrade whose process is gone, to finish it.

    ``reference`` is a prefix of the upgrade's id. With ``force`` its process may still run on
    another host.

    Raises UpgradeNotFound, WrongState if it is finished, Locked if its process runs, and UsageError
    if secrets are missing.
    """
    return _taken_over(context, reference, secrets, force=force, back=False)


def rollback(
    context: Context,
    reference: str,
    secrets: Secrets | None = None,
    *,
    force: bool = False,
    sink_ahead: str | None = None,
) -> Execution:
    """Take over an upgrade whose process is gone, to undo it; see :func:`resume`.

    ``sink_ahead`` is how the old program treats a sink that is ahead of the savepoint, in place of
    the upgrade's choice: its table may not go back because others have written to it since.
    """
    return _taken_over(context, reference, secrets, force=force, back=True, sink_ahead=sink_ahead)


def promote(
    context: Context, reference: str, secrets: Secrets | None = None, *, force: bool = False
) -> Execution:
    """Take over a shadow that runs alongside its job, and stop the job; see :func:`resume`.

    Raises WrongState if it has not caught up yet, no longer runs, or the upgrade is not a shadow.
    """
    left = _taken_over(context, reference, secrets, force=force, back=False)
    if not isinstance(left, ShadowUpgrade):
        raise WrongState(f"upgrade {left.upgrade.upgrade_id} has no shadow", hint="")
    left.promote()
    return left


def _taken_over(
    context: Context,
    reference: str,
    secrets: Secrets | None,
    *,
    force: bool,
    back: bool,
    sink_ahead: str | None = None,
) -> Execution:
    upgrade, owner = context.registry.upgrade(reference)
    state = undo(upgrade)  # refuses a finished one
    alive = None if owner is None else is_alive(owner)
    if owner is not None and (alive or (alive is None and not force)):
        raise Locked(
            f"upgrade {upgrade.upgrade_id} is being carried out by process {owner.pid} on "
            f"{owner.host}",
            hint="wait for it, or end it first"
            if alive
            else "if that process has ended, use --force",
            upgrade_id=upgrade.upgrade_id,
        )
    secrets = secrets or Secrets()
    secrets.given_to(upgrade.launch)
    secrets.given_to(context.registry.job(upgrade.job_id).launch)
    if back:
        asked = RolledBack("it was asked for", hint="")
        upgrade = replace(upgrade, state=state, failure=upgrade.failure or asked.to_record())
    if sink_ahead is not None:
        options = replace(upgrade.restore.options, sink_ahead=sink_ahead)
        upgrade = replace(upgrade, restore=replace(upgrade.restore, options=options))
    mine = process_ref()
    upgrade = context.registry.save_upgrade(upgrade, mine)
    return _CLASSES[upgrade.kind](context, upgrade, mine, secrets, back=back)
