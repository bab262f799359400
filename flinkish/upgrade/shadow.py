"""Upgrades by a shadow (Flink's shadow copy): the new program as another job.

The shadow is restored from a savepoint of the old job, which continues. It has its own query ids
and checkpoints, and arguments that make it write elsewhere. When it has caught up, the user
promotes it, which stops the old job with a savepoint, or abandons it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from flinkish.client.context import Context
from flinkish.client.restarts import launch_in_place_of
from flinkish.client.waiting import STARTING, look, not_failed
from flinkish.errors import FlinkishError, WrongState, quoted_path
from flinkish.messages.launch import Launch
from flinkish.messages.upgrades import Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.jobs import JobRecord, JobState, RequestKind, RequestState
from flinkish.upgrade.execution import Execution, canceled
from flinkish.upgrade.steps import behind, lacking


class ShadowUpgrade(Execution):
    """An upgrade by a shadow; :meth:`run` returns at SHADOWING, and goes on from PROMOTING."""

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

        Raises WrongState if the shadow is not SHADOWING, or no longer runs; its error if it failed.
        """
        check_promotable(self._context, self.upgrade)
        # This drops the stop request of an earlier promotion, which has failed.
        self._save(state=UpgradeState.PROMOTING, failure=None, request_id=None)

    def give_up(self) -> None:
        """Decide that an interrupted promotion is undone; :meth:`run` then ends the shadow.

        Raises WrongState if the old job has been asked to stop, because that job may have ended.
        """
        if self.upgrade.state is not UpgradeState.PROMOTING:
            return
        stop = self._request(RequestKind.STOP)
        if stop is None or stop.state is RequestState.FAILED:
            self._save(state=UpgradeState.ENDING)
            return
        self._save(failure=None)  # nothing was undone, so there is no failure to record
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
        # Several jobs may have a name that no user gave.
        self._registry.rename(shadow.job_id, self.upgrade.name, unique=old.has_given_name)
        self._done()

    def _successor(self) -> JobRecord:
        """Return the shadow of the ended job; raise if the shadow has failed or was canceled."""
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
        return shadow_job(self._context, self.upgrade)

    def _launch(self, old: JobRecord, launch: Launch, job_id: str) -> JobRecord:
        return launch_in_place_of(
            self._context,
            replace(old, name=shadow_name(old.name)),
            launch,
            unique_name=True,
            job_id=job_id,
        )


def shadow_job(context: Context, upgrade: Upgrade) -> JobRecord:
    """Return the current record of a shadow's job; raise if it has failed."""
    assert upgrade.new_job_id is not None
    job = look(context, context.registry.job(upgrade.new_job_id))
    return not_failed(context, job)


def check_promotable(context: Context, upgrade: Upgrade) -> None:
    """Raise WrongState, or a failed shadow's error, unless a shadow is SHADOWING and runs."""
    if upgrade.kind is not UpgradeKind.SHADOW:
        raise WrongState(f"upgrade {upgrade.upgrade_id} has no shadow", hint="")
    shadow = None if upgrade.new_job_id is None else shadow_job(context, upgrade)
    if (
        shadow is None
        or upgrade.state is not UpgradeState.SHADOWING
        or shadow.state is not JobState.RUNNING
    ):
        what = "not started yet" if shadow is None else shadow.state.value
        raise WrongState(
            f"the shadow of job {upgrade.name} cannot be promoted now: it is {what}, and its "
            f"upgrade is {upgrade.state.value}",
            hint=f"see: flinkish status {upgrade.new_job_id or upgrade.job_id}",
            job_id=upgrade.new_job_id or upgrade.job_id,
            state=upgrade.state.value if shadow is None else shadow.state.value,
        )


def shadow_name(name: str) -> str:
    """Return the name of a job's shadow. Pure."""
    return f"{name}-shadow"


def find_shadow(context: Context, job: JobRecord) -> Upgrade:
    """Return the unfinished upgrade whose shadow a job has or is; WrongState without one."""
    for upgrade in reversed(context.registry.upgrades_of(job.job_id)):
        if upgrade.kind is UpgradeKind.SHADOW and not upgrade.state.is_final:
            return upgrade
    raise WrongState(
        f"job {job.name} ({job.job_id}) has no shadow",
        hint=f"start one with: flinkish upgrade shadow {job.job_id} --to APP.py ARGS",
        job_id=job.job_id,
        state=job.state.value,
    )
