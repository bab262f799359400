"""Upgrades in place and by a shadow: begin one, or continue one whose process has ended.

In a handover the driver of the new program is started first, and waits at its first query.

A shadow (Flink's shadow copy) is the new program as another job, restored from a savepoint of the
old job, which continues. It has its own query ids and checkpoints, and arguments that make it write
elsewhere. When it has caught up it is promoted, which stops the old job with a savepoint, or
abandoned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from flinkish.client.context import Context
from flinkish.client.restarts import launch_in_place_of
from flinkish.client.waiting import STARTING, look, not_failed, wait_until_started
from flinkish.errors import FlinkishError, Locked, RolledBack, WrongState, quoted_path
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.restore_options import RestoreOptions
from flinkish.messages.upgrades import Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.job_registry import new_job_id
from flinkish.registry.jobs import JobRecord, JobState, RequestKind, RequestState
from flinkish.registry.liveness import is_alive, process_ref
from flinkish.upgrade.execution import Execution, canceled
from flinkish.upgrade.preparation import Ready, Secrets
from flinkish.upgrade.steps import behind, lacking, undo


class ShadowUpgrade(Execution):
    """A shadow; :meth:`run` returns when it is SHADOWING, and continues when it is PROMOTING."""

    def effects(self) -> Mapping[UpgradeState, Callable[[], None]]:
        return {
            UpgradeState.SAVING: self._save_job,
            UpgradeState.STARTING: self._start,
            UpgradeState.WATCHING: self._watch,
            UpgradeState.PROMOTING: self._promote,
            UpgradeState.ENDING: self._end,
        }

    def promote(self) -> None:
        """Decide that the shadow takes over; :meth:`run` then stops the old job.

        Raises WrongState if the shadow is not SHADOWING, or no longer runs.
        """
        _check_promotable(self._context, self.upgrade)
        # Without the request of an earlier promotion, which has failed.
        self._save(state=UpgradeState.PROMOTING, failure=None, request_id=None)

    def give_up(self) -> None:
        """Decide that an interrupted promotion is undone; :meth:`run` then ends the shadow.

        Raises WrongState if the old job has been asked to stop: it may have ended.
        """
        if self.upgrade.state is not UpgradeState.PROMOTING:
            return
        stop = self._request(RequestKind.STOP)
        if stop is None or stop.state is RequestState.FAILED:
            self._save(state=UpgradeState.ENDING)
            return
        self._save(failure=None)  # that it is undone
        upgrade = self.upgrade
        raise WrongState(
            f"upgrade {upgrade.upgrade_id} cannot be undone: job {upgrade.name} has been asked to "
            "stop, so that its shadow takes over",
            hint=f"finish it with: flinkish upgrade resume {upgrade.upgrade_id}",
            upgrade_id=upgrade.upgrade_id,
            job_id=upgrade.job_id,
            state=upgrade.state.value,
        )

    def _after_failure(self, state: UpgradeState) -> UpgradeState | None:
        if state is UpgradeState.PROMOTING and self.upgrade.old_savepoint is not None:
            return UpgradeState.ENDING  # the old job has ended, and so has its shadow
        return super()._after_failure(state)

    def _save_job(self) -> None:
        path = self._saved(RequestKind.SAVEPOINT, "taking a savepoint of {}")
        self._done(savepoint=path, restore=replace(self.upgrade.restore, path=path))

    def _start(self) -> None:
        """Start the new program from the savepoint, and wait until it runs."""
        job = self._new_job(self.upgrade.restore)
        self._say(f"starting the new program as job {job.name} ({job.job_id}) ...")
        self._await(
            job.job_id,
            lambda now: f"it is {now.state.value}" if now.state in STARTING else None,
            "has not started its queries within",
        )
        self._done()

    def _lacks(self, job: JobRecord) -> str | None:
        """Return why the shadow is not healthy, or has not caught up with the job, as a clause."""
        mine = self._registry.queries(job.job_id)
        lacks = lacking(mine, self.upgrade.health.batches)
        if lacks is not None:
            return lacks
        others = {query.name: query for query in self._registry.queries(self.upgrade.job_id)}
        reasons = [behind(query, others.get(query.name)) for query in mine]
        return next((text for text in reasons if text is not None), None)

    def _promote(self) -> None:
        """Stop the old job, unless it has ended, and rename the shadow."""
        old = look(self._context, self._registry.job(self.upgrade.job_id))
        if not old.state.is_final or self._request(RequestKind.STOP) is not None:
            path = self._saved(RequestKind.STOP, "stopping {} with a savepoint")
            self._wait_for_old()
            self._save(old_savepoint=path)
        shadow = self._successor()
        self._registry.rename(shadow.job_id, self.upgrade.name)
        self._done()

    def _successor(self) -> JobRecord:
        """Return the shadow once the old job has ended; raise if it has failed or was canceled."""
        upgrade = self.upgrade
        try:
            shadow = self._shadow()
            if shadow.state is JobState.CANCELED:
                raise canceled(shadow)
        except FlinkishError as error:
            if upgrade.old_savepoint is not None:
                error.message = (
                    f"job {upgrade.name} ({upgrade.job_id}) was stopped for its shadow, which has "
                    f"ended too, and neither runs: {error.message}"
                )
                error.hint = (
                    f"start it again with: flinkish restart {upgrade.job_id} --from "
                    f"{quoted_path(upgrade.old_savepoint)}"
                )
            raise
        return shadow

    def _shadow(self) -> JobRecord:
        return _shadow_job(self._context, self.upgrade)

    def _launch(self, old: JobRecord, launch: Launch, job_id: str) -> JobRecord:
        return launch_in_place_of(
            self._context,
            replace(old, name=shadow_name(old.name)),
            launch,
            unique_name=True,
            job_id=job_id,
        )


def _shadow_job(context: Context, upgrade: Upgrade) -> JobRecord:
    """Return the current record of a shadow's job; raise if it has failed."""
    assert upgrade.new_job_id is not None
    job = look(context, context.registry.job(upgrade.new_job_id))
    return not_failed(context, job)


def _check_promotable(context: Context, upgrade: Upgrade) -> None:
    if upgrade.kind is not UpgradeKind.SHADOW:
        raise WrongState(f"upgrade {upgrade.upgrade_id} has no shadow", hint="")
    shadow = None if upgrade.new_job_id is None else _shadow_job(context, upgrade)
    if (
        shadow is None
        or upgrade.state is not UpgradeState.SHADOWING
        or shadow.state is not JobState.RUNNING
    ):
        what = "not started yet" if shadow is None else shadow.state.value
        raise WrongState(
            f"the shadow of job {upgrade.name} cannot be promoted: it is {what}, its upgrade "
            f"{upgrade.state.value}",
            hint=f"see: flinkish status {upgrade.new_job_id or upgrade.job_id}",
            job_id=upgrade.new_job_id or upgrade.job_id,
            state=upgrade.state.value if shadow is None else shadow.state.value,
        )


def shadow_name(name: str) -> str:
    """Return the name of a job's shadow. Pure."""
    return f"{name}-shadow"


def find_shadow(context: Context, job: JobRecord) -> Upgrade:
    """Return the shadow that a job has or is; WrongState if there is none."""
    for upgrade in reversed(context.registry.upgrades_of(job.job_id)):
        if upgrade.kind is UpgradeKind.SHADOW and not upgrade.state.is_final:
            return upgrade
    raise WrongState(
        f"job {job.name} ({job.job_id}) has no shadow",
        hint=f"start one with: flinkish upgrade shadow {job.job_id} --to APP.py ARGS",
        job_id=job.job_id,
        state=job.state.value,
    )


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
        self._say(f"starting the new program alongside it as job {job.job_id} ...")
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
        """Start the old program again from the savepoint."""
        upgrade = self.upgrade
        if upgrade.savepoint is None:
            self._save(state=UpgradeState.ABANDONED)
            return
        earlier = None if upgrade.old_again_id is None else self._found(upgrade.old_again_id)
        if earlier is None or look(self._context, earlier).state is JobState.FAILED:
            self._save(old_again_id=new_job_id())
            upgrade = self.upgrade
        assert upgrade.savepoint is not None
        assert upgrade.old_again_id is not None
        self._wait_for_old()
        old = self._registry.job(upgrade.job_id)
        # The failed attempt may have written to the sink: its rows stay, and the job continues.
        ahead = upgrade.restore.options.sink_ahead or "rebase"
        # Rows that its source has lost meanwhile do not hold it up either; its plan shows them.
        spec = RestoreSpec(
            upgrade.savepoint, RestoreOptions(sink_ahead=ahead, accept_lost_rows=True)
        )
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

    ``reference`` is a prefix of the upgrade's id. ``force`` is for a process on another host, which
    cannot be checked.

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
    the upgrade's choice: for a table that cannot roll back as others wrote to it.

    Raises WrongState too if the old job has been asked to stop for its shadow.
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
    """Take over a shadow that runs alongside its job, and stop the job; see :func:`resume`.

    Raises WrongState if it has not caught up yet, no longer runs, or the upgrade is not a shadow.
    """
    upgrade, _ = context.registry.upgrade(reference)
    _check_promotable(context, upgrade)  # before it belongs to this process
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
        asked = RolledBack("it was asked for", hint="")
        upgrade = replace(upgrade, state=state, failure=upgrade.failure or asked.to_record())
    if sink_ahead is not None:
        options = replace(upgrade.restore.options, sink_ahead=sink_ahead)
        upgrade = replace(upgrade, restore=replace(upgrade.restore, options=options))
    mine = process_ref()
    upgrade = context.registry.save_upgrade(upgrade, mine)
    return _CLASSES[upgrade.kind](context, upgrade, mine, secrets, back=back)
