"""The upgrades of one job, each from the request to its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flinkish.client.checking import Plan
from flinkish.client.context import Context, interruptible
from flinkish.client.program import pinned
from flinkish.client.rehearsal import RehearsalResult
from flinkish.client.waiting import look
from flinkish.errors import FlinkishError, Locked, RolledBack, WrongState, from_record
from flinkish.launch.secret_settings import without_secrets
from flinkish.messages.plan import Check, SinkRow
from flinkish.messages.upgrades import Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.jobs import JobRecord
from flinkish.upgrade import takeover
from flinkish.upgrade.execution import Execution
from flinkish.upgrade.preparation import Secrets, check_agreed, prepare, rehearse
from flinkish.upgrade.shadow import find_shadow
from flinkish.upgrade.steps import BROKEN_OFF, brought_back, warned_of
from flinkish.upgrade.target import NewVersion, target_launch


@dataclass(frozen=True)
class UpgradeResult:
    """The outcome of an upgrade: finished, undone, or a shadow that runs alongside its job.

    ``is_undoing`` says that the user asked for the rollback. ``sinks`` are the sinks of the old
    program that were ahead, with what the rollback did about each; ``checks`` what its plan warned
    of, such as rows that are lost, which nobody was asked about. ``has_ended`` says that the old
    program has run again, and was canceled or has failed since.
    """

    upgrade: Upgrade
    is_undoing: bool = False
    sinks: tuple[SinkRow, ...] = ()
    checks: tuple[Check, ...] = ()
    has_ended: bool = False

    @property
    def job_id(self) -> str | None:
        """The job that runs now, or the shadow; None if neither program runs."""
        upgrade = self.upgrade
        if self._is_lost or self.has_ended:
            return None
        if upgrade.state in (UpgradeState.UPGRADED, UpgradeState.SHADOWING):
            return upgrade.new_job_id
        return upgrade.old_again_id or upgrade.job_id

    @property
    def _is_lost(self) -> bool:
        """Whether a shadow has ended after the old job was stopped for it."""
        upgrade = self.upgrade
        return upgrade.state is UpgradeState.ABANDONED and upgrade.old_savepoint is not None

    @property
    def failure(self) -> FlinkishError | None:
        """Why the job was not upgraded, the shadow not promoted, or no program runs; else None."""
        upgrade, state = self.upgrade, self.upgrade.state
        if self._is_lost:
            return from_record(upgrade.failure or {})
        if self.has_ended:
            again = upgrade.old_again_id
            return WrongState(
                f"upgrade {upgrade.upgrade_id} is undone, but the old program does not run: job "
                f"{again} was canceled or has failed since",
                hint=f"resume it with: flinkish restart {again}",
                upgrade_id=upgrade.upgrade_id,
                job_id=again,
            )
        if self.is_undoing or state is UpgradeState.UPGRADED:
            return None
        if state is UpgradeState.SHADOWING and upgrade.failure is None:
            return None
        record = dict(upgrade.failure or {})
        # Without a job of the new program there was nothing to roll back.
        began_beside = upgrade.starts_beside and upgrade.new_job_id is not None
        rolled_back = began_beside or state is UpgradeState.ROLLED_BACK
        if state is UpgradeState.SHADOWING or not rolled_back:
            return from_record(record)
        return RolledBack(
            f"job {upgrade.name} was not upgraded, and continues as job {self.job_id}: "
            f"{record.get('message')}",
            hint=f"see the log of the new program with: flinkish logs {upgrade.new_job_id}"
            if upgrade.new_job_id is not None
            else str(record.get("hint") or ""),
        )

    @property
    def warnings(self) -> list[str]:
        """After a rollback: what was committed, whether it was undone, and what was lost."""
        rolled_back = self.has_ended or isinstance(self.failure, RolledBack)
        if not (self.is_undoing or rolled_back):
            return []
        undone = {sink.query for sink in self.sinks if sink.rollback_to is not None}
        committed = [
            f"query '{name}' of the new program committed the batches {first} to {last}: their "
            f"output is {'rolled back in its table' if name in undone else 'not rolled back'}"
            for name, (first, last) in self.upgrade.committed.items()
        ]
        return [
            *committed,
            *(f"query '{sink.query}' of the old program: {sink.text}" for sink in self.sinks),
            *(f"query '{check.query}' of the old program: {check.text}" for check in self.checks),
        ]


def upgrade(
    context: Context,
    job: JobRecord,
    version: NewVersion,
    kind: UpgradeKind,
    *,
    rehearsed: bool = False,
    on_plan: Callable[[Plan], object] = lambda _plan: None,
    on_rehearsal: Callable[[RehearsalResult], object] = lambda _result: None,
) -> UpgradeResult:
    """Upgrade a job, in place or with a shadow; with ``rehearsed`` only after a rehearsal.

    ``on_plan`` is called before the plan is judged, ``on_rehearsal`` before the rehearsal is.

    Raises what :func:`.preparation.prepare` does; Incompatible or ConsentNeeded if the new program
    could not resume from the job, or only with consent; ProgramFailed if the rehearsal failed;
    Locked if another upgrade of the job is not finished; any other FlinkishError if the upgrade
    stopped before its end, and can be resumed.
    """
    ready = prepare(context, job, version, kind)
    on_plan(ready.plan)
    check_agreed(ready)
    if rehearsed:
        rehearsal = rehearse(context, job, ready)
        on_rehearsal(rehearsal)
        error = rehearsal.error()
        if error is not None:
            raise error
    return _finished(context, takeover.begin(context, ready))


def promote(context: Context, job: JobRecord, secrets: Secrets) -> UpgradeResult:
    """Let a job's shadow take over; for errors see :func:`.takeover.promote`."""
    shadow = find_shadow(context, job)
    return _finished(context, takeover.promote(context, shadow.upgrade_id, secrets))


def abandon(context: Context, job: JobRecord, secrets: Secrets) -> UpgradeResult:
    """End a job's shadow; for errors see :func:`.takeover.rollback`."""
    shadow = find_shadow(context, job)
    execution = takeover.rollback(context, shadow.upgrade_id, secrets)
    return _finished(context, execution, is_undoing=True)


def resume(
    context: Context, reference: str, secrets: Secrets, *, force: bool = False
) -> UpgradeResult:
    """Finish an upgrade whose process is gone; for errors see :func:`.takeover.resume`."""
    return _finished(context, takeover.resume(context, reference, secrets, force=force))


def earlier_upgrade(
    context: Context, reference: str, version: NewVersion, since: float
) -> Upgrade | None:
    """Return the newest upgrade of a job to this version, for callers that may have begun it.

    Shadows, abandoned upgrades and those finished that were begun before ``since`` (seconds since
    the epoch) do not count. An unfinished one always does: no other could be begun.
    """
    registry = context.registry
    # During a handover the name refers to two jobs.
    begun = [u for u in registry.unfinished_upgrades() if reference in (u.name, u.job_id)]
    if not begun:
        begun = registry.upgrades_of(context.find_job(reference, include_final=True).job_id)
    for each in reversed(begun):
        is_older = each.state.is_final and each.created < since
        if is_older or each.kind is UpgradeKind.SHADOW or each.state is UpgradeState.ABANDONED:
            continue
        old = registry.job(each.job_id).launch
        if each.launch == without_secrets(pinned(target_launch(old, version.changes))[0]):
            return each
    return None


def rollback(
    context: Context,
    reference: str,
    secrets: Secrets,
    *,
    force: bool = False,
    sink_ahead: str | None = None,
) -> UpgradeResult:
    """Undo an upgrade whose process is gone; for errors see :func:`.takeover.rollback`."""
    execution = takeover.rollback(context, reference, secrets, force=force, sink_ahead=sink_ahead)
    return _finished(context, execution, is_undoing=True)


def _finished(context: Context, execution: Execution, *, is_undoing: bool = False) -> UpgradeResult:
    """Carry out the rest of an upgrade; an error says how to continue."""
    upgrade_id = execution.upgrade.upgrade_id
    context.reporter.note(f"Upgrade {upgrade_id}")
    short = upgrade_id[:8]
    hint = f"flinkish upgrade resume {short}, or: flinkish upgrade rollback {short}"
    with interruptible(f"upgrade {upgrade_id} was interrupted", hint):
        try:
            finished = execution.run()
        except FlinkishError as error:  # the upgrade's record says how far it got
            if not isinstance(error, Locked):  # another process continues it
                error.hint = "; ".join(filter(None, (error.hint, f"continue with: {hint}")))
            error.data.setdefault("upgrade_id", upgrade_id)
            raise
    return outcome_of(context, finished, is_undoing=is_undoing)


def outcome_of(context: Context, upgrade: Upgrade, *, is_undoing: bool = False) -> UpgradeResult:
    """Return how an upgrade ended, with what has become of the old program since."""
    again = upgrade.old_again_id
    if again is None:
        return UpgradeResult(upgrade, is_undoing)
    queries = context.registry.queries(again)
    has_ended = False
    if upgrade.state is UpgradeState.ROLLED_BACK:
        has_ended = look(context, context.registry.job(again)).state in BROKEN_OFF
    return UpgradeResult(
        upgrade, is_undoing, tuple(brought_back(queries)), tuple(warned_of(queries)), has_ended
    )
