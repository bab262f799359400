"""Upgrades in place and by a shadow: begin one, or take over one whose process has ended.

In a handover the driver of the new program is started first, and waits at its first query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from flinkish.client.context import Context
from flinkish.client.waiting import STARTING, wait_until_started
from flinkish.errors import Locked, RolledBack
from flinkish.launch.known_jobs import never_began, standing_of
from flinkish.launch.termination import wait_until_gone
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.restore_options import RestoreOptions
from flinkish.messages.upgrades import UpgradeKind, UpgradeState
from flinkish.registry.job_registry import new_job_id
from flinkish.registry.jobs import JobState, RequestKind
from flinkish.registry.liveness import is_alive, process_ref
from flinkish.upgrade.execution import Execution, canceled
from flinkish.upgrade.preparation import Ready, Secrets
from flinkish.upgrade.shadow import ShadowUpgrade, check_promotable
from flinkish.upgrade.steps import BROKEN_OFF, lacks_queries, undo


class InPlaceUpgrade(Execution):
    """An upgrade in place, or a handover.

    If the old job has not been asked to stop yet, a rollback leaves it alone.
    """

    def effects(self) -> Mapping[UpgradeState, Callable[[], None]]:
        return {
            UpgradeState.PREPARING: self._prepare,
            UpgradeState.STOPPING: self._stop,
            UpgradeState.STARTING: self._start,
            UpgradeState.WATCHING: self._watch,
            UpgradeState.ENDING: self._end,
            UpgradeState.RETURNING: self._return,
        }

    def _prepare(self) -> None:
        """Start the driver of the new program, and wait until it is at its first query."""
        job = self._new_job(self.upgrade.restore)
        self._say(f"starting the new program beside the old one as job {job.job_id} ...")
        job = self._await(
            job.job_id,
            lambda now: None if now.state is JobState.CREATED else f"it is {now.state.value}",
            "has not reached its first query within",
        )
        if job.state is not JobState.CREATED:
            raise canceled(job)
        self._done()

    def _stop(self) -> None:
        """Stop the old job with a savepoint, unless this upgrade has already asked."""
        beside = self.upgrade.starts_beside
        if self._back and self._request(RequestKind.STOP) is None:
            self._save(state=UpgradeState.ENDING if beside else UpgradeState.ABANDONED)
            return
        path = self._saved(RequestKind.STOP, "stopping {} with a savepoint")
        if not beside:
            self._wait_for_old()
        changes = {"savepoint": path, "restore": replace(self.upgrade.restore, path=path)}
        if self._back:
            back = UpgradeState.ENDING if beside else UpgradeState.RETURNING
            self._save(state=back, **changes)
        else:
            self._done(**changes)

    def _start(self) -> None:
        """Start the new program from the savepoint, and wait until it runs."""
        job = self._new_job(self.upgrade.restore)
        if self.upgrade.kind is UpgradeKind.HANDOVER:
            self._registry.name_savepoint(job.job_id, self.upgrade.restore.path)
        self._say(f"starting the new program as job {job.job_id} ...")
        self._await(
            job.job_id,
            lambda now: f"it is {now.state.value}" if now.state in STARTING else None,
            "has not started its queries within",
        )
        self._wait_for_old()
        self._done()

    def _return(self) -> None:
        """Start the old program again from the savepoint, unless it has run again already."""
        upgrade = self.upgrade
        if upgrade.savepoint is None:
            self._save(state=UpgradeState.ABANDONED)
            return
        earlier = None if upgrade.old_again_id is None else self._begun(upgrade.old_again_id)
        if earlier is not None and earlier.state in BROKEN_OFF:
            if not never_began(self._registry, standing_of(self._registry, earlier)):
                # From the savepoint it would write the rows again that it has written since.
                self._context.reporter.warning(
                    f"the old program has run again as job {earlier.job_id}, which is "
                    f"{earlier.state.value} by now: resume it with: flinkish restart "
                    f"{earlier.job_id}"
                )
                self._done()
                return
            wait_until_gone(self._registry, earlier)
            earlier = None
        if earlier is None:
            self._save(old_again_id=new_job_id())
            upgrade = self.upgrade
        assert upgrade.savepoint is not None
        assert upgrade.old_again_id is not None
        self._wait_for_old()
        old = self._registry.job(upgrade.job_id)
        stop = self._request(RequestKind.STOP)
        # The failed attempt may have written to the sink: unless asked otherwise, its rows stay.
        ahead = upgrade.restore.options.sink_ahead or "rebase"
        # Rows that a source has lost meanwhile do not stop the restore; the result warns of them.
        options = RestoreOptions(sink_ahead=ahead, accept_lost_rows=True)
        if stop is not None and lacks_queries(stop.result):
            options = replace(options, allow_non_restored=True)
        spec = RestoreSpec(upgrade.savepoint, options)
        job = self._launched(upgrade.old_again_id, old.launch, spec)
        self._say(f"starting the old program again as job {job.job_id} ...")
        wait_until_started(self._context, job)
        self._done()


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

    ``reference`` is the upgrade's id, or a unique prefix of it. ``force`` is for a process on
    another host, which cannot be checked.

    Raises UpgradeNotFound; WrongState for a finished upgrade; Locked if its process runs, or may
    run elsewhere (without ``force``); UsageError for missing secrets or an ambiguous prefix.
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
    the upgrade's choice. It helps if a table cannot be rolled back because others wrote to it.

    Raises WrongState also if the old job has been asked to stop for its shadow.
    """
    execution = _taken_over(
        context, reference, secrets, force=force, back=True, sink_ahead=sink_ahead
    )
    if isinstance(execution, ShadowUpgrade):
        execution.give_up()
    return execution


def promote(
    context: Context, reference: str, secrets: Secrets | None = None, *, force: bool = False
) -> Execution:
    """Take over a shadow that runs alongside its job, to stop the job; see :func:`resume`.

    Raises WrongState also if the upgrade is not a shadow, or the shadow has not caught up or has
    ended; the shadow's error if it has failed.
    """
    upgrade, _ = context.registry.upgrade(reference)
    check_promotable(context, upgrade)  # before this process takes the upgrade over
    execution = _taken_over(context, reference, secrets, force=force, back=False)
    assert isinstance(execution, ShadowUpgrade)
    execution.promote()
    return execution


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
        asked = RolledBack("the rollback was requested", hint="")
        upgrade = replace(upgrade, state=state, failure=upgrade.failure or asked.to_record())
    if sink_ahead is not None:
        options = replace(upgrade.restore.options, sink_ahead=sink_ahead)
        upgrade = replace(upgrade, restore=replace(upgrade.restore, options=options))
    mine = process_ref()
    upgrade = context.registry.save_upgrade(upgrade, mine)
    return _CLASSES[upgrade.kind](context, upgrade, mine, secrets, back=back)
