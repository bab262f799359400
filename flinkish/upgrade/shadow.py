"""A shadow: the new program runs alongside the old job, on a copy of its state, until a decision.

Flink calls it the shadow copy. The new program is restored from a savepoint of the job as another
job, with its own query ids and checkpoints, while the old job continues; its arguments make it
write elsewhere. When it has caught up it is promoted, which stops the old job with a savepoint, or
abandoned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from flinkish.client.context import Context
from flinkish.client.restarts import launch_in_place_of
from flinkish.client.waiting import STARTING, look, not_failed
from flinkish.errors import WrongState
from flinkish.messages.launch import Launch
from flinkish.messages.upgrades import Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.jobs import JobRecord, JobState, RequestKind
from flinkish.upgrade.execution import Execution
from flinkish.upgrade.steps import behind, lacking


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
        shadow = self._shadow()
        if self.upgrade.state is not UpgradeState.SHADOWING or shadow.state is not JobState.RUNNING:
            raise WrongState(
                f"the shadow of job {self.upgrade.name} cannot be promoted: it is "
                f"{shadow.state.value}, its upgrade {self.upgrade.state.value}",
                hint=f"see: flinkish status {shadow.job_id}",
                job_id=shadow.job_id,
                state=shadow.state.value,
            )
        # Without the request of an earlier promotion, which has failed.
        self._save(state=UpgradeState.PROMOTING, failure=None, request_id=None)

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
            "has not started its queries in",
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
        shadow = self._shadow()
        self._registry.rename(shadow.job_id, self.upgrade.name)
        self._done()

    def _shadow(self) -> JobRecord:
        """Return the current record of the new program's job; raise if it has failed."""
        assert self.upgrade.new_job_id is not None
        job = look(self._context, self._registry.job(self.upgrade.new_job_id))
        return not_failed(self._context, job)

    def _launch(self, old: JobRecord, launch: Launch, job_id: str) -> JobRecord:
        return launch_in_place_of(
            self._context,
            replace(old, name=shadow_name(old.name)),
            launch,
            unique_name=True,
            job_id=job_id,
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
